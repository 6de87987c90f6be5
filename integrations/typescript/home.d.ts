import { Client } from "./client.js";
import type { ClientOptions } from "./types.d.ts";
/**
 * A client of the server of a home: the one given, else that of FUSION_HOME, else the user's own. The server has to run.
 *
 * Each request is sent on a connection on which the server has proved that it knows the home's token: another program may
 * have taken the port of a server that has stopped.
 * @param {string} [home]
 * @param {Omit<ClientOptions, "apiKey" | "fetch">} [options]
 */
export declare function homeClient(home?: string, options?: Omit<ClientOptions, "apiKey" | "fetch">): Client;
/**
 * The folder of a home. A `.fusion` folder above the current one is not looked for: it may be another's.
 * @param {string} [home]
 */
export declare function homeFolder(home?: string): string;
export type Server = {
    url: URL;
    pid: number;
    token: string;
};

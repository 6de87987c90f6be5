export { Client } from "./client.js";
export { FusionError, UnreachableError } from "./errors.js";
export type CallOptions = import("./types.d.ts").CallOptions;
export type ClientOptions = import("./types.d.ts").ClientOptions;
export type Recalled = import("./types.d.ts").Recalled;
/** @typedef {import("./types.d.ts").CallOptions} CallOptions */
/** @typedef {import("./types.d.ts").ClientOptions} ClientOptions */
/** @typedef {import("./types.d.ts").Recalled} Recalled */

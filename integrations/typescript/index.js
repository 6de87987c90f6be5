// @ts-self-types="./index.d.ts"
// The client for Node, Deno, Bun and browsers; home.js finds the server of a home on this computer.
export { Client } from "./client.js";
export { FusionError, UnreachableError } from "./errors.js";
/** @typedef {import("./types.d.ts").CallOptions} CallOptions */
/** @typedef {import("./types.d.ts").ClientOptions} ClientOptions */
/** @typedef {import("./types.d.ts").Recalled} Recalled */

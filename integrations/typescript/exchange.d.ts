import type { Deadline } from "./deadline.js";
import type { Fetch } from "./types.d.ts";
/**
 * Sends a request and reads its reply. A redirect is an error: the server sends none, and the key is for it alone.
 * @param {Fetch} fetch
 * @param {string} url
 * @param {RequestInit} init
 * @param {Deadline} deadline
 * @param {number} maxReplyBytes
 * @returns {Promise<Record<string, unknown>>} the JSON object of a reply with a status of success
 */
export declare function exchange(fetch: Fetch, url: string, init: RequestInit, deadline: Deadline, maxReplyBytes: number): Promise<Record<string, unknown>>;
/**
 * Runs tries of a request that may be repeated, until one succeeds or another cannot help.
 * @template T
 * @param {() => Promise<T>} tryOnce
 * @param {number} retries
 * @param {Deadline} deadline
 * @returns {Promise<T>}
 */
export declare function repeat<T>(tryOnce: () => Promise<T>, retries: number, deadline: Deadline): Promise<T>;

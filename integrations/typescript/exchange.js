// @ts-self-types="./exchange.d.ts"
import { FusionError, UnreachableError, errorOf } from "./errors.js";
/** @import { Deadline } from "./deadline.js" */
/** @import { Fetch } from "./types.d.ts" */

const FIRST_WAIT_MS = 100; // before the second try after a broken connection; doubled for each further one
const MIN_WAIT_MS = 20; // of what a server asks for
const PASSING = new Set([429, 503]);

/**
 * Sends a request and reads its reply. A redirect is an error: the server sends none, and the key is for it alone.
 * @param {Fetch} fetch
 * @param {string} url
 * @param {RequestInit} init
 * @param {Deadline} deadline
 * @param {number} maxReplyBytes
 * @returns {Promise<Record<string, unknown>>} the JSON object of a reply with a status of success
 */
export async function exchange(fetch, url, init, deadline, maxReplyBytes) {
  const where = `${init.method} ${new URL(url).pathname}`;
  const { signal } = deadline;
  let response, text;
  try {
    response = await deadline.limit(fetch(url, { ...init, signal, redirect: "manual", credentials: "omit" }));
    text = await deadline.limit(readText(response, maxReplyBytes, where));
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof FusionError) throw error;
    const why = causeOf(error);
    throw new UnreachableError(`${where}: no reply (${why}). Is the server running? fusion serve starts it`, {
      passing: true,
      cause: error,
    });
  }
  const content = objectOf(text);
  if (content && response.ok) return content;
  if (content && response.status >= 400) throw errorOf(content, response.status, response.headers.get("retry-after"));
  const message = `${where}: what answers ${response.status} is not a memory-fusion server, or it is behind a proxy that is`;
  throw new UnreachableError(message, { status: response.status });
}

/**
 * Runs tries of a request that may be repeated, until one succeeds or another cannot help.
 * @template T
 * @param {() => Promise<T>} tryOnce
 * @param {number} retries
 * @param {Deadline} deadline
 * @returns {Promise<T>}
 */
export async function repeat(tryOnce, retries, deadline) {
  for (let tried = 0; ; tried += 1) {
    try {
      return await tryOnce();
    } catch (error) {
      const ms = waitBeforeNext(error, tried);
      if (ms === undefined || tried >= retries || ms >= deadline.leftMs) throw error;
      await deadline.limit(new Promise((resolve) => setTimeout(resolve, ms)));
    }
  }
}

/**
 * Milliseconds until the next try; undefined where another cannot help.
 * @param {unknown} error
 * @param {number} tried
 */
function waitBeforeNext(error, tried) {
  if (error instanceof UnreachableError) return error.passing ? FIRST_WAIT_MS * 2 ** tried * (0.5 + Math.random()) : undefined;
  if (!(error instanceof FusionError) || error.retryAfterMs === undefined) return undefined;
  const passes = PASSING.has(error.status) || error.kind === "KeyInUse";
  return passes ? Math.max(MIN_WAIT_MS, error.retryAfterMs) : undefined;
}

/**
 * The text of a reply. Rejects once it is longer than allowed, without reading the rest.
 * @param {Response} response
 * @param {number} maxBytes
 * @param {string} where
 */
async function readText(response, maxBytes, where) {
  if (!response.body) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.byteLength;
    if (bytes > maxBytes) {
      reader.cancel().catch(() => {});
      throw new UnreachableError(`${where}: the reply is longer than ${maxBytes} bytes`, { status: response.status });
    }
    text += decoder.decode(value, { stream: true });
  }
}

/**
 * @param {string} text
 * @returns {Record<string, unknown> | undefined}
 */
function objectOf(text) {
  try {
    const content = JSON.parse(text);
    return typeof content === "object" && content !== null && !Array.isArray(content) ? content : undefined;
  } catch {
    return undefined;
  }
}

/** @param {unknown} error */
function causeOf(error) {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return inner instanceof Error ? inner.message || inner.name : String(inner);
}

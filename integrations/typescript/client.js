// @ts-self-types="./client.d.ts"
import { Deadline } from "./deadline.js";
import { FusionError, UnreachableError } from "./errors.js";
import { exchange, repeat } from "./exchange.js";
/** @import { Body, CallOptions, ClientOptions, Method, PathOf, Query, Recalled, Reply, Requested, RouteOf, Scope } from "./types.d.ts" */

const URL_OF_SERVER = "http://127.0.0.1:8765";
const TIMEOUT_MS = 30_000;
const RETRIES = 2;
const MAX_REPLY_BYTES = 32 << 20;
const FORGET_MS = 300_000; // to delete 500 memories in every backend, and to verify it
const SETTLE_EXTRA_MS = 30_000; // that the client waits for `settle` longer than the server
const RECALL_MS = 200; // that a prompt waits for its memories
const SERVERS_SHARE = 0.75; // of that time, for the server's answer
const RECALL_RECIPE = "seed002"; // at most 15 facts in 500 tokens, below "## Long-Term Memories"
const MAX_TIMEOUT_MS = 60_000; // the longest deadline that the server accepts
const MAX_QUERY_CHARS = 32_000; // of the longest query that it accepts

/**
 * A client of a memory-fusion server.
 *
 * Parameters and replies have the names of the HTTP API. Every method rejects with a `FusionError`: the server's own, or
 * an `UnreachableError`. Only `recall` never rejects.
 */
export class Client {
  #url;
  #key;
  #fetch;
  #timeoutMs;
  #retries;
  #maxReplyBytes;

  /**
   * @param {string} [url]
   * @param {ClientOptions} [options]
   */
  constructor(url = URL_OF_SERVER, { apiKey, timeoutMs = TIMEOUT_MS, retries = RETRIES, maxReplyBytes = MAX_REPLY_BYTES, fetch } = {}) {
    this.#url = baseOf(url);
    this.#key = apiKey === undefined ? undefined : checkedKey(apiKey);
    this.#timeoutMs = timeoutMs;
    this.#retries = retries;
    this.#maxReplyBytes = maxReplyBytes;
    this.#fetch = fetch ?? globalThis.fetch;
  }

  /**
   * Sends a request to any route that replies with JSON. Values of the path are encoded.
   * @template {Method} M
   * @template {PathOf<M>} P
   * @param {M} method
   * @param {P} path as the API writes it: "/v1/why/{ref}"
   * @param {Requested<RouteOf<M, P>>} request
   * @returns {Promise<Reply<RouteOf<M, P>>>}
   */
  async request(method, path, ...request) {
    const { path: values, query, body, ...options } = /** @type {Loose} */ (request[0] ?? {});
    const url = this.#url + filled(path, values ?? {}) + searchOf(query ?? {});
    return /** @type {Promise<Reply<RouteOf<M, P>>>} */ (this.#send(method, url, body, options));
  }

  /**
   * Asks all memories; `block` of the reply goes into the prompt as it is.
   * @param {string} query
   * @param {Omit<Body<"POST /v1/fuse">, "query">} [fields]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /v1/fuse">>}
   */
  fuse(query, fields, options) {
    return this.request("POST", "/v1/fuse", { body: { ...fields, query }, ...options, repeatable: true });
  }

  /**
   * Asks all memories; the reply is a context pack, whose `bundle_text` goes into the prompt as it is.
   * @param {string} query
   * @param {Omit<Body<"POST /v1/pack">, "query">} [fields]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /v1/pack">>}
   */
  pack(query, fields, options) {
    return this.request("POST", "/v1/pack", { body: { ...fields, query }, ...options, repeatable: true });
  }

  /**
   * The raw hits of one backend.
   * @param {string} backend
   * @param {string} query
   * @param {Omit<Body<"POST /v1/search">, "backend" | "query">} [fields]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /v1/search">>}
   */
  search(backend, query, fields, options) {
    return this.request("POST", "/v1/search", { body: { ...fields, backend, query }, ...options, repeatable: true });
  }

  /**
   * The block of memories for a prompt, or the reason why there is none. It never rejects, and never takes longer than
   * `timeoutMs`, 200 by default.
   * @param {string} query
   * @param {Omit<Body<"POST /v1/fuse">, "query">} [fields]
   * @param {Omit<CallOptions, "idempotencyKey">} [options]
   * @returns {Promise<Recalled>}
   */
  async recall(query, fields, options) {
    try {
      const { timeoutMs = RECALL_MS, retries = 0, signal } = options ?? {};
      const serversMs = Math.min(Math.max(1, Math.floor(timeoutMs * SERVERS_SHARE)), MAX_TIMEOUT_MS);
      const asked = { recipe: RECALL_RECIPE, timeout_ms: serversMs, ...fields };
      const { block, abstained } = await this.fuse(shortened(query), asked, { timeoutMs, retries, signal });
      if (typeof block === "string" && block !== "") return { block, reason: null };
      return { block: "", reason: String(abstained || "nothing was found") };
    } catch (error) {
      return { block: "", reason: (error instanceof Error && error.message) || String(error) };
    }
  }

  /**
   * Keeps one memory or up to 100. They reach the backends in the background, usually within 100 ms.
   * Without an idempotency key it gets one of its own, so that further tries store nothing twice.
   * @param {Body<"POST /v1/memories">} memories
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /v1/memories">>}
   */
  remember(memories, options) {
    return this.request("POST", "/v1/memories", { body: memories, idempotencyKey: newKey(), ...options });
  }

  /**
   * One memory by its ref.
   * @param {string} ref
   * @param {Scope} [scope]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"GET /v1/memories/{ref}">>}
   */
  get(ref, scope, options) {
    return this.request("GET", "/v1/memories/{ref}", { path: { ref }, query: scope ?? {}, ...options });
  }

  /**
   * A page of what is remembered, newest first; `next_cursor` of one page is `cursor` of the next.
   * @param {Query<"GET /v1/memories">} [query]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"GET /v1/memories">>}
   */
  memories(query, options) {
    return this.request("GET", "/v1/memories", { query: query ?? {}, ...options });
  }

  /**
   * A page of a document that a hit names.
   * @param {string} path
   * @param {Omit<Query<"GET /v1/documents">, "path">} [query]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"GET /v1/documents">>}
   */
  document(path, query, options) {
    return this.request("GET", "/v1/documents", { query: { ...query, path }, ...options });
  }

  /**
   * Replaces a memory by a new version. `undo` with the reply's `batch` takes it back.
   * @param {string} ref
   * @param {Body<"PATCH /v1/memories/{ref}">} changes
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"PATCH /v1/memories/{ref}">>}
   */
  update(ref, changes, options) {
    return this.request("PATCH", "/v1/memories/{ref}", {
      path: { ref },
      body: changes,
      idempotencyKey: newKey(),
      ...options,
    });
  }

  /**
   * Forgets one memory everywhere; the reply says what each backend did.
   * @param {string} ref
   * @param {Scope} [scope]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"DELETE /v1/memories/{ref}">>}
   */
  forget(ref, scope, options) {
    const request = { path: { ref }, query: scope ?? {}, timeoutMs: FORGET_MS, ...options };
    return this.request("DELETE", "/v1/memories/{ref}", request);
  }

  /**
   * Forgets by refs, or all that matches every criterion; `dry_run` only shows it. Call again while `more` is true.
   * @param {Body<"POST /v1/forget">} criteria
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /v1/forget">>}
   */
  forgetMany(criteria, options) {
    return this.request("POST", "/v1/forget", { body: criteria, timeoutMs: FORGET_MS, ...options });
  }

  /**
   * Takes back what an ingest or an update added, by default the last one.
   * @param {Body<"POST /v1/undo">} [which]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /v1/undo">>}
   */
  undo(which, options) {
    return this.request("POST", "/v1/undo", { body: which ?? {}, timeoutMs: FORGET_MS, ...options });
  }

  /**
   * Archives or restores a memory, or changes its trust, lifetime, importance and so on; what is left out stays.
   * @param {string} ref
   * @param {Omit<Body<"POST /v1/state">, "ref">} changes
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /v1/state">>}
   */
  setState(ref, changes, options) {
    return this.request("POST", "/v1/state", { body: { ...changes, ref }, ...options });
  }

  /**
   * Where a memory comes from, what was decided on it, and the latest answers that had it.
   * @param {string} ref
   * @param {Query<"GET /v1/why/{ref}">} [query]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"GET /v1/why/{ref}">>}
   */
  why(ref, query, options) {
    return this.request("GET", "/v1/why/{ref}", { path: { ref }, query: query ?? {}, ...options });
  }

  /**
   * Says which memories of an answer were useful, by ref; replaces earlier feedback on it.
   * @param {string} receiptId
   * @param {Omit<Body<"POST /v1/feedback">, "receipt_id">} fields
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /v1/feedback">>}
   */
  feedback(receiptId, fields, options) {
    return this.request("POST", "/v1/feedback", {
      body: { ...fields, receipt_id: receiptId },
      ...options,
      repeatable: true,
    });
  }

  /**
   * Keeps the whole history of a session, after each of its turns; what is new or changed is taken in later.
   * @param {string} sessionId
   * @param {Body<"POST /ingest">["messages"]} messages
   * @param {Omit<Body<"POST /ingest">, "session_id" | "messages">} [fields]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /ingest">>}
   */
  ingest(sessionId, messages, fields, options) {
    const body = { ...fields, session_id: sessionId, messages };
    return this.request("POST", "/ingest", { body, ...options, repeatable: true });
  }

  /**
   * What is kept of a session: when it was taken in and asked, and how many facts it was shown.
   * @param {string} sessionId
   * @param {Omit<Query<"GET /v1/session">, "session_id">} [query]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"GET /v1/session">>}
   */
  session(sessionId, query, options) {
    return this.request("GET", "/v1/session", { query: { ...query, session_id: sessionId }, ...options });
  }

  /**
   * Waits until all that was remembered is delivered; `settled` of the reply says whether it was in time.
   * @param {number} [waitMs]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"POST /v1/settle">>}
   */
  settle(waitMs = TIMEOUT_MS, options) {
    const body = { timeout_s: waitMs / 1000 };
    return this.request("POST", "/v1/settle", { body, timeoutMs: waitMs + SETTLE_EXTRA_MS, ...options, repeatable: true });
  }

  /**
   * The state of the home: backends, backlog and sizes.
   * @param {Query<"GET /v1/status">} [query]
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"GET /v1/status">>}
   */
  status(query, options) {
    return this.request("GET", "/v1/status", { query: query ?? {}, ...options });
  }

  /**
   * Whether the server lives, with its process id and version.
   * @param {CallOptions} [options]
   * @returns {Promise<Reply<"GET /healthz">>}
   */
  health(options) {
    return this.request("GET", "/healthz", { ...options });
  }

  /**
   * @param {string} method
   * @param {string} url
   * @param {unknown} body
   * @param {CallOptions & { repeatable?: boolean | undefined }} options
   */
  async #send(method, url, body, { timeoutMs = this.#timeoutMs, retries = this.#retries, signal, idempotencyKey, repeatable }) {
    const headers = new Headers({ accept: "application/json" });
    if (this.#key !== undefined) headers.set("authorization", `Bearer ${this.#key}`);
    if (body !== undefined) headers.set("content-type", "application/json");
    if (idempotencyKey !== undefined) headers.set("idempotency-key", idempotencyKey);
    /** @type {RequestInit} */
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const mayRepeat = repeatable ?? (method === "GET" || idempotencyKey !== undefined);
    const deadline = new Deadline(timeoutMs, signal);
    try {
      const tryOnce = () => exchange(this.#fetch, url, init, deadline, this.#maxReplyBytes);
      return await repeat(tryOnce, mayRepeat ? retries : 0, deadline);
    } finally {
      deadline.release();
    }
  }
}

export { FusionError, UnreachableError };

/** @typedef {CallOptions & { path?: Record<string, unknown>, query?: Record<string, unknown>, body?: unknown, repeatable?: boolean }} Loose */

/**
 * The URL of a server without its last slash.
 * @param {string} url
 */
function baseOf(url) {
  const parsed = new URL(url);
  if (!/^https?:$/.test(parsed.protocol)) throw new TypeError("The URL of the server begins with http:// or https://");
  if (parsed.username || parsed.password) throw new TypeError("Give the key as apiKey, not in the URL of the server.");
  return parsed.origin + parsed.pathname.replace(/\/+$/, "");
}

/**
 * A key that fits into a header; an error of `Headers` would show it.
 * @param {string} key
 */
function checkedKey(key) {
  const trimmed = key.trim();
  if (!/^[!-~]+$/.test(trimmed)) throw new TypeError("apiKey is empty or has characters that no key has.");
  return trimmed;
}

/**
 * A path with its values. A value that is a dot segment would lead to another route, however it is encoded.
 * @param {string} path
 * @param {Record<string, unknown>} values
 */
function filled(path, values) {
  return path.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    if (typeof value !== "string" || /^\.{0,2}$/.test(value)) throw new TypeError(`${name} is no name of anything: ${value}`);
    return encodeURIComponent(value);
  });
}

/** @param {Record<string, unknown>} query */
function searchOf(query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
}

/**
 * The beginning and the end of a query that is longer than the server accepts.
 * @param {string} query
 */
function shortened(query) {
  const half = MAX_QUERY_CHARS / 2;
  return query.length > MAX_QUERY_CHARS ? query.slice(0, half) + query.slice(-half) : query;
}

/** A new idempotency key; `crypto.randomUUID` is not in pages without TLS. */
function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

import { FusionError, UnreachableError } from "./errors.js";
import type { Body, CallOptions, ClientOptions, Method, PathOf, Query, Recalled, Reply, Requested, RouteOf, Scope } from "./types.d.ts";
/**
 * A client of a memory-fusion server.
 *
 * Parameters and replies have the names of the HTTP API. Every method rejects with a `FusionError`: the server's own, or
 * an `UnreachableError`. Only `recall` never rejects.
 */
export declare class Client {
    #private;
    /**
     * @param {string} [url]
     * @param {ClientOptions} [options]
     */
    constructor(url?: string, { apiKey, timeoutMs, retries, maxReplyBytes, fetch }?: ClientOptions);
    /**
     * Sends a request to any route that replies with JSON. Values of the path are encoded.
     * @template {Method} M
     * @template {PathOf<M>} P
     * @param {M} method
     * @param {P} path as the API writes it: "/v1/why/{ref}"
     * @param {Requested<RouteOf<M, P>>} request
     * @returns {Promise<Reply<RouteOf<M, P>>>}
     */
    request<M extends Method, P extends PathOf<M>>(method: M, path: P, ...request: Requested<RouteOf<M, P>>): Promise<Reply<RouteOf<M, P>>>;
    /**
     * Asks all memories; `block` of the reply goes into the prompt as it is.
     * @param {string} query
     * @param {Omit<Body<"POST /v1/fuse">, "query">} [fields]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /v1/fuse">>}
     */
    fuse(query: string, fields?: Omit<Body<"POST /v1/fuse">, "query">, options?: CallOptions): Promise<Reply<"POST /v1/fuse">>;
    /**
     * Asks all memories; the reply is a context pack, whose `bundle_text` goes into the prompt as it is.
     * @param {string} query
     * @param {Omit<Body<"POST /v1/pack">, "query">} [fields]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /v1/pack">>}
     */
    pack(query: string, fields?: Omit<Body<"POST /v1/pack">, "query">, options?: CallOptions): Promise<Reply<"POST /v1/pack">>;
    /**
     * The raw hits of one backend.
     * @param {string} backend
     * @param {string} query
     * @param {Omit<Body<"POST /v1/search">, "backend" | "query">} [fields]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /v1/search">>}
     */
    search(backend: string, query: string, fields?: Omit<Body<"POST /v1/search">, "backend" | "query">, options?: CallOptions): Promise<Reply<"POST /v1/search">>;
    /**
     * The block of memories for a prompt, or the reason why there is none. It never rejects, and never takes longer than
     * `timeoutMs`, 200 by default.
     * @param {string} query
     * @param {Omit<Body<"POST /v1/fuse">, "query">} [fields]
     * @param {Omit<CallOptions, "idempotencyKey">} [options]
     * @returns {Promise<Recalled>}
     */
    recall(query: string, fields?: Omit<Body<"POST /v1/fuse">, "query">, options?: Omit<CallOptions, "idempotencyKey">): Promise<Recalled>;
    /**
     * Keeps one memory or up to 100. They reach the backends in the background, usually within 100 ms.
     * Without an idempotency key it gets one of its own, so that further tries store nothing twice.
     * @param {Body<"POST /v1/memories">} memories
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /v1/memories">>}
     */
    remember(memories: Body<"POST /v1/memories">, options?: CallOptions): Promise<Reply<"POST /v1/memories">>;
    /**
     * One memory by its ref.
     * @param {string} ref
     * @param {Scope} [scope]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"GET /v1/memories/{ref}">>}
     */
    get(ref: string, scope?: Scope, options?: CallOptions): Promise<Reply<"GET /v1/memories/{ref}">>;
    /**
     * A page of what is remembered, newest first; `next_cursor` of one page is `cursor` of the next.
     * @param {Query<"GET /v1/memories">} [query]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"GET /v1/memories">>}
     */
    memories(query?: Query<"GET /v1/memories">, options?: CallOptions): Promise<Reply<"GET /v1/memories">>;
    /**
     * A page of a document that a hit names.
     * @param {string} path
     * @param {Omit<Query<"GET /v1/documents">, "path">} [query]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"GET /v1/documents">>}
     */
    document(path: string, query?: Omit<Query<"GET /v1/documents">, "path">, options?: CallOptions): Promise<Reply<"GET /v1/documents">>;
    /**
     * Replaces a memory by a new version. `undo` with the reply's `batch` takes it back.
     * @param {string} ref
     * @param {Body<"PATCH /v1/memories/{ref}">} changes
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"PATCH /v1/memories/{ref}">>}
     */
    update(ref: string, changes: Body<"PATCH /v1/memories/{ref}">, options?: CallOptions): Promise<Reply<"PATCH /v1/memories/{ref}">>;
    /**
     * Forgets one memory everywhere; the reply says what each backend did.
     * @param {string} ref
     * @param {Scope} [scope]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"DELETE /v1/memories/{ref}">>}
     */
    forget(ref: string, scope?: Scope, options?: CallOptions): Promise<Reply<"DELETE /v1/memories/{ref}">>;
    /**
     * Forgets by refs, or all that matches every criterion; `dry_run` only shows it. Call again while `more` is true.
     * @param {Body<"POST /v1/forget">} criteria
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /v1/forget">>}
     */
    forgetMany(criteria: Body<"POST /v1/forget">, options?: CallOptions): Promise<Reply<"POST /v1/forget">>;
    /**
     * Takes back what an ingest or an update added, by default the last one.
     * @param {Body<"POST /v1/undo">} [which]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /v1/undo">>}
     */
    undo(which?: Body<"POST /v1/undo">, options?: CallOptions): Promise<Reply<"POST /v1/undo">>;
    /**
     * Archives or restores a memory, or changes its trust, lifetime, importance and so on; what is left out stays.
     * @param {string} ref
     * @param {Omit<Body<"POST /v1/state">, "ref">} changes
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /v1/state">>}
     */
    setState(ref: string, changes: Omit<Body<"POST /v1/state">, "ref">, options?: CallOptions): Promise<Reply<"POST /v1/state">>;
    /**
     * Where a memory comes from, what was decided on it, and the latest answers that had it.
     * @param {string} ref
     * @param {Query<"GET /v1/why/{ref}">} [query]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"GET /v1/why/{ref}">>}
     */
    why(ref: string, query?: Query<"GET /v1/why/{ref}">, options?: CallOptions): Promise<Reply<"GET /v1/why/{ref}">>;
    /**
     * Says which memories of an answer were useful, by ref; replaces earlier feedback on it.
     * @param {string} receiptId
     * @param {Omit<Body<"POST /v1/feedback">, "receipt_id">} fields
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /v1/feedback">>}
     */
    feedback(receiptId: string, fields: Omit<Body<"POST /v1/feedback">, "receipt_id">, options?: CallOptions): Promise<Reply<"POST /v1/feedback">>;
    /**
     * Keeps the whole history of a session, after each of its turns; what is new or changed is taken in later.
     * @param {string} sessionId
     * @param {Body<"POST /ingest">["messages"]} messages
     * @param {Omit<Body<"POST /ingest">, "session_id" | "messages">} [fields]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /ingest">>}
     */
    ingest(sessionId: string, messages: Body<"POST /ingest">["messages"], fields?: Omit<Body<"POST /ingest">, "session_id" | "messages">, options?: CallOptions): Promise<Reply<"POST /ingest">>;
    /**
     * What is kept of a session: when it was taken in and asked, and how many facts it was shown.
     * @param {string} sessionId
     * @param {Omit<Query<"GET /v1/session">, "session_id">} [query]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"GET /v1/session">>}
     */
    session(sessionId: string, query?: Omit<Query<"GET /v1/session">, "session_id">, options?: CallOptions): Promise<Reply<"GET /v1/session">>;
    /**
     * Waits until all that was remembered is delivered; `settled` of the reply says whether it was in time.
     * @param {number} [waitMs]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"POST /v1/settle">>}
     */
    settle(waitMs?: number, options?: CallOptions): Promise<Reply<"POST /v1/settle">>;
    /**
     * The state of the home: backends, backlog and sizes.
     * @param {Query<"GET /v1/status">} [query]
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"GET /v1/status">>}
     */
    status(query?: Query<"GET /v1/status">, options?: CallOptions): Promise<Reply<"GET /v1/status">>;
    /**
     * Whether the server lives, with its process id and version.
     * @param {CallOptions} [options]
     * @returns {Promise<Reply<"GET /healthz">>}
     */
    health(options?: CallOptions): Promise<Reply<"GET /healthz">>;
}
export { FusionError, UnreachableError };
export type Loose = CallOptions & {
    path?: Record<string, unknown>;
    query?: Record<string, unknown>;
    body?: unknown;
    repeatable?: boolean;
};

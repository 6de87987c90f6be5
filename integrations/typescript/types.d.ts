// The types of the client's own parameters; those of the server are in api.d.ts.
import type { Routes } from "./api.d.ts";

/** A method and a path of the server, "POST /v1/fuse". */
export type Route = keyof Routes;

export type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";

/** The paths that a method has. */
export type PathOf<M extends Method> = Route extends infer R ? (R extends `${M} ${infer P}` ? P : never) : never;

/** The route of a method and a path. */
export type RouteOf<M extends Method, P extends PathOf<M>> = Extract<`${M} ${P}`, Route>;

export type Body<R extends Route> = Routes[R]["body"];
export type Query<R extends Route> = Routes[R]["query"];
export type Reply<R extends Route> = Routes[R]["reply"];

/** What goes with one request and not to the server. */
export interface CallOptions {
  /** milliseconds for the whole call, further tries included */
  timeoutMs?: number | undefined;
  /** ends the call; it rejects with the reason of the signal */
  signal?: AbortSignal | undefined;
  /** further tries at most, where a try can do no harm */
  retries?: number | undefined;
  /** the same key with the same body stores once, however often it is sent: 1 to 255 visible characters */
  idempotencyKey?: string | undefined;
}

/** The values of one request by `Client.request`. */
export type Request<R extends Route> = Part<"path", Routes[R]["path"]> &
  Part<"query", Routes[R]["query"]> &
  Part<"body", Routes[R]["body"]> &
  CallOptions & {
    /** whether the request may be sent again: by default GET, and whatever has an idempotency key */
    repeatable?: boolean | undefined;
  };

/** The last argument of `Client.request`, which may be left out where the route needs no values. */
export type Requested<R extends Route> = {} extends Request<R> ? [request?: Request<R>] : [request: Request<R>];

/** A member that is required where its type has required members. */
type Part<Name extends string, Value> = [Value] extends [undefined]
  ? {}
  : {} extends Value
    ? { [name in Name]?: Value }
    : { [name in Name]: Value };

/** As the `fetch` of the platform, as far as the client uses it. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface ClientOptions {
  /** the token of the home (`fusion token` prints it), or an API key; sent as `Authorization: Bearer …` */
  apiKey?: string | undefined;
  /** milliseconds for each call, further tries included: 30,000 */
  timeoutMs?: number | undefined;
  /** further tries at most, where a try can do no harm: 2 */
  retries?: number | undefined;
  /** bytes of the longest reply that is read: 32 MiB */
  maxReplyBytes?: number | undefined;
  /** another implementation of fetch */
  fetch?: Fetch | undefined;
}

/** The answer of `Client.recall`: a block for the prompt, or the reason why it is empty. */
export type Recalled = { block: string; reason: null } | { block: ""; reason: string };

/** The scope of a memory: whose it is, and who may read it. */
export type Scope = Query<"GET /v1/memories/{ref}">;

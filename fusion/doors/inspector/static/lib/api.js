// Requests to the server. A lost server is waited for; a lost session is renewed or the user signs in.
import { useEffect, useState } from "./html.js";
import * as session from "./session.js";
import { store, useStore } from "./store.js";

/** online, offline or signed-out; `generation` grows when the server is back, so that views load again. */
export const connection = store({ state: "online", generation: 0 });

const PROBE_MS = [500, 1000, 2000, 5000];

/** A refusal of the server: its status, its title, its detail, which names the fix, and the users that one can name. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `HTTP ${status}`);
    this.status = status;
    this.users = body?.users ?? [];
  }
}

export class Offline extends Error {}

function become(state) {
  const now = connection.get();
  if (now.state === state) return;
  connection.set({ state, generation: now.generation + (state === "online" ? 1 : 0) });
  if (state === "offline") probe(0);
}

export const signedIn = () => become("online");

async function probe(tries) {
  await new Promise((resolve) => setTimeout(resolve, PROBE_MS[Math.min(tries, PROBE_MS.length - 1)]));
  try {
    const ready = await fetch("/readyz", { credentials: "omit" }); // without the session: it may be another program
    if (ready.ok) {
      const renewed = session.token() ? await session.renew() : true;
      become(renewed ? "online" : "signed-out");
      return;
    }
  } catch {
    // still away
  }
  probe(tries + 1);
}

/** A path with the parameters that have a value. */
export function address(path, query) {
  const search = new URLSearchParams(Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== "" && value !== null));
  return `${path}${search.size ? `?${search}` : ""}`;
}

let renewal = null;

/** Whether the session could be renewed, null without a server; requests that are refused together wait for one renewal. */
function renewed() {
  renewal ??= session
    .renew()
    .catch(() => null)
    .finally(() => {
      renewal = null;
    });
  return renewal;
}

/** `again` is true once the session was renewed for this request. */
async function request(method, path, { query, body, signal } = {}, again = false) {
  if (connection.get().state === "offline") throw new Offline(); // until a server has proved that it is the home's
  const headers = session.token() ? { authorization: `Bearer ${session.token()}` } : {};
  if (body !== undefined || method === "POST") headers["content-type"] = "application/json";
  const sent = method === "GET" || method === "DELETE" ? undefined : JSON.stringify(body ?? {});
  let reply;
  try {
    reply = await fetch(address(path, query), { method, headers, body: sent, signal, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    become("offline");
    throw new Offline();
  }
  if (reply.status === 401) {
    // The server may have been started again while this page asked nothing, as in a hidden tab.
    const anew = !again && (await renewed());
    if (anew) return request(method, path, { query, body, signal }, true);
    become(anew === null ? "offline" : "signed-out");
  }
  if (!reply.ok) throw new Problem(reply.status, await reply.json().catch(() => null));
  return reply;
}

async function json(method, path, options) {
  return (await request(method, path, options)).json();
}

export const get = (path, query, options) => json("GET", path, { query, ...options });
export const post = (path, body, options) => json("POST", path, { body, ...options });
export const patch = (path, body, options) => json("PATCH", path, { body, ...options });
export const remove = (path, query) => json("DELETE", path, { query });

/** Each line of a reply that comes piece by piece, as it comes. */
export async function* lines(path, body, options) {
  const reply = await request("POST", path, { body, ...options });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const parts = (rest + (value ?? "")).split("\n");
    rest = done ? "" : parts.pop();
    for (const part of parts) if (part.trim()) yield JSON.parse(part);
    if (done) return;
  }
}

/**
 * What `load(signal)` returns: {value, error, loading}. It is called again when `inputs` change, when the server is back,
 * and each `every` milliseconds while the tab is visible; an older call is given up. A value stays while the next one is
 * loaded, and after a failure if it is of the same inputs.
 */
export function useLoad(load, inputs, { every } = {}) {
  const { generation } = useStore(connection);
  const [again, setAgain] = useState(0);
  const [state, setState] = useState({ value: null, error: null, loading: true });
  const of = JSON.stringify(inputs);
  useEffect(() => {
    const abort = new AbortController();
    let timer;
    async function run() {
      try {
        const value = await load(abort.signal);
        if (!abort.signal.aborted) setState({ value, of, error: null, loading: false });
      } catch (error) {
        if (abort.signal.aborted) return;
        setState((now) => ({ ...now, value: now.of === of ? now.value : null, error: error instanceof Offline ? null : error, loading: false }));
      }
      if (every && !abort.signal.aborted) timer = setTimeout(whenVisible, every);
    }
    function whenVisible() {
      if (document.hidden) document.addEventListener("visibilitychange", run, { once: true, signal: abort.signal });
      else run();
    }
    setState((now) => ({ ...now, loading: true }));
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [generation, again, ...inputs]);
  return { value: state.value, error: state.error, loading: state.loading, reload: () => setAgain((count) => count + 1) };
}

// The newest answers, followed as they come.
import { get, useLoad } from "./api.js";
import { askScopeOf } from "./home.js";
import { useRef } from "./html.js";

const EVERY_MS = 1000;
const PAGE = 100;
/** answers that the page holds; older ones stay with the server */
const HELD = 500;

const nothing = (key) => ({ key, receipts: [], since: undefined, cursor: null });

/** The latest answers, the newest first; each second those that came since. At most `HELD` are kept, so the page does not grow. */
export function useTail({ session, user, paused }) {
  const query = { session_id: session, limit: PAGE, ...askScopeOf(user) };
  const key = JSON.stringify(query);
  const held = useRef(nothing(key));
  if (held.current.key !== key) held.current = nothing(key);
  const tail = held.current;

  const load = async (signal) => {
    if (paused && tail.since) return;
    const page = await get("/v1/receipts", { ...query, after: tail.since }, { signal });
    if (!tail.since) tail.cursor = page.next_cursor;
    tail.since = page.latest;
    const known = new Set(tail.receipts.map((one) => one.receipt_id));
    tail.receipts = [...page.receipts.filter((one) => !known.has(one.receipt_id)), ...tail.receipts].slice(0, HELD);
  };
  const { error, loading, reload } = useLoad(load, [key, paused], { every: EVERY_MS });

  async function earlier() {
    const page = await get("/v1/receipts", { ...query, cursor: tail.cursor });
    tail.cursor = page.next_cursor;
    tail.receipts = [...tail.receipts, ...page.receipts];
    reload();
  }
  return { receipts: tail.receipts, error, loading, earlier: tail.cursor && tail.receipts.length < HELD ? earlier : null };
}

/** The tokens that a block spares: what all candidates would take in full, each once, less the block; null if unknown. */
export const saved = (answer) => (answer.candidate_tokens === null ? null : Math.max(0, answer.candidate_tokens - answer.tokens));

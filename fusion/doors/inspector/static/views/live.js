// Live: the tail of answers as agents ask, and what went into a session turn by turn.
import { Chip, CopyCalls, Empty, Fault, Loading, When, command, curl } from "../parts/basics.js";
import { Receipt } from "../parts/receipt.js";
import { Rows } from "../parts/rows.js";
import { get, useLoad } from "../lib/api.js";
import { colours, scopeOf } from "../lib/home.js";
import { html, useMemo, useRef, useState } from "../lib/html.js";
import { change, go, href } from "../lib/route.js";
import { ms, number, opening, visible } from "../lib/text.js";
import { S } from "../strings.js";

const EVERY_MS = 1000;
const PAGE = 100;
/** answers that the page holds; older ones are fetched again when somebody scrolls there */
const HELD = 500;

export function Live({ route, status }) {
  const { session = "", user } = route.params;
  const [paused, setPaused] = useState(false);
  const tail = useTail({ session, user, paused });
  const colourOf = useMemo(() => colours((status?.backends ?? []).map((one) => one.name)), [status?.backends?.length]);
  const minute = tail.receipts.filter((one) => Date.now() - new Date(one.at) < 60_000).length;
  return html`
    <div class="head"><h1>${S.live.title}</h1><p class="lead">${session ? S.live.sessionLead(visible(session)) : S.live.lead}</p>
      <span class="push row">
        <${Chip}>${S.live.rate(minute)}<//>
        ${session && html`<button onClick=${() => change({ session: "" })}>${S.live.allSessions}</button>`}
        <button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? S.live.resume : S.live.pause}</button>
        <${CopyCalls} http=${curl("GET", `/v1/receipts${session ? `?session_id=${encodeURIComponent(session)}` : ""}`)} />
      </span>
    </div>
    <${Fault} error=${tail.error} />
    <div class=${route.ref ? "with-detail" : ""}>
      <section class="panel">
        ${tail.loading && !tail.receipts.length ? html`<${Loading} />` : !tail.receipts.length ? html`<${Empty} title=${S.live.nobody}><p>${S.live.nobodyLead}</p><//>` : html`
          <${Rows} label=${S.live.title} items=${tail.receipts} height=${64} row=${(one, place) => html`<${Row} key=${one.receipt_id} one=${one} place=${place} chosen=${route.ref} params=${route.params} colourOf=${colourOf} />`} />`}
      </section>
      ${route.ref && html`<${Receipt} id=${route.ref} user=${user} colourOf=${colourOf} onClose=${() => go("live", route.params)} />`}
    </div>
  `;
}

function Row({ one, place, chosen, params, colourOf }) {
  const { style, ...at } = place;
  return html`<div role="listitem" class="item" style=${style}><a class="cell" ...${at} aria-current=${one.receipt_id === chosen ? "true" : undefined} href=${href("live", { ...params, ref: one.receipt_id })}>
    <span class="line"><strong>${one.query ? opening(one.query, 200) : html`<span class="muted">${S.live.noQuery}</span>`}</strong></span>
    <span class="under small muted">
      <${When} at=${one.at} />
      <${Chip} tone=${one.memories ? "" : "warn"}>${one.memories ? `${number(one.memories)} / ${number(one.characters)}` : S.live.none}<//>
      <span>${ms(one.took_ms)}</span>
      ${one.session_id && html`<span class="mono">${visible(one.session_id).slice(0, 16)}</span>`}
      ${one.degraded && html`<${Chip} tone="warn">${S.ask.degraded}<//>`}
      ${(one.backends ?? []).map((backend) => html`<span key=${backend.name} class="dot ${["ok", "empty"].includes(backend.status) ? colourOf[backend.name] : ""}" title=${`${backend.name}: ${backend.status}`}></span>`)}
    </span>
  </a></div>`;
}

/** The newest answers; each second those that came since. At most `HELD` are kept, so the page does not grow. */
function useTail({ session, user, paused }) {
  const held = useRef([]);
  const since = useRef(undefined);
  const query = { session_id: session, limit: PAGE, ...scopeOf(user) };
  const key = JSON.stringify(query);
  const latest = useRef(key);
  if (latest.current !== key) {
    latest.current = key;
    held.current = [];
    since.current = undefined;
  }
  const load = async (signal) => {
    if (paused && held.current.length) return held.current;
    const page = await get("/v1/receipts", { ...query, after: since.current }, { signal });
    since.current = page.latest;
    const known = new Set(held.current.map((one) => one.receipt_id));
    held.current = [...page.receipts.filter((one) => !known.has(one.receipt_id)), ...held.current].slice(0, HELD);
    return held.current;
  };
  const { value, error, loading } = useLoad(load, [key, paused], { every: EVERY_MS });
  return { receipts: value ?? [], error, loading };
}

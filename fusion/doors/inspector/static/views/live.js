// Live: the tail of answers as agents ask, and what went into a session turn by turn.
import { Chip, CopyCalls, Empty, Fault, Loading, When, command, curl, useDetail } from "../parts/basics.js";
import { Receipt } from "../parts/receipt.js";
import { Rows } from "../parts/rows.js";
import { Turns } from "../parts/turns.js";
import { address } from "../lib/api.js";
import { askFlagsOf, askScopeOf, colours } from "../lib/home.js";
import { html, useMemo, useRef, useState } from "../lib/html.js";
import { change, go, href } from "../lib/route.js";
import { saved, useTail } from "../lib/tail.js";
import { ms, number, opening, visible } from "../lib/text.js";
import { S } from "../strings.js";

export function Live({ route, status }) {
  const { session = "", user } = route.params;
  useDetail(route.ref);
  const [paused, setPaused] = useState(false);
  const tail = useTail({ session, user, paused });
  const colourOf = useMemo(() => colours((status?.backends ?? []).map((one) => one.name)), [status?.backends?.length]);
  const minute = tail.receipts.filter((one) => Date.now() - new Date(one.at) < 60_000).length;
  return html`
    <div class="head"><h1>${S.live.title}</h1><p class="lead">${session ? S.live.sessionLead(visible(session)) : S.live.lead}</p>
      <span class="push row">
        <${Chip}>${S.live.rate(minute)}<//>
        <${Sessions} answers=${tail.receipts} chosen=${session} />
        ${session && html`<button onClick=${() => go("live", { user })}>${S.live.allSessions}</button>`}
        <button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? S.live.resume : S.live.pause}</button>
        <${CopyCalls} cli=${command("receipt", ...(session ? ["--session", session] : []), ...askFlagsOf(user))} http=${curl("GET", address("/v1/receipts", { session_id: session, ...askScopeOf(user) }))} />
      </span>
    </div>
    <${Fault} error=${tail.error} />
    <div class=${route.ref ? "with-detail" : ""}>
      ${session && tail.receipts.length ? html`<${Turns} answers=${tail.receipts} earlier=${tail.earlier} params=${route.params} chosen=${route.ref} />` : html`<section class="panel">
        ${tail.loading && !tail.receipts.length ? html`<${Loading} />` : !tail.receipts.length ? html`<${Empty} title=${S.live.nobody}><p>${S.live.nobodyLead}</p><//>` : html`
          <${Rows} label=${S.live.title} items=${tail.receipts} height=${64} row=${(one, place) => html`<${Row} key=${one.receipt_id} one=${one} place=${place} chosen=${route.ref} params=${route.params} colourOf=${colourOf} />`} />`}
      </section>`}
      ${route.ref && html`<${Receipt} id=${route.ref} user=${user} colourOf=${colourOf} onClose=${() => go("live", route.params)} />`}
    </div>
  `;
}

/** Choose a session: those that asked lately are offered. */
function Sessions({ answers, chosen }) {
  const known = useRef(new Set());
  for (const one of answers) if (one.session_id) known.current.add(one.session_id);
  return html`<label class="row small">${S.live.session}
    <input key=${chosen} list="sessions" defaultValue=${chosen} onChange=${(event) => change({ session: event.target.value.trim(), ref: "" })} />
    <datalist id="sessions">${[...known.current].map((id) => html`<option key=${id} value=${id}></option>`)}</datalist>
  </label>`;
}

function Row({ one, place, chosen, params, colourOf }) {
  const { style, ...at } = place;
  return html`<div role="listitem" class="item" style=${style}><a class="cell" ...${at} aria-current=${one.receipt_id === chosen ? "true" : undefined} href=${href("live", { ...params, ref: one.receipt_id })}>
    <span class="line"><strong>${one.query ? opening(one.query, 200) : html`<span class="muted">${S.live.noQuery}</span>`}</strong></span>
    <span class="under small muted">
      <${When} at=${one.at} />
      ${(one.backends ?? []).map((backend) => html`<span key=${backend.name} class="dot ${["ok", "empty"].includes(backend.status) ? colourOf[backend.name] : ""}" title=${`${backend.name}: ${backend.status}`}></span>`)}
      <span>${ms(one.took_ms)}</span>
      <${Chip} tone=${one.memories ? "" : "warn"}>${one.memories ? S.live.packed(one.memories, one.characters) : S.live.none}<//>
      <span>${S.live.tokens(one.tokens, saved(one))}</span>
      ${one.session_id && html`<span class="mono">${visible(one.session_id).slice(0, 16)}</span>`}
      ${one.degraded && html`<${Chip} tone="warn">${S.ask.degraded}<//>`}
    </span>
  </a></div>`;
}

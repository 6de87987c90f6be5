// Memories: browse and filter all that is remembered, and one memory whole.
import { Act, Chip, Copy, CopyCalls, Empty, Fault, Loading, When, command, curl, say, useDetail } from "../parts/basics.js";
import { BulkDialog } from "../parts/bulk.js";
import { Memory } from "../parts/memory.js";
import { Rows } from "../parts/rows.js";
import { address, get, useLoad } from "../lib/api.js";
import { flagsOf, scopeOf } from "../lib/home.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { change, go, href } from "../lib/route.js";
import { opening, visible } from "../lib/text.js";
import { S } from "../strings.js";

const KINDS = ["rule", "procedure", "fact", "episode", "preference", "decision", "plan", "note", "turn"];
const TRUSTS = ["trusted", "unknown", "untrusted", "quarantined"];
const STATES = ["current", "archived", "superseded", "retired", "expired", "decayed", "lost", "merged", "quarantined", "all"];
/** the flags of `fusion memories`, by the filters of the address */
const FLAGS = { q: "--find", kind: "--kind", trust: "--trust", origin: "--origin", state: "--state", backend: "--backend", order: "--order", source: "--source", session: "--session", document: "--document", importance: "--min-importance", from: "--after", to: "--before", in_project: "--in-project", tag: "--tag" };
const PAGE = 100;
/** memories of one bulk action at most, as `POST /v1/states` takes them */
const MOST_CHOSEN = 100;
const TYPING_MS = 200;

export function Memories({ route, status }) {
  const { user, tab, ref: unused, ...filters } = route.params;
  const query = useMemo(() => ({ ...named(filters), ...scopeOf(user), limit: PAGE }), [JSON.stringify(filters), user]);
  const list = usePages("/v1/memories", query);
  const [chosen, setChosen] = useState(new Set());
  const [bulk, setBulk] = useState(null);
  const backends = (status?.backends ?? []).map((one) => one.name);

  useDetail(route.ref);
  useEffect(() => setChosen(new Set()), [JSON.stringify(query)]);

  const first = list.items.slice(0, MOST_CHOSEN).map((one) => one.ref);
  const isAll = first.length > 0 && first.every((ref) => chosen.has(ref));

  function choose(ref) {
    const next = new Set(chosen);
    if (!next.delete(ref)) next.add(ref);
    const isFull = next.size > MOST_CHOSEN;
    if (isFull) say(S.memories.tooMany(MOST_CHOSEN), { tone: "bad" });
    setChosen(isFull ? new Set(chosen) : next); // another set, so that the box of the one too many is drawn again
  }

  return html`
    <div class="head"><h1>${S.memories.title}</h1><p class="lead">${S.memories.lead}</p>
      <span class="push"><${CopyCalls} cli=${commandOf(filters, user)} http=${curl("GET", address("/v1/memories", query))} /></span></div>
    <section class="panel"><div class="body"><${Filters} filters=${filters} user=${user} backends=${backends} /></div></section>
    <div class="row">
      ${first.length > 0 && html`<label class="row small"><input type="checkbox" checked=${isAll} onChange=${() => setChosen(new Set(isAll ? [] : first))} />${S.memories.chooseAll(first.length)}</label>`}
      <span class="muted small" role="status">${S.memories.count(list.items.length, list.more)}</span>
      ${chosen.size > 0 && html`<${Chip} tone="accent">${S.memories.selected(chosen.size)}<//>
        <${Act} needs="operator" onClick=${() => setBulk("state")}>${S.memories.bulkState}<//>
        <${Act} needs="operator" onClick=${() => setBulk("archive")}>${S.memories.bulkArchive}<//>
        <${Act} needs="operator" onClick=${() => setBulk("revive")}>${S.memories.bulkRevive}<//>
        <${Act} needs="writer" class="danger" onClick=${() => setBulk("forget")}>${S.memories.bulkForget}<//>`}
    </div>
    <${Fault} error=${list.error} />
    <div class="with-detail">
      <section class="panel">
        ${list.loading && !list.items.length ? html`<${Loading} />` : !list.items.length ? html`<${Empty} title=${S.memories.none}><p>${S.memories.noneLead}</p><code>fusion remember "We deploy on Tuesdays."</code><//>` : html`
          <${Rows} label=${S.memories.title} items=${list.items} height=${60} onEnd=${list.onEnd} row=${(one, place) => html`<${Row} key=${one.ref} one=${one} place=${place} params=${route.params} open=${one.ref === route.ref} isChosen=${chosen.has(one.ref)} onChoose=${() => choose(one.ref)} />`} />`}
      </section>
      ${route.ref ? html`<${Memory} key=${route.ref} memoryRef=${route.ref} user=${user} onChanged=${list.reload} onClose=${() => go("memories", route.params)} />` : html`<section class="panel detail unchosen"><${Empty} title=${S.memories.choose}><p>${S.memories.chooseLead}</p><//></section>`}
    </div>
    ${bulk && html`<${BulkDialog} action=${bulk} refs=${[...chosen]} texts=${textsOf(list.items, chosen)} scope=${scopeOf(user)} onClose=${() => setBulk(null)} onDone=${() => { setBulk(null); setChosen(new Set()); list.reload(); }} />`}
  `;
}

const textsOf = (items, refs) => Object.fromEntries(items.filter((one) => refs.has(one.ref)).map((one) => [one.ref, one.text]));

/** The command that lists the same; null where it has no flag for a filter. */
function commandOf(filters, user) {
  const set = Object.entries(filters).filter(([, value]) => value);
  return set.every(([name]) => name in FLAGS) ? command("memories", ...set.flatMap(([name, value]) => [FLAGS[name], value]), ...flagsOf(user)) : null;
}

/** The filters as `GET /v1/memories` names them. */
function named({ session, importance, from, to, ...others }) {
  return { ...others, ...(session && { session_id: session }), ...(importance && { min_importance: importance }), ...(from && { after: from }), ...(to && { before: to }) };
}

function Filters({ filters, user, backends }) {
  const timer = useRef(null);
  const set = (name) => (event) => change({ [name]: event.target.value }, { replace: true });
  function typed(event) {
    const { value } = event.target;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => change({ q: value }, { replace: true }), TYPING_MS);
  }
  const select = (name, text, values) => html`<label class="field">${text}<select value=${filters[name] ?? ""} onChange=${set(name)}><option value="">${S.memories.any}</option>${values.map((value) => html`<option key=${value} value=${value}>${visible(value)}</option>`)}</select></label>`;
  return html`<div class="row">
    <label class="field grow">${S.memories.find}<input type="search" defaultValue=${filters.q ?? ""} onInput=${typed} /></label>
    ${select("kind", S.memories.kind, KINDS)}
    ${select("trust", S.memories.trust, TRUSTS)}
    ${select("state", S.memories.state, STATES)}
    ${select("backend", S.memories.backend, backends)}
    <label class="field">${S.memories.order}<select value=${filters.order ?? ""} onChange=${set("order")}>${Object.entries(S.memories.orders).map(([name, text]) => html`<option key=${name} value=${name === "recorded" ? "" : name}>${text}</option>`)}</select></label>
    <details class="grow"><summary class="small muted">${S.more}</summary><div class="row">
      <label class="field">${S.memories.source}<input value=${filters.source ?? ""} onChange=${set("source")} /></label>
      <label class="field">${S.memories.session}<input value=${filters.session ?? ""} onChange=${set("session")} /></label>
      <label class="field">${S.memories.importance}<input type="number" min="0" max="1" step="0.1" value=${filters.importance ?? ""} onChange=${set("importance")} /></label>
      <label class="field">${S.memories.from}<input type="date" value=${filters.from ?? ""} onChange=${set("from")} /></label>
      <label class="field">${S.memories.to}<input type="date" value=${filters.to ?? ""} onChange=${set("to")} /></label>
      <button type="button" class="plain" onClick=${() => go("memories", { user })}>${S.memories.clear}</button>
    </div></details>
  </div>`;
}

function Row({ one, place, params, open, isChosen, onChoose }) {
  const { style, ...at } = place;
  return html`<div role="listitem" class="item" style=${{ ...style, gridTemplateColumns: "auto minmax(0, 1fr)" }}>
    <input type="checkbox" aria-label=${S.memories.select} checked=${isChosen} onChange=${onChoose} />
    <a class="cell" ...${at} aria-current=${open ? "true" : undefined} href=${href("memories", { ...params, ref: one.ref })}>
      <span class="line">${opening(one.text, 220)}</span>
      <span class="under small muted"><span class="mono">${visible(one.ref)}</span><span>${visible(one.kind)}</span><${When} at=${one.at ?? one.recorded_at} />
        ${one.trust !== "unknown" && html`<${Chip} tone=${one.trust === "trusted" ? "good" : "warn"}>${visible(one.trust)}<//>`}
        ${one.status && one.status !== "current" && html`<${Chip} tone="warn">${visible(one.status)}<//>`}
        <span class="line">${visible(one.document ?? one.source ?? "")}</span></span>
    </a>
  </div>`;
}

/** All pages of a list that were asked for so far. */
function usePages(path, query) {
  const key = JSON.stringify(query);
  const [rest, setRest] = useState({ key, items: [], cursor: undefined });
  const first = useLoad((signal) => get(path, query, { signal }), [key]);
  const loading = useRef(false);
  const own = rest.key === key && rest.first === first.value ? rest : { items: [], cursor: first.value?.next_cursor };
  const onEnd = useCallback(async () => {
    if (!own.cursor || loading.current) return;
    loading.current = true;
    try {
      const page = await get(path, { ...query, cursor: own.cursor });
      setRest({ key, first: first.value, items: [...own.items, ...page.memories], cursor: page.next_cursor });
    } catch (error) {
      say(error.message, { tone: "bad" });
    } finally {
      loading.current = false;
    }
  }, [key, first.value, own.cursor, own.items.length]);
  return { items: [...(first.value?.memories ?? []), ...own.items], more: Boolean(own.cursor), loading: first.loading, error: first.error, reload: first.reload, onEnd };
}

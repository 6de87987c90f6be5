// Who read, changed and forgot memories: the access log, by kind, by memory and by user.
import { address, get, useLoad } from "../lib/api.js";
import { flagsOf, scopeOf } from "../lib/home.js";
import { html, useState } from "../lib/html.js";
import { change, href } from "../lib/route.js";
import { number, visible } from "../lib/text.js";
import { S } from "../strings.js";
import { CopyCalls, Fault, Loading, Only, When, command, curl } from "./basics.js";

const REFS = 5;

/** `did` and `of` are parameters of the address: the kind of access, and the ref of a memory. */
export function Accesses({ user, did = "", of = "" }) {
  const query = { action: did, ref: of, ...scopeOf(user) };
  const flags = [...(did ? ["--action", did] : []), ...(of ? ["--ref", of] : []), ...flagsOf(user)];
  return html`<section class="panel" aria-label=${S.accesses.title}>
    <header><h2>${S.accesses.title}</h2><span class="push"><${CopyCalls} cli=${command("audit", ...flags)} http=${curl("GET", address("/v1/audit", query))} /></span></header>
    <div class="body"><${Only} needs="operator">
      <div class="row">
        <label class="field">${S.accesses.did}<select value=${did} onChange=${(event) => change({ did: event.target.value }, { replace: true })}>
          <option value="">${S.accesses.all}</option>${Object.entries(S.accesses.actions).map(([name, text]) => html`<option key=${name} value=${name}>${text}</option>`)}
        </select></label>
        <label class="field">${S.accesses.of}<input value=${of} placeholder="m1z" onChange=${(event) => change({ of: event.target.value.trim() }, { replace: true })} /></label>
      </div>
      <${List} key=${JSON.stringify(query)} query=${query} user=${user} />
    <//></div>
  </section>`;
}

function List({ query, user }) {
  const { value, error } = useLoad((signal) => get("/v1/audit", { limit: 25, ...query }, { signal }), [JSON.stringify(query)]);
  const [older, setOlder] = useState({ accesses: [], next: undefined, error: null });
  const next = older.next === undefined ? value?.next_cursor : older.next;
  async function more() {
    try {
      const page = await get("/v1/audit", { limit: 100, cursor: next, ...query });
      setOlder({ accesses: [...older.accesses, ...page.accesses], next: page.next_cursor, error: null });
    } catch (failed) {
      setOlder({ ...older, error: failed });
    }
  }
  if (!value) return error ? html`<${Fault} error=${error} />` : html`<${Loading} />`;
  const all = [...value.accesses, ...older.accesses];
  const C = S.accesses.columns;
  return html`
    <${Fault} error=${error ?? older.error} />
    ${value.fault && html`<div class="notice warn" role="status">${visible(value.fault)}</div>`}
    ${all.length
      ? html`<div class="scroll"><table>
          <thead><tr><th>${C.at}</th><th>${C.did}</th><th>${C.key}</th><th>${C.door}</th><th>${C.user}</th><th>${C.what}</th></tr></thead>
          <tbody>${all.map((one, at) => html`<tr key=${at}>
            <td><${When} at=${one.at} exact /></td>
            <td title=${visible(one.call)}>${S.accesses.actions[one.action] ?? visible(one.action)}${one.outcome !== "ok" && html` <span class="small muted">${visible(one.outcome)}</span>`}</td>
            <td title=${visible(one.key_id)}>${visible(one.key)}</td><td>${visible(one.door)}</td><td>${visible(one.user_id ?? "")}</td>
            <td><${What} one=${one} user=${user} /></td>
          </tr>`)}</tbody>
        </table></div>`
      : html`<p class="muted">${S.accesses.none}</p>`}
    ${next && html`<button type="button" onClick=${more}>${S.accesses.older}</button>`}
  `;
}

/** The memories of an access, each a link; else its answer or its call. */
function What({ one, user }) {
  if (one.receipt_id) return html`<a class="mono" href=${href("live", { ref: one.receipt_id, user })}>${visible(one.receipt_id)}</a>`;
  if (!one.refs.length) return html`<span class="muted">${one.action === "gap" ? S.accesses.lost(one.count) : visible(one.call)}</span>`;
  return html`<span class="row">${one.refs.slice(0, REFS).map((ref) => html`<a key=${ref} class="mono" href=${href("memories", { ref, user })}>${visible(ref)}</a>`)}
    ${one.count > REFS && html`<span class="small muted">${S.accesses.more(number(one.count - REFS))}</span>`}</span>`;
}

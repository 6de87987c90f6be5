// One memory whole: its text, what it is, where it was used, its history, what stands around it, and its copies.
import { Offline, Problem, address, get, patch, post, remove, useLoad } from "../lib/api.js";
import { flagsOf, scopeOf } from "../lib/home.js";
import { html, useState } from "../lib/html.js";
import { change, href, useRoute } from "../lib/route.js";
import { number, visible, words } from "../lib/text.js";
import { S } from "../strings.js";
import { Act, Chip, CopyCalls, Dialog, Fault, Loading, Said, Tabs, When, command, curl, say } from "./basics.js";
import { BulkDialog, Preview } from "./bulk.js";
import { Decision, undoDecision, undoEdit } from "./decisions.js";

const at = (ref) => `/v1/memories/${encodeURIComponent(ref)}`;

export function Memory({ memoryRef: ref, user, onChanged, onClose }) {
  const scope = scopeOf(user);
  const memory = useLoad((signal) => get(at(ref), scope, { signal }), [ref, user]);
  const { tab: show = "what" } = useRoute().params;
  const [doing, setDoing] = useState(null);
  const one = memory.value;

  function changed() {
    setDoing(null);
    memory.reload();
    onChanged?.();
  }

  if (memory.error) return html`<section class="panel detail"><div class="body"><${Fault} error=${memory.error} /><div><button onClick=${onClose}>${S.close}</button></div></div></section>`;
  if (!one) return html`<section class="panel detail"><${Loading} /></section>`;
  const { ended } = one.state ?? {};
  return html`<section class="panel detail" aria-label=${visible(ref)}>
    <header>
      <h2 class="mono">${visible(ref)}</h2>
      <${Chip}>${visible(one.kind)}<//>
      ${one.trust !== "unknown" && html`<${Chip} tone=${one.trust === "trusted" ? "good" : "warn"}>${visible(one.trust)}<//>`}
      ${ended && html`<${Chip} tone="warn">${words(ended)}<//>`}
      <button class="plain push" aria-label=${S.close} onClick=${onClose}>✕</button>
    </header>
    <div class="body">
      ${one.current === false && html`<div class="notice warn">${S.memories.superseded} ${one.superseded_by && html`<a href=${href("memories", { ref: one.superseded_by, user })}>${visible(one.superseded_by)}</a>`}</div>`}
      <${Said} text=${one.text} limit=${4000} />
      <div class="row">
        <${Act} needs="writer" onClick=${() => setDoing("edit")}>${S.memories.edit}<//>
        <${Act} needs="operator" onClick=${() => setDoing("state")}>${S.memories.setTrust}, ${S.memories.setImportance}<//>
        <${Act} needs="operator" onClick=${() => archive(ref, !ended, scope, changed)}>${ended ? S.memories.revive : S.memories.archive}<//>
        <${Act} needs="writer" class="danger" onClick=${() => setDoing("forget")}>${S.memories.forget}<//>
        <span class="push"><${CopyCalls} cli=${command("why", ref, ...flagsOf(user))} http=${curl("GET", address(at(ref), scope))} /></span>
      </div>
      <${Tabs} label=${visible(ref)} chosen=${show} onChoose=${(tab) => change({ tab }, { replace: true })} tabs=${Object.entries(S.memories.tabs)} />
      ${show === "what" && html`<${What} one=${one} user=${user} />`}
      ${show === "around" && html`<${Around} one=${one} user=${user} scope=${scope} />`}
      ${["used", "history", "copies"].includes(show) && html`<${Why} memoryRef=${ref} scope=${scope} show=${show} user=${user} onUndone=${changed} />`}
    </div>
    ${doing === "edit" && html`<${Edit} one=${one} scope=${scope} onClose=${() => setDoing(null)} onDone=${changed} />`}
    ${doing === "state" && html`<${BulkDialog} action="state" refs=${[one.ref]} now=${{ trust: one.trust, importance: one.grade?.importance }} scope=${scope} onClose=${() => setDoing(null)} onDone=${changed} />`}
    ${doing === "forget" && html`<${Forget} memoryRef=${ref} scope=${scope} onClose=${() => setDoing(null)} onDone=${() => { setDoing(null); onChanged?.(); onClose(); }} />`}
  </section>`;
}

async function archive(ref, archived, scope, done) {
  try {
    const reply = await post("/v1/state", { ref, archived, why: "inspector", ...scope });
    say(archived ? S.memories.archived : S.memories.revived, { undo: reply.decision && (() => undoDecision(reply.decision.id, done)) });
    done();
  } catch (error) {
    say(error.message, { tone: "bad" });
  }
}

function What({ one, user }) {
  const F = S.memories.facts;
  const state = one.state ?? {};
  const scope = one.scope ?? {};
  const pairs = [
    [F.at, one.at && html`<${When} at=${one.at} />`],
    [F.recorded, html`<${When} at=${one.recorded_at} />`],
    [F.source, one.source && html`<a href=${href("memories", { source: one.source, user })}>${visible(one.source)}</a>`],
    [F.document, visible(one.document ?? "")],
    [F.speaker, visible(one.speaker ?? "")],
    [F.trust, visible(one.trust)],
    [F.origin, visible(one.origin)],
    [F.user, visible(scope.user_id ?? "")],
    [F.agent, visible(scope.agent_id ?? "")],
    [F.session, scope.session_id && html`<a href=${href("live", { session: scope.session_id, user })}>${visible(scope.session_id)}</a>`],
    [F.importance, one.grade?.importance ?? state.importance],
    [F.lifetime, state.lifetime],
    [F.tags, (state.tags ?? one.tags ?? []).map((tag) => html`<${Chip} key=${tag}>${visible(tag)}<//>`)],
    [F.due, one.due?.at && html`<${When} at=${one.due.at} />`],
    [F.included, one.included !== undefined && number(one.included)],
    [F.retrieved, one.retrieved !== undefined && number(one.retrieved)],
  ];
  return html`<dl class="pairs">${pairs.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false && value.length !== 0).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

/** Where it was used, what was decided about it, and its copy in each store. */
function Why({ memoryRef: ref, scope, show, user, onUndone }) {
  const { value: why, error } = useLoad((signal) => get(`/v1/why/${encodeURIComponent(ref)}`, scope, { signal }), [ref]);
  if (error) return html`<${Fault} error=${error} />`;
  if (!why) return html`<${Loading} />`;
  if (show === "copies") {
    return html`<p class="muted small">${S.memories.copiesLead}</p><dl class="pairs">${Object.entries(why.copies).map(([name, state]) => html`<dt>${visible(name)}</dt><dd><${Chip} tone=${state === "done" ? "good" : "warn"}>${visible(state)}<//></dd>`)}</dl>`;
  }
  if (show === "used") {
    if (!why.inclusions.length) return html`<p class="muted">${S.memories.notUsed}</p>`;
    return html`<ul class="history">${why.inclusions.map((one) => html`<li key=${one.receipt_id}><span class="row small"><${When} at=${one.at} /><a class="mono" href=${href("live", { ref: one.receipt_id, user })}>${visible(one.receipt_id)}</a><${Chip}>${visible(one.kind)}, ${S.memories.place(one.place)}<//></span><span class="small">${visible(one.why)}</span></li>`)}</ul>`;
  }
  if (!why.changes.length) return html`<p class="muted">${S.memories.noHistory}</p>`;
  return html`<ol class="history">${why.changes.map((one) => html`<${Decision} key=${one.id} one=${one} user=${user} onUndone=${onUndone} />`)}</ol>`;
}

/** What it states, and the lines or turns around it in its document. */
function Around({ one, user, scope }) {
  const { value, error } = useLoad((signal) => post("/v1/timeline", { refs: [one.ref], ...scope }, { signal }), [one.ref]);
  if (error) return html`<${Fault} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  return html`<${Stated} memoryRef=${one.ref} scope=${scope} user=${user} /><ol class="history">${value.entries.map((entry) => html`<li key=${entry.ref} class="small"><span class="row"><a class="mono" href=${href("memories", { ref: entry.ref, user })}>${visible(entry.ref)}</a><${When} at=${entry.ts} /><${Chip} tone=${entry.anchor ? "accent" : ""}>${visible(entry.by)}<//></span><${Said} text=${entry.line} limit=${500} /></li>`)}</ol>`;
}

/** The triples that graphs got of it, each with a way to its subject. */
function Stated({ memoryRef: ref, scope, user }) {
  const { value: why } = useLoad((signal) => get(`/v1/why/${encodeURIComponent(ref)}`, scope, { signal }), [ref]);
  if (!why?.facts.length) return null;
  return html`<h3>${S.memories.stated}</h3><ul class="history">${why.facts.map((one, n) => html`<li key=${n} class="small"><a href=${href("graph", { entity: one.subject, user })}>${visible(one.subject)}</a> ${visible(one.predicate)} <a href=${href("graph", { entity: one.object, user })}>${visible(one.object)}</a></li>`)}</ul>`;
}

/** A new version takes the place of the old one. Who edits a version that somebody has replaced is told so. */
function Edit({ one, scope, onClose, onDone }) {
  const [error, setError] = useState(null);
  const [text, setText] = useState(one.text);
  async function submit() {
    try {
      const now = await get(at(one.ref), scope);
      if (now.text !== one.text || now.current === false) {
        setError(new Problem(409, { detail: S.memories.conflict }));
        return;
      }
      const { batch } = await patch(at(one.ref), { text, ...scope });
      say(S.memories.edited, { undo: batch && (() => undoEdit(batch, scope, onDone)) });
      onDone();
    } catch (failed) {
      setError(failed instanceof Problem && failed.status === 409 ? new Problem(409, { detail: S.memories.conflict }) : failed);
    }
  }
  return html`<${Dialog} title=${S.memories.editTitle} submit=${S.save} onSubmit=${submit} onClose=${onClose} busy=${text === one.text}>
    <p class="muted">${S.memories.editLead}</p>
    <label class="field"><span class="hidden">${S.memories.edit}</span><textarea rows="9" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
    <${Fault} error=${error instanceof Offline ? null : error} />
  <//>`;
}

/** What forgetting would delete is shown first. */
function Forget({ memoryRef: ref, scope, onClose, onDone }) {
  const preview = useLoad((signal) => post("/v1/forget", { refs: [ref], dry_run: true, ...scope }, { signal }), [ref]);
  const [error, setError] = useState(null);
  async function submit() {
    try {
      await remove(at(ref), scope);
      say(S.memories.forgotten(1));
      onDone();
    } catch (failed) {
      setError(failed);
    }
  }
  return html`<${Dialog} title=${S.memories.forgetTitle} submit=${S.memories.forget} danger busy=${!preview.value} onSubmit=${submit} onClose=${onClose}>
    <p>${S.memories.forgetLead}</p>
    <${Preview} reply=${preview.value} />
    <${Fault} error=${error ?? preview.error} />
  <//>`;
}

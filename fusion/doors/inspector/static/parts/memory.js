// One memory whole: its text, what it is, where it was used, its history, what stands around it, and its copies.
import { Offline, Problem, get, patch, post, remove, useLoad } from "../lib/api.js";
import { scopeOf } from "../lib/home.js";
import { html, useState } from "../lib/html.js";
import { href } from "../lib/route.js";
import { number, visible } from "../lib/text.js";
import { S } from "../strings.js";
import { Chip, Copy, CopyCalls, Dialog, Fault, Loading, Said, Tabs, When, command, curl, say } from "./basics.js";
import { Decision, undoDecision } from "./decisions.js";

const at = (ref) => `/v1/memories/${encodeURIComponent(ref)}`;

export function Memory({ memoryRef: ref, user, onChanged, onClose }) {
  const scope = scopeOf(user);
  const memory = useLoad((signal) => get(at(ref), scope, { signal }), [ref, user]);
  const [show, setShow] = useState("what");
  const [doing, setDoing] = useState(null);
  const one = memory.value;

  function changed() {
    setDoing(null);
    memory.reload();
    onChanged?.();
  }

  if (memory.error) return html`<section class="panel detail"><div class="body"><${Fault} error=${memory.error} /><div><button onClick=${onClose}>${S.close}</button></div></div></section>`;
  if (!one) return html`<section class="panel detail"><${Loading} /></section>`;
  const isArchived = Boolean(one.state?.archived);
  return html`<section class="panel detail" aria-label=${visible(ref)}>
    <header>
      <h2 class="mono">${visible(ref)}</h2>
      <${Chip}>${visible(one.kind)}<//>
      ${one.trust !== "unknown" && html`<${Chip} tone=${one.trust === "trusted" ? "good" : "warn"}>${visible(one.trust)}<//>`}
      ${isArchived && html`<${Chip} tone="warn">${S.memories.archive}<//>`}
      <button class="plain push" aria-label=${S.close} onClick=${onClose}>✕</button>
    </header>
    <div class="body">
      ${one.current === false && html`<div class="notice warn">${S.memories.superseded} ${one.superseded_by && html`<a href=${href("memories", { ref: one.superseded_by, user })}>${visible(one.superseded_by)}</a>`}</div>`}
      <${Said} text=${one.text} limit=${4000} />
      <div class="row">
        <button onClick=${() => setDoing("edit")}>${S.memories.edit}</button>
        <button onClick=${() => setDoing("state")}>${S.memories.setTrust}, ${S.memories.setImportance}</button>
        <button onClick=${() => archive(ref, !isArchived, scope, changed)}>${isArchived ? S.memories.revive : S.memories.archive}</button>
        <button class="danger" onClick=${() => setDoing("forget")}>${S.memories.forget}</button>
        <span class="push"><${CopyCalls} cli=${command("why", ref)} http=${curl("GET", at(ref))} /></span>
      </div>
      <${Tabs} label=${visible(ref)} chosen=${show} onChoose=${setShow} tabs=${Object.entries(S.memories.tabs)} />
      ${show === "what" && html`<${What} one=${one} user=${user} />`}
      ${show === "around" && html`<${Around} one=${one} user=${user} scope=${scope} />`}
      ${["used", "history", "copies"].includes(show) && html`<${Why} memoryRef=${ref} scope=${scope} show=${show} user=${user} onUndone=${changed} />`}
    </div>
    ${doing === "edit" && html`<${Edit} one=${one} scope=${scope} onClose=${() => setDoing(null)} onDone=${changed} />`}
    ${doing === "state" && html`<${State} one=${one} scope=${scope} onClose=${() => setDoing(null)} onDone=${changed} />`}
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

/** The lines or turns around it in its document. */
function Around({ one, user, scope }) {
  const { value, error } = useLoad((signal) => post("/v1/timeline", { refs: [one.ref], ...scope }, { signal }), [one.ref]);
  if (error) return html`<${Fault} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  return html`<ol class="history">${value.entries.map((entry) => html`<li key=${entry.ref} class="small"><span class="row"><a class="mono" href=${href("memories", { ref: entry.ref, user })}>${visible(entry.ref)}</a><${When} at=${entry.ts} /><${Chip} tone=${entry.anchor ? "accent" : ""}>${visible(entry.by)}<//></span><${Said} text=${entry.line} limit=${500} /></li>`)}</ol>`;
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
      await patch(at(one.ref), { text, ...scope });
      say(S.memories.edited);
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

function State({ one, scope, onClose, onDone }) {
  const [error, setError] = useState(null);
  async function submit() {
    const form = new FormData(document.getElementById("state-form").closest("form"));
    const importance = form.get("importance");
    const changes = { ...(form.get("trust") !== one.trust && { trust: form.get("trust") }), ...(importance !== "" && { importance: Number(importance) }) };
    try {
      const reply = await post("/v1/state", { ref: one.ref, why: form.get("why"), ...changes, ...scope });
      say(S.memories.changed, { undo: reply.decision && (() => undoDecision(reply.decision.id, onDone)) });
      onDone();
    } catch (failed) {
      setError(failed);
    }
  }
  return html`<${Dialog} title=${visible(one.ref)} submit=${S.memories.apply} onSubmit=${submit} onClose=${onClose}>
    <div id="state-form" class="row">
      <label class="field">${S.memories.setTrust}<select name="trust" defaultValue=${one.trust}>${["trusted", "unknown", "untrusted", "quarantined"].map((name) => html`<option key=${name} selected=${name === one.trust}>${name}</option>`)}</select></label>
      <label class="field">${S.memories.setImportance}<input name="importance" type="number" min="0" max="1" step="0.05" defaultValue=${one.grade?.importance ?? ""} /></label>
      <label class="field grow">${S.memories.why}<input name="why" maxlength="500" /></label>
    </div>
    <${Fault} error=${error} />
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
  return html`<${Dialog} title=${S.memories.forgetTitle} submit=${S.memories.forget} danger onSubmit=${submit} onClose=${onClose}>
    <p>${S.memories.forgetLead}</p>
    <${Preview} reply=${preview.value} />
    <${Fault} error=${error ?? preview.error} />
  <//>`;
}

export function Preview({ reply }) {
  if (!reply) return html`<${Loading} />`;
  const found = reply.found ?? [];
  return html`<div class="stack"><strong>${S.memories.wouldForget(found.length)}</strong>
    <ul class="history small scroll">${found.slice(0, 50).map((one) => html`<li key=${one.ref}><span class="mono">${visible(one.ref)}</span> <span class="said">${visible(String(one.text ?? "").slice(0, 200))}</span></li>`)}</ul></div>`;
}

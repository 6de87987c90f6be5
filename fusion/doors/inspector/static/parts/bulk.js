// One action on one or many memories. What it would change is shown before anything happens.
import { post, useLoad } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { opening, visible } from "../lib/text.js";
import { S } from "../strings.js";
import { Copy, Dialog, Fault, Loading, curl, say } from "./basics.js";
import { Changed, undoDecision } from "./decisions.js";

const M = S.memories;
const TRUSTS = ["trusted", "unknown", "untrusted", "quarantined"];
const ACTIONS = {
  archive: { title: M.archiveMany, submit: M.archive, done: () => M.archived, changes: { archived: true } },
  revive: { title: M.reviveMany, submit: M.revive, done: () => M.revived, changes: { archived: false } },
  state: { title: M.setMany, submit: M.apply, done: () => M.changed, changes: {} },
  forget: { title: M.forgetMany, submit: M.forget, done: M.forgotten, danger: true },
};

/** `texts` are those of the memories, by ref; `now` has the trust and the importance of a single one. */
export function BulkDialog({ action, refs, texts = {}, now = {}, scope, onClose, onDone }) {
  const { title, submit, done, danger, changes: fixed } = ACTIONS[action];
  const forgets = action === "forget";
  const [changes, setChanges] = useState(fixed);
  const [why, setWhy] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [path, body] = forgets ? ["/v1/forget", { refs, ...scope }] : ["/v1/states", { refs, ...changes, why: why || "inspector", ...scope }];
  const isChosen = forgets || Object.keys(changes).length > 0;
  const preview = useLoad((signal) => (isChosen ? post(path, { ...body, dry_run: true }, { signal }) : Promise.resolve(null)), [refs.join(), JSON.stringify(changes)]);
  const found = isChosen ? preview.value : null;
  const isReady = found && !preview.loading && (forgets ? found.found : found.changes).length > 0;
  async function decide() {
    setBusy(true);
    try {
      const reply = await post(path, body);
      say(done(refs.length), { undo: reply.decision && (() => undoDecision(reply.decision.id, onDone)) });
      onDone();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  }
  return html`<${Dialog} title=${title(refs.length)} submit=${submit} danger=${danger} busy=${busy || !isReady} onSubmit=${decide} onClose=${onClose}>
    <p>${forgets ? M.forgetLead : M.bulkLead}</p>
    ${action === "state" && html`<${State} now=${now} changes=${changes} onChange=${setChanges} />`}
    ${!isChosen ? html`<p class="muted">${M.chooseChange}</p>` : forgets ? html`<${Preview} reply=${found} />` : html`<${Changes} reply=${found} failed=${preview.error} texts=${texts} />`}
    ${!forgets && html`<label class="field">${M.why}<input maxlength="500" value=${why} onInput=${(event) => setWhy(event.target.value)} /></label>`}
    <${Fault} error=${error ?? preview.error} />
    ${isChosen && html`<div><${Copy} label=${M.copyPreview} what=${S.theCurl} text=${curl("POST", path, { ...body, dry_run: true })} /></div>`}
  <//>`;
}

function State({ now, changes, onChange }) {
  function set(name, value) {
    const { [name]: before, ...others } = changes;
    onChange(value === undefined || value === now[name] ? others : { ...others, [name]: value });
  }
  return html`<div class="row">
    <label class="field">${M.setTrust}<select value=${changes.trust ?? now.trust ?? ""} onChange=${(event) => set("trust", event.target.value || undefined)}>
      ${!now.trust && html`<option value="">${M.asItIs}</option>`}${TRUSTS.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
    <label class="field">${M.setImportance}<input type="number" min="0" max="1" step="0.05" defaultValue=${now.importance ?? ""} placeholder=${M.asItIs} onInput=${(event) => set("importance", event.target.value === "" ? undefined : Number(event.target.value))} /></label>
  </div>`;
}

function Changes({ reply, failed, texts }) {
  if (!reply) return failed ? null : html`<${Loading} />`;
  return html`<strong role="status">${M.wouldChange(reply.changes.length, reply.unchanged.length)}</strong>
    <ul class="history small scroll">${reply.changes.slice(0, 50).map((one) => html`<li key=${one.ref}><span class="row"><span class="mono">${visible(one.ref)}</span><${Changed} change=${one} /></span>${texts[one.ref] && html`<span class="said">${opening(texts[one.ref])}</span>`}</li>`)}</ul>`;
}

/** What forgetting would delete. */
export function Preview({ reply }) {
  if (!reply) return html`<${Loading} />`;
  const found = reply.found ?? [];
  return html`<div class="stack"><strong>${M.wouldForget(found.length)}</strong>
    <ul class="history small scroll">${found.slice(0, 50).map((one) => html`<li key=${one.ref}><span class="mono">${visible(one.ref)}</span> <span class="said">${visible(String(one.text ?? "").slice(0, 200))}</span></li>`)}</ul></div>`;
}

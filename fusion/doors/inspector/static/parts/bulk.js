// The same action on many memories. What it would change is shown before anything happens.
import { post, useLoad } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { visible } from "../lib/text.js";
import { S } from "../strings.js";
import { Dialog, Fault, Loading, say } from "./basics.js";
import { undoDecision } from "./decisions.js";
import { Preview } from "./memory.js";

export function BulkDialog({ action, refs, scope, onClose, onDone }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const forgets = action === "forget";
  const [path, body] = forgets ? ["/v1/forget", { refs, ...scope }] : ["/v1/states", { refs, archived: true, why: "inspector", ...scope }];
  const preview = useLoad((signal) => post(path, { ...body, dry_run: true }, { signal }), [refs.join()]);
  async function submit() {
    setBusy(true);
    try {
      const done = await post(path, body);
      const undo = done.decision && (() => undoDecision(done.decision.id, onDone));
      say(forgets ? S.memories.forgotten(refs.length) : S.memories.archived, { undo });
      onDone();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  }
  return html`<${Dialog} title=${forgets ? S.memories.forgetMany(refs.length) : S.memories.bulkArchive} submit=${forgets ? S.memories.forget : S.memories.archive} danger=${forgets} busy=${busy || !preview.value} onSubmit=${submit} onClose=${onClose}>
    <p>${forgets ? S.memories.forgetLead : S.memories.bulkLead}</p>
    ${forgets ? html`<${Preview} reply=${preview.value} />` : html`<${Changes} reply=${preview.value} />`}
    <${Fault} error=${error ?? preview.error} />
  <//>`;
}

function Changes({ reply }) {
  if (!reply) return html`<${Loading} />`;
  return html`<strong>${S.memories.wouldChange(reply.changes.length, reply.unchanged.length)}</strong>
    <ul class="history small scroll">${reply.changes.slice(0, 50).map((one) => html`<li key=${one.ref} class="mono">${visible(one.ref)}</li>`)}</ul>`;
}

// The same action on many memories. What it would change is shown before anything happens.
import { post, useLoad } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { opening, visible } from "../lib/text.js";
import { S } from "../strings.js";
import { Dialog, Fault, Loading, say } from "./basics.js";
import { Preview } from "./memory.js";

export function BulkDialog({ action, refs, scope, onClose, onDone }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const forgets = action === "forget";
  const preview = useLoad((signal) => (forgets ? post("/v1/forget", { refs, dry_run: true, ...scope }, { signal }) : Promise.resolve({ found: refs.map((ref) => ({ ref })) })), [refs.join()]);
  async function submit() {
    setBusy(true);
    try {
      if (forgets) await post("/v1/forget", { refs, ...scope });
      else for (const ref of refs) await post("/v1/state", { ref, archived: true, why: "inspector", ...scope });
      say(forgets ? S.memories.forgotten(refs.length) : S.memories.archived);
      onDone();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  }
  return html`<${Dialog} title=${forgets ? S.memories.forgetMany(refs.length) : S.memories.bulkArchive} submit=${forgets ? S.memories.forget : S.memories.archive} danger=${forgets} busy=${busy || !preview.value} onSubmit=${submit} onClose=${onClose}>
    <p>${forgets ? S.memories.forgetLead : S.memories.bulkLead}</p>
    ${forgets ? html`<${Preview} reply=${preview.value} />` : html`<ul class="history small">${refs.map((ref) => html`<li key=${ref} class="mono">${visible(ref)}</li>`)}</ul>`}
    <${Fault} error=${error ?? preview.error} />
  <//>`;
}

// The log of decisions: who changed what, why, before and after; each can be taken back.
import { post } from "../lib/api.js";
import { html } from "../lib/html.js";
import { href } from "../lib/route.js";
import { opening, visible } from "../lib/text.js";
import { S } from "../strings.js";
import { Chip, When, say } from "./basics.js";

/** Undo one decision: each field that it changed has its earlier value again. */
export async function undoDecision(id, done) {
  try {
    await post("/v1/decisions/undo", { decision: id });
    say(S.undone);
    done?.();
  } catch (error) {
    say(error.message, { tone: "bad" });
  }
}

const shown = (value) => (value === null || value === undefined ? "–" : opening(typeof value === "object" ? JSON.stringify(value) : value, 24));

export function Decision({ one, user, onUndone }) {
  return html`<li class="stack">
    <span class="row small"><${When} at=${one.at} /><strong>${visible(one.who)}</strong>
      ${one.undone_by ? html`<${Chip}>${S.timeline.undoneAlready}<//>` : !one.undoes && html`<button class="plain" onClick=${() => undoDecision(one.id, onUndone)}>${S.undo}</button>`}</span>
    ${one.why && html`<span class="small said">${visible(one.why)}</span>`}
    ${one.changes.slice(0, 5).map((change) => html`<span key=${change.ref} class="small row"><a class="mono" href=${href("memories", { ref: change.ref, user })}>${visible(change.ref)}</a>
      ${Object.keys(change.after).map((name) => html`<span key=${name} class="muted">${visible(name)}: ${shown(change.before[name])} → <strong>${shown(change.after[name])}</strong></span>`)}</span>`)}
    ${one.changes.length > 5 && html`<span class="small muted">${S.timeline.changes(one.changes.length)}</span>`}
  </li>`;
}

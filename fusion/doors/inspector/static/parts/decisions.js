// The log of decisions: who changed what, why, before and after; each can be taken back.
import { post } from "../lib/api.js";
import { html } from "../lib/html.js";
import { href } from "../lib/route.js";
import { opening, time, visible, words } from "../lib/text.js";
import { S } from "../strings.js";
import { Act, Chip, When, say } from "./basics.js";

/** Undo one decision: each field that it changed has its earlier value again. */
export const undoDecision = (id, done) => takeBack("/v1/decisions/undo", { decision: id }, done);

/** Undo an edit: the earlier version is current again. */
export const undoEdit = (batch, scope, done) => takeBack("/v1/undo", { batch, ...scope }, done);

export async function takeBack(path, body, done, said = S.undone) {
  try {
    await post(path, body);
    say(said);
    done?.();
  } catch (error) {
    say(error.message, { tone: "bad" });
  }
}

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;

function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "object") return opening(JSON.stringify(value), 24);
  return ISO_TIME.test(value) ? time(value) : opening(value, 24);
}

/** The fields to show: a grade says how an importance came about, which the decision says itself. */
const fieldsOf = (after) => Object.keys(after).filter((name) => name !== "grade" || !("importance" in after));

/** The fields of one memory that a decision changes, before and after. */
export const Changed = ({ change }) => fieldsOf(change.after).map((name) => html`<span key=${name} class="muted">${words(name)}: ${shown(change.before[name])} → <strong>${shown(change.after[name])}</strong></span>`);

export function Decision({ one, user, onUndone }) {
  return html`<li class="stack">
    <span class="row small"><${When} at=${one.at} /><strong>${visible(one.who)}</strong>
      ${one.undone_by ? html`<${Chip}>${S.timeline.undoneAlready}<//>` : !one.undoes && html`<${Act} needs="operator" class="plain" onClick=${() => undoDecision(one.id, onUndone)}>${S.undo}<//>`}</span>
    ${one.why && html`<span class="small said">${visible(one.why)}</span>`}
    ${one.changes.slice(0, 5).map((change) => html`<span key=${change.ref} class="small row"><a class="mono" href=${href("memories", { ref: change.ref, user })}>${visible(change.ref)}</a>
      <${Changed} change=${change} /></span>`)}
    ${one.changes.length > 5 && html`<span class="small muted">${S.timeline.changes(one.changes.length)}</span>`}
  </li>`;
}

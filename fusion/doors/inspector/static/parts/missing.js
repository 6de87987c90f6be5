// "Why did it not find X?": words of what was expected are looked for in the block, in what was left out, and in all that is
// stored.
import { get } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { href } from "../lib/route.js";
import { opening, visible, words } from "../lib/text.js";
import { S } from "../strings.js";
import { Chip, Fault } from "./basics.js";
import { reasonOf } from "./candidate.js";

/** memories with the words that are compared with the candidates, and those that are shown if none is one */
const STORED = 50;
const SHOWN = 5;

export function Missing({ answer, candidates, scope, user }) {
  const [found, setFound] = useState(null);

  async function look(event) {
    event.preventDefault();
    const text = new FormData(event.target).get("expected").trim();
    if (!text) return;
    setFound({ looking: true });
    try {
      setFound(await whereIs(text, answer, candidates, scope));
    } catch (error) {
      setFound({ error });
    }
  }

  return html`<section class="panel" aria-label=${S.ask.missing}>
    <header><h2>${S.ask.missing}</h2><span class="muted small">${S.ask.missingLead}</span></header>
    <div class="body">
      <form class="row" onSubmit=${look}><label class="hidden" for="expected">${S.ask.missingLead}</label><input id="expected" name="expected" class="grow" autocomplete="off" /><button>${S.ask.missingLook}</button></form>
      <div aria-live="polite">${found && html`<${Found} found=${found} user=${user} />`}</div>
    </div>
  </section>`;
}

/** Where a memory with all these words is: {in}, {out}, {stored} or {nowhere}. */
export async function whereIs(text, answer, candidates, scope) {
  const words = text.toLowerCase().split(/\s+/);
  const has = (said) => words.every((word) => said.toLowerCase().includes(word));
  const inside = answer.memories.flatMap((excerpt) => excerpt.members).find((member) => has(member.text));
  if (inside) return { inside };
  const outside = candidates.find((one) => one.text && has(one.text));
  if (outside) return { outside };
  const { memories } = await get("/v1/memories", { q: text, limit: STORED, ...scope });
  const refs = new Set(memories.map((memory) => memory.ref)); // a candidate has the beginning of its text alone
  const found = candidates.filter((one) => refs.has(one.ref));
  const known = found.find((one) => one.decision === "packed") ?? found[0];
  if (known) return known.decision === "packed" ? { inside: known } : { outside: known };
  const stored = memories.length ? memories : (await get("/v1/memories", { q: text, state: "all", limit: SHOWN, ...scope })).memories;
  return stored.length ? { stored: stored.slice(0, SHOWN) } : { nowhere: true };
}

const Ref = ({ of, user }) => html`<a class="mono" href=${href("memories", { ref: of, user })}>${visible(of)}</a>`;

function Found({ found, user }) {
  if (found.looking) return html`<p class="waiting">${S.ask.searching}</p>`;
  if (found.error) return html`<${Fault} error=${found.error} />`;
  if (found.inside) return html`<div class="notice good">${S.ask.missingIn} <${Ref} of=${found.inside.ref} user=${user} /></div>`;
  if (found.outside) {
    return html`<div class="notice warn"><div class="stack"><span><strong>${S.ask.missingOut} ${reasonOf(found.outside)}.</strong> <${Chip} tone="warn">${words(found.outside.decision)}<//></span><span class="small"><${Ref} of=${found.outside.ref} user=${user} /> ${opening(found.outside.text, 240)}</span></div></div>`;
  }
  if (found.nowhere) return html`<div class="notice bad">${S.ask.missingNowhere}</div>`;
  const isHidden = found.stored.every((memory) => memory.status !== "current");
  return html`<div class="notice warn"><div class="stack"><span>${isHidden ? S.ask.missingHidden : S.ask.missingStored}</span>
    ${found.stored.map((memory) => html`<span key=${memory.ref}><${Ref} of=${memory.ref} user=${user} /> ${memory.status !== "current" && html`<${Chip} tone="warn">${words(memory.status)}<//> `}${opening(memory.text, 120)}</span>`)}</div></div>`;
}

// "Why did it not find X?": words of what was expected are looked for in the block, in what was left out, and in all that is
// stored.
import { get } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { href } from "../lib/route.js";
import { opening, visible, words } from "../lib/text.js";
import { S } from "../strings.js";
import { Chip, Fault } from "./basics.js";

export function Missing({ answer, candidates, scope }) {
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
      <form class="row" onSubmit=${look}><label class="hidden" for="expected">${S.ask.missingLead}</label><input id="expected" name="expected" class="grow" autocomplete="off" /><button>${S.ask.whyOut}</button></form>
      <div aria-live="polite">${found && html`<${Found} found=${found} />`}</div>
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
  const { memories } = await get("/v1/memories", { q: text, limit: 5, ...scope });
  return memories.length ? { stored: memories } : { nowhere: true };
}

function Found({ found }) {
  if (found.looking) return html`<p class="waiting">${S.ask.searching}</p>`;
  if (found.error) return html`<${Fault} error=${found.error} />`;
  if (found.inside) return html`<div class="notice good">${S.ask.missingIn(found.inside.ref)}</div>`;
  if (found.outside) {
    return html`<div class="notice warn"><div class="stack"><span>${S.ask.missingOut(found.outside.ref)} <${Chip} tone="warn">${words(found.outside.decision)}<//> ${visible(found.outside.reason)}</span><span class="small">${opening(found.outside.text, 240)}</span></div></div>`;
  }
  if (found.nowhere) return html`<div class="notice bad">${S.ask.missingNowhere}</div>`;
  return html`<div class="notice warn"><div class="stack"><span>${S.ask.missingStored}</span>
    ${found.stored.map((memory) => html`<a key=${memory.ref} href=${href("memories", { ref: memory.ref })}><span class="mono">${visible(memory.ref)}</span> ${opening(memory.text, 120)}</a>`)}</div></div>`;
}

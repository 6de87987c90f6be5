// One session, turn by turn: each question, what was put into the prompt for it, and what that cost and spared.
import { post, useLoad } from "../lib/api.js";
import { scopeOf } from "../lib/home.js";
import { html, useState } from "../lib/html.js";
import { href } from "../lib/route.js";
import { saved } from "../lib/tail.js";
import { ms, number, visible } from "../lib/text.js";
import { S } from "../strings.js";
import { Chip, Fault, Loading, Meter, Said, When, say } from "./basics.js";

const T = S.live.turns;
/** memories whose texts are fetched for one turn, as the route allows, and the tokens of these texts */
const MOST_REFS = 50;
const MOST_TOKENS = 20_000;
const sum = (answers, count) => answers.reduce((total, one) => total + (count(one) ?? 0), 0);

/** `answers` are the newest first, as a list has them; a session is read from its beginning. */
export function Turns({ answers, earlier, params, chosen }) {
  async function more() {
    try {
      await earlier();
    } catch (error) {
      say(error.message, { tone: "bad" });
    }
  }
  return html`<section class="panel" aria-label=${T.title}>
    <header><h2>${T.title}</h2><span class="row"><${Chip}>${T.count(answers.length, Boolean(earlier))}<//><${Chip} tone="accent">${S.live.spent(sum(answers, (one) => one.tokens))}<//><${Chip} tone="good">${T.saved(sum(answers, saved))}<//></span></header>
    <div class="body">
      <p class="small muted">${T.savedMeans}</p>
      ${earlier && html`<div><button onClick=${more}>${T.earlier}</button></div>`}
      <ol class="turns">${[...answers].reverse().map((one, at) => html`<${Turn} key=${one.receipt_id} one=${one} place=${earlier ? null : at + 1} params=${params} chosen=${chosen === one.receipt_id} />`)}</ol>
    </div>
  </section>`;
}

function Turn({ one, place, params, chosen }) {
  const [open, setOpen] = useState(false);
  return html`<li class="candidate" aria-current=${chosen ? "true" : undefined}>
    <div class="row small"><strong>${place === null ? S.live.session : T.turn(place)}</strong><${When} at=${one.at} exact /><span class="muted">${ms(one.took_ms)}</span>
      ${one.degraded && html`<${Chip} tone="warn">${S.ask.degraded}<//>`}
      <a class="push" href=${href("live", { ...params, ref: one.receipt_id })}>${S.live.detail}</a></div>
    <p class="said">${one.query ? visible(one.query) : html`<span class="muted">${S.live.noQuery}</span>`}</p>
    <div class="row small">
      ${one.memories ? html`<span>${T.block(one.memories, one.characters)}</span>` : html`<${Chip} tone="warn">${one.abstained ? S.ask.abstained(visible(one.abstained)) : S.live.none}<//>`}
      <span>${S.live.spent(one.tokens)}</span><span>${T.saved(saved(one))}</span>
    </div>
    ${one.candidate_tokens > 0 && html`<${Meter} value=${one.tokens} most=${one.candidate_tokens} label=${T.share(one.tokens, one.candidate_tokens)} />`}
    ${one.refs.length > 0 && html`<details onToggle=${(event) => setOpen(event.target.open)}><summary class="small">${T.injected(one.memories)}</summary>${open && html`<${Injected} one=${one} user=${params.user} />`}</details>`}
  </li>`;
}

/** The memories of a block with their texts as they are now; the block itself is stored nowhere. */
function Injected({ one, user }) {
  const scope = scopeOf(one.user_id ?? user);
  const { value, error } = useLoad((signal) => readAll(one.refs, scope, signal), [one.receipt_id]);
  if (error) return html`<${Fault} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  return html`<ul class="history">${one.refs.slice(0, MOST_REFS).map((ref) => html`<li key=${ref} class="stack small"><a class="mono" href=${href("memories", { ref, user })}>${visible(ref)}</a>
    ${ref in value ? html`<${Said} text=${value[ref]} limit=${400} />` : html`<span class="muted">${T.gone}</span>`}</li>`)}</ul>`;
}

/** The texts of memories by ref; one that was forgotten since has none. */
async function readAll(refs, scope, signal) {
  const { records } = await post("/v1/records", { refs: refs.slice(0, MOST_REFS), budget_tokens: MOST_TOKENS, ...scope }, { signal });
  return Object.fromEntries(records.map((record) => [record.ref, record.text]));
}

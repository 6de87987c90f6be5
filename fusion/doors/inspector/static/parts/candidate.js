// One candidate of an answer: what it says, who found it, and the parts of its score.
import { html, useState } from "../lib/html.js";
import { href } from "../lib/route.js";
import { score, visible, words } from "../lib/text.js";
import { S } from "../strings.js";
import { Act, Chip, Said, When } from "./basics.js";

/** characters from which a text is cut until somebody opens it */
const LONG = 300;

/** The weighted signals of a candidate, the largest part first: [{name, value, weight, part}], parts add up to 1. */
export function parts(signals, weights) {
  const found = Object.entries(weights ?? {})
    .map(([name, weight]) => ({ name, weight, value: signals[name] ?? 0 }))
    .map((one) => ({ ...one, product: Math.max(0, one.value * one.weight) }));
  const whole = found.reduce((sum, one) => sum + one.product, 0);
  return found
    .map((one) => ({ ...one, part: whole ? one.product / whole : 0 }))
    .sort((a, b) => b.part - a.part);
}

/** Why a candidate is in or out, in words for somebody who reads this for the first time. */
export const reasonOf = ({ decision, reason }) => (Object.hasOwn(S.ask.reasons, decision) ? S.ask.reasons[decision] : visible(reason));

export function Candidate({ candidate, member, weights, colourOf, find, vote, onVote, scope }) {
  const [open, setOpen] = useState(false);
  const isIn = candidate.decision === "packed";
  const text = member?.text ?? candidate.text;
  return html`<article class="candidate ${isIn ? "" : "out"}">
    <div class="row">
      <a class="ref" href=${href("memories", { ref: candidate.ref, ...scope })}>${visible(candidate.ref)}</a>
      <${Chip} tone=${isIn ? "good" : ""}>${words(candidate.decision)}<//>
      ${(candidate.source_hits ?? []).map((hit) => html`<span key=${hit.backend + hit.native_id} class="row small muted" title=${S.ask.rank(hit.backend, hit.rank)}><span class="dot ${colourOf(hit.backend)}"></span>${visible(hit.backend)} #${hit.rank}</span>`)}
      <span class="push small mono">${score(candidate.local ?? candidate.rrf)}</span>
    </div>
    ${text ? html`<div class=${open || text.length < LONG ? "" : "cut"}><${Said} text=${text} find=${find} limit=${1200} /></div>` : html`<p class="muted small">${S.ask.textGone}</p>`}
    <p class="small"><strong>${isIn ? S.ask.whyIn : S.ask.whyOut}:</strong> <span class="said">${reasonOf(candidate)}</span>${candidate.probability != null && html`, ${S.ask.probability(score(candidate.probability))}`}${candidate.judge != null && html`, ${S.ask.judge(candidate.judge)}`}</p>
    <${ScoreBar} signals=${candidate.signals ?? {}} weights=${weights} />
    <div class="row">
      <button class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>${S.ask.signals}</button>
      ${member?.at && html`<span class="small muted"><${When} at=${member.at} /></span>`}
      ${onVote && html`<span class="push row">
        <${Act} needs="writer" class="plain" aria-pressed=${vote === "useful"} onClick=${() => onVote("useful")}>${S.ask.useful}<//>
        <${Act} needs="writer" class="plain" aria-pressed=${vote === "useless"} onClick=${() => onVote("useless")}>${S.ask.useless}<//>
      </span>`}
    </div>
    ${open && html`<${Signals} signals=${candidate.signals ?? {}} weights=${weights} />`}
  </article>`;
}

function ScoreBar({ signals, weights }) {
  const found = parts(signals, weights).filter((one) => one.part > 0.01);
  if (!found.length) return null;
  const said = found.map((one) => `${one.name} ${Math.round(one.part * 100)} %`).join(", ");
  return html`<div class="bar" role="img" aria-label=${said} title=${said}>
    ${found.map((one, at) => html`<span key=${one.name} class="b${at % 8}" style=${{ width: `${one.part * 100}%` }}></span>`)}
  </div>`;
}

function Signals({ signals, weights }) {
  const weighed = parts(signals, weights);
  const others = Object.entries(signals).filter(([name]) => !(name in (weights ?? {})));
  return html`<div class="scroll"><table>
    <thead><tr><th>${S.ask.signal}</th><th class="number">${S.ask.value}</th><th class="number">${S.ask.weight}</th><th class="number">${S.ask.part}</th></tr></thead>
    <tbody>
      ${weighed.map((one) => html`<tr key=${one.name}><td>${one.name}</td><td class="number">${score(one.value)}</td><td class="number">${one.weight}</td><td class="number">${Math.round(one.part * 100)} %</td></tr>`)}
      ${others.map(([name, value]) => html`<tr key=${name} class="muted"><td>${name}</td><td class="number">${score(value)}</td><td class="number">–</td><td class="number">–</td></tr>`)}
    </tbody>
  </table></div>`;
}

// The whole receipt of one answer: its sizes, its backends, and the decision on every candidate.
import { address, get, useLoad } from "../lib/api.js";
import { flagsOf, scopeOf } from "../lib/home.js";
import { html } from "../lib/html.js";
import { change, href, useRoute } from "../lib/route.js";
import { ms, number, score, visible, words } from "../lib/text.js";
import { S } from "../strings.js";
import { reasonOf } from "./candidate.js";
import { Chip, CopyCalls, Fault, Loading, Tabs, When, command, curl } from "./basics.js";

export function Receipt({ id, user, colourOf, onClose }) {
  const { value: receipt, error } = useLoad((signal) => get(`/v1/receipts/${encodeURIComponent(id)}`, scopeOf(user), { signal }), [id, user]);
  const { show = "in" } = useRoute().params;
  if (error) return html`<section class="panel detail"><div class="body"><${Fault} error=${error} /><div><button onClick=${onClose}>${S.close}</button></div></div></section>`;
  if (!receipt) return html`<section class="panel detail"><${Loading} /></section>`;
  const session = receipt.asker?.session_id;
  const isIn = receipt.candidates.filter((one) => one.decision === "packed");
  const isOut = receipt.candidates.filter((one) => one.decision !== "packed");
  return html`<section class="panel detail" aria-label=${S.live.detail}>
    <header><h2>${S.live.detail}</h2><span class="mono small">${visible(id)}</span><button class="plain push" aria-label=${S.close} onClick=${onClose}>✕</button></header>
    <div class="body">
      ${receipt.query && html`<p class="said"><strong>${visible(receipt.query)}</strong></p>`}
      <div class="row small"><${When} at=${receipt.at} /><${Chip}>${visible(receipt.recipe.name)} ${receipt.recipe.hash}<//><span>${ms(receipt.took_ms)}</span>
        <span>${S.ask.size(receipt.characters, receipt.budget.chars, receipt.budget.used_tokens)}</span>${receipt.candidate_tokens !== undefined && html`<span class="muted">${S.live.ofCandidates(receipt.candidate_tokens)}</span>`}</div>
      ${session && html`<div class="row small"><a href=${href("live", { session, user })}>${S.live.filterSession}: ${visible(session)}</a></div>`}
      <div class="row small">${receipt.backends.map((one) => html`<span key=${one.name} class="row"><span class="dot ${colourOf[one.name] ?? ""}"></span>${visible(one.name)} <span class="muted">${visible(one.status)}, ${S.ask.hits(one.count)}, ${ms(one.took_ms)}</span></span>`)}</div>
      ${receipt.query && html`<div><a href=${href("ask", { q: receipt.query, user })}>${S.views.ask}</a></div>`}
      <${CopyCalls} cli=${command("receipt", id, ...flagsOf(user))} http=${curl("GET", address(`/v1/receipts/${id}`, scopeOf(user)))} />
      <${Tabs} label=${S.live.detail} chosen=${show} onChoose=${(name) => change({ show: name }, { replace: true })} tabs=${[["in", S.ask.in(isIn.length)], ["out", S.ask.out(isOut.length)]]} />
      <ul class="history">${(show === "in" ? isIn : isOut).slice(0, 200).map((one) => html`<li key=${one.ref} class="stack">
        <span class="row"><a class="mono" href=${href("memories", { ref: one.ref, user })}>${visible(one.ref)}</a><${Chip} tone=${one.decision === "packed" ? "good" : ""}>${words(one.decision)}<//><span class="mono small push">${score(one.local ?? one.rrf)}</span></span>
        <span class="small">${reasonOf(one)}</span>
        <span class="row small muted">${one.source_hits.map((hit) => html`<span key=${hit.backend} class="row"><span class="dot ${colourOf[hit.backend] ?? ""}"></span>#${number(hit.rank)}</span>`)}</span>
      </li>`)}</ul>
    </div>
  </section>`;
}

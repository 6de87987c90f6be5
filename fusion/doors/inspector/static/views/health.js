// Health: the backends, what each contributes to answers, what the home holds, and what to look at.
import { Chip, CopyCalls, Fault, Loading, command, curl } from "../parts/basics.js";
import { address, get, useLoad } from "../lib/api.js";
import { Comparisons, Growth, History, Models, Votes } from "../parts/worth.js";
import { askScopeOf, colours } from "../lib/home.js";
import { html, useMemo } from "../lib/html.js";
import { change } from "../lib/route.js";
import { bytes, ms, number, share, visible } from "../lib/text.js";
import { S } from "../strings.js";

const ANSWERS = [50, 200, 1000];

export function Health({ route, status }) {
  const { user, answers = 200 } = route.params;
  const query = { answers, ...askScopeOf(user) };
  const history = useLoad((signal) => get("/v1/backends/history", query, { signal }), [answers, user], { every: 10_000 });
  const colourOf = useMemo(() => colours((status?.backends ?? []).map((one) => one.name)), [status?.backends?.length]);
  if (!status) return html`<${Loading} />`;
  const worth = Object.fromEntries((history.value?.backends ?? []).map((one) => [one.name, one]));
  const alerts = [...status.notes, ...(status.failed_jobs ?? []).map((one) => `${one.job ?? one.name}: ${one.error ?? one.why ?? ""}`)];
  return html`
    <div class="head"><h1>${S.health.title}</h1><p class="lead">${S.health.lead}</p><span class="push"><${CopyCalls} cli=${command("status")} http=${curl("GET", "/v1/status")} /></span></div>
    <section class="stack" aria-label=${S.health.notes}>${alerts.length ? alerts.map((text) => html`<div key=${text} class="notice warn said">${visible(text)}</div>`) : html`<div class="notice good">${S.health.well}</div>`}</section>
    <div class="row"><h2>${S.health.backends}</h2><label class="push row small">${S.health.over}<select value=${String(answers)} onChange=${(event) => change({ answers: event.target.value }, { replace: true })}>${ANSWERS.map((count) => html`<option key=${count} value=${count}>${S.health.lastAnswers(count)}</option>`)}</select></label>
      <${CopyCalls} http=${curl("GET", address("/v1/backends/history", query))} /></div>
    <div class="cards">${status.backends.map((one) => html`<${BackendCard} key=${one.name} one=${one} worth=${worth[one.name]} colour=${colourOf[one.name]} />`)}</div>
    <${Fault} error=${history.error} />
    ${history.value && html`<div class="columns"><${Worth} history=${history.value} colourOf=${colourOf} /><${Votes} votes=${history.value.votes} /></div>`}
    <${Comparisons} />
    <${Growth} user=${user} total=${status.memories.current + status.memories.superseded} />
    ${status.models && html`<${Models} models=${status.models} caller=${status.caller} />`}
    <h2>${S.health.home}</h2>
    <div class="cards">
      <${Figure} value=${number(status.memories.current)} text=${S.health.current} />
      <${Figure} value=${number(status.memories.superseded)} text=${S.health.superseded} />
      <${Figure} value=${number(status.memories.forgotten)} text=${S.health.forgotten} />
      <${Figure} value=${number(status.receipts.kept)} text=${S.health.receipts} />
      <section class="panel card"><dl class="pairs"><dt>${S.health.embedder}</dt><dd>${visible(status.embedder ?? S.health.none)}</dd><dt>${S.health.judge}</dt><dd>${visible(status.judge ?? S.health.none)}</dd><dt>${S.health.uptime}</dt><dd>${ms(status.uptime_s * 1000)}</dd></dl><span class="small muted">${S.health.version(status.version)}</span></section>
      <${Disk} sizes=${status.bytes} />
    </div>
  `;
}

const Figure = ({ value, text }) => html`<section class="panel card"><span class="big">${value}</span><span class="muted">${text}</span></section>`;

function BackendCard({ one, worth, colour }) {
  const well = one.status === "ready" && !one.degraded && one.breaker === "closed";
  return html`<section class="panel card" aria-label=${visible(one.name)}>
    <div class="row"><span class="dot ${colour}"></span><h3>${visible(one.name)}</h3><span class="push"><${Chip} tone=${well ? "good" : one.status === "disabled" ? "" : "bad"}>${visible(S.health.status[one.status] ?? one.status)}<//></span></div>
    <dl class="pairs">
      <dt>${S.health.items}</dt><dd>${number(one.items)}</dd>
      <dt>${S.health.vectors}</dt><dd>${number(one.vectors)}${one.vectors_pending ? ` (+${number(one.vectors_pending)})` : ""}</dd>
      <dt>${S.health.backlog}</dt><dd>${number(one.backlog)}</dd>
      <dt>${S.health.breaker}</dt><dd>${visible(one.breaker)}</dd>
      ${worth && html`<dt>${S.health.latency}</dt><dd>${ms(worth.p50_ms)} / ${ms(worth.p95_ms)}</dd>`}
    </dl>
    ${worth && html`<${History} worth=${worth} />`}
    ${(one.detail || one.reason) && html`<p class="small muted said">${visible(one.detail || one.reason)}</p>`}
    ${one.notes.map((note) => html`<p key=${note} class="small notice warn said">${visible(note)}</p>`)}
  </section>`;
}

function Worth({ history, colourOf }) {
  return html`<section class="panel"><header><h2>${S.health.worth}</h2><span class="small muted">${S.health.worthLead(history.answers)}</span></header><div class="body">
    ${history.backends.map((one) => html`<div key=${one.name} class="row"><span class="worth row"><span class="dot ${colourOf[one.name] ?? ""}"></span>${visible(one.name)}</span>
      <div class="bar" role="img" aria-label=${`${share(one.contributed)} ${S.health.contributed}`}><span class=${colourOf[one.name] ?? "b7"} style=${{ width: `${(one.contributed ?? 0) * 100}%` }}></span></div>
      <span class="small number">${share(one.contributed)} ${S.health.contributed}, ${share(one.alone)} ${S.health.alone}${one.votes.useful + one.votes.useless > 0 ? `, ${S.health.votesOn(one.votes.useful, one.votes.useless)}` : ""}</span></div>`)}
  </div></section>`;
}

function Disk({ sizes }) {
  const parts = Object.entries(sizes).filter(([, size]) => size > 0).sort((a, b) => b[1] - a[1]);
  const whole = parts.reduce((sum, [, size]) => sum + size, 0);
  return html`<section class="panel card"><div class="row"><h3>${S.health.disk}</h3><span class="push">${bytes(whole)}</span></div>
    <div class="bar" aria-hidden="true">${parts.map(([name, size], at) => html`<span key=${name} class="b${at % 8}" style=${{ width: `${(size / whole) * 100}%` }}></span>`)}</div>
    <dl class="pairs small">${parts.map(([name, size]) => html`<dt>${visible(name)}</dt><dd>${bytes(size)}</dd>`)}</dl></section>`;
}

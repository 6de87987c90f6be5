// What was worth it: times and states of a backend, votes on recipes, growth, and the cost of models.
import { address, get, useLoad } from "../lib/api.js";
import { flagsOf, scopeOf } from "../lib/home.js";
import { html } from "../lib/html.js";
import { bytes, ms, number, share, time, visible, words } from "../lib/text.js";
import { S } from "../strings.js";
import { Chip, CopyCalls, Fault, Loading, command, curl } from "./basics.js";

const H = S.health;
const [WIDTH, HIGH] = [240, 44];
const SHOWN_MOMENTS = 50;
const DAYS = 90;

/** One line through values from left to right; a value that is missing leaves a gap. */
function line(values, most) {
  const step = WIDTH / Math.max(1, values.length - 1);
  let path = "";
  let pen = "M";
  values.forEach((value, at) => {
    if (value === null) {
      pen = "M";
      return;
    }
    path += `${pen}${(at * step).toFixed(1)} ${(HIGH - 2 - (value / most) * (HIGH - 4)).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

/** How fast a backend was, answer after answer, and what its breaker and its backlog were. */
export function History({ worth }) {
  const [p50, p95] = ["p50_ms", "p95_ms"].map((name) => worth.spans.map((span) => span[name]));
  const most = Math.max(1, ...p95.filter((value) => value !== null));
  const ends = (values) => ({ first: ms(values[0]), last: ms(values.at(-1)) });
  const failed = worth.asked - worth.answered;
  return html`
    ${worth.spans.length > 1 && html`<svg class="spark" viewBox="0 0 ${WIDTH} ${HIGH}" preserveAspectRatio="none" role="img" aria-label=${H.times(visible(worth.name), ends(p50), ends(p95))}><title>${H.timesTitle}</title><path class="p95" d=${line(p95, most)} /><path d=${line(p50, most)} /></svg>`}
    ${failed > 0 && html`<div><${Chip} tone="warn">${H.failing(failed)}<//></div>`}
    ${worth.moments.length > 0 && html`<details><summary class="small muted">${H.moments(worth.moments.length)}</summary><ul class="history">${worth.moments.slice(-SHOWN_MOMENTS).reverse().map((one) => html`<li key=${one.at} class="row small"><time datetime=${one.at}>${time(one.at, { exact: true })}</time><${Chip} tone=${one.status === "ready" ? "good" : "bad"}>${words(one.status)}<//><span class="muted">${H.waiting(one.backlog)}</span></li>`)}</ul></details>`}
  `;
}

/** Which recipe people's votes prefer, as far as they are enough to say so. */
export function Votes({ votes }) {
  const C = H.voteColumns;
  return html`<section class="panel" aria-label=${H.votes}><header><h2>${H.votes}</h2></header>
    ${!votes.recipes.length ? html`<div class="body"><p class="muted">${H.noVotes}</p></div>` : html`
      <div class="scroll"><table><thead><tr><th>${C.recipe}</th><th class="number">${C.answers}</th><th class="number">${C.votes}</th><th class="number">${C.useful}</th></tr></thead>
        <tbody>${votes.recipes.map((one) => html`<tr key=${one.name + one.hash}><td>${visible(one.name)} <span class="small muted mono">${visible(one.hash)}</span></td><td class="number">${number(one.answers)}</td><td class="number">${number(one.useful + one.useless)}</td><td class="number">${share(one.share)} <span class="small muted">(${share(one.low)} – ${share(one.high)})</span></td></tr>`)}</tbody></table></div>
      <div class="body"><p class="small ${votes.better ? "" : "muted"}">${votes.better ? H.better(visible(votes.better)) : H.undecided}</p><p class="small muted">${H.votesLead}</p></div>`}
  </section>`;
}

/** The comparisons of two arms over many questions, each with what it found. */
export function Comparisons() {
  const query = { limit: 20 };
  const { value, error } = useLoad((signal) => get("/v1/comparisons", query, { signal }), []);
  const C = H.comparedColumns;
  return html`<section class="panel" aria-label=${H.compared}><header><h2>${H.compared}</h2><span class="push"><${CopyCalls} cli=${command("compare", "--list")} http=${curl("GET", address("/v1/comparisons", query))} /></span></header>
    <${Fault} error=${error} />
    ${!value ? !error && html`<${Loading} />` : !value.comparisons.length ? html`<div class="body"><p class="muted">${H.noCompared}</p></div>` : html`
      <div class="scroll"><table><thead><tr><th>${C.at}</th><th>${C.a}</th><th>${C.b}</th><th class="number">${C.questions}</th><th class="number">${C.found}</th><th class="number">${C.difference}</th><th>${C.better}</th></tr></thead>
        <tbody>${value.comparisons.map((one) => html`<tr key=${one.id}><td><time datetime=${one.at}>${time(one.at, { exact: true })}</time></td><td><${Arm} arm=${one.a} /></td><td><${Arm} arm=${one.b} /></td><td class="number">${number(one.questions)}</td><${Verdict} one=${one.verdict} /></tr>`)}</tbody></table></div>
      <div class="body"><p class="small muted">${H.comparedLead}</p></div>`}
  </section>`;
}

const Arm = ({ arm }) => html`<span title=${visible(arm.backends.join(", "))}>${visible(arm.arm)} <span class="small muted mono">${visible(arm.hash.slice(0, 8))}</span></span>`;

function Verdict({ one }) {
  if (!one) return html`<td></td><td></td><td class="muted">${H.notExpected}</td>`;
  return html`<td class="number">${share(one.a)}, ${share(one.b)}</td><td class="number">${H.points(one.difference, one.low, one.high)}</td><td>${one.better ? html`<${Chip} tone="good">${one.better}<//>` : html`<span class="muted">${H.noDifference}</span>`}</td>`;
}

/** How the home grew: all that is stored, day by day. */
export function Growth({ user, total }) {
  const query = { days: DAYS, ...scopeOf(user) };
  const { value, error } = useLoad((signal) => get("/v1/activity", query, { signal }), [user]);
  return html`<section class="panel" aria-label=${H.growth}><header><h2>${H.growth}</h2><span class="push"><${CopyCalls} cli=${command("status", "--growth", DAYS, ...flagsOf(user))} http=${curl("GET", address("/v1/activity", query))} /></span></header><div class="body">
    <${Fault} error=${error} />
    ${value ? html`<${Grown} days=${totals(value.days, total)} />${!scopeOf(user).user_id && html`<${Bytes} days=${value.days} />`}` : !error && html`<${Loading} />`}
  </div></section>`;
}

/** Each day with all that was stored by its end. */
function totals(days, total) {
  let stored = Math.max(0, total - days.reduce((sum, day) => sum + day.remembered, 0));
  return days.map((day) => ({ ...day, stored: (stored += day.remembered) }));
}

function Grown({ days }) {
  const most = Math.max(1, ...days.map((day) => day.stored));
  const path = line(days.map((day) => day.stored), most);
  const C = H.dayColumns;
  return html`<p class="small muted">${H.growthLead}</p>
    <svg class="spark tall" viewBox="0 0 ${WIDTH} ${HIGH}" preserveAspectRatio="none" role="img" aria-label=${H.growthOf(days[0].stored, days.at(-1).stored, days.length)}><path class="area" d=${`${path}L${WIDTH} ${HIGH}L0 ${HIGH}Z`} /><path d=${path} /></svg>
    <p class="small">${H.growthOf(days[0].stored, days.at(-1).stored, days.length)}</p>
    <details><summary class="small muted">${S.graph.list}</summary><div class="scroll"><table><thead><tr><th>${C.day}</th><th class="number">${C.came}</th><th class="number">${C.total}</th></tr></thead>
      <tbody>${days.filter((day) => day.remembered).reverse().map((day) => html`<tr key=${day.day}><td>${day.day}</td><td class="number">${number(day.remembered)}</td><td class="number">${number(day.stored)}</td></tr>`)}</tbody></table></div></details>`;
}

const whole = (parts) => Object.values(parts).reduce((sum, size) => sum + size, 0);

/** The bytes of the stores, on the days on which they were noted. */
function Bytes({ days }) {
  const noted = days.filter((day) => day.bytes);
  const C = H.dayColumns;
  if (!noted.length) return html`<p class="small muted">${H.noBytes}</p>`;
  const sizes = days.map((day) => (day.bytes ? whole(day.bytes) : null));
  const text = H.bytesOf(bytes(whole(noted[0].bytes)), bytes(whole(noted.at(-1).bytes)), noted[0].day);
  return html`<p class="small muted">${H.bytesLead}</p>
    <svg class="spark tall" viewBox="0 0 ${WIDTH} ${HIGH}" preserveAspectRatio="none" role="img" aria-label=${text}><path d=${line(sizes, Math.max(1, ...sizes))} /></svg>
    <p class="small">${text}</p>
    <details><summary class="small muted">${S.graph.list}</summary><div class="scroll"><table><thead><tr><th>${C.day}</th><th class="number">${C.bytes}</th><th>${C.largest}</th></tr></thead>
      <tbody>${noted.reverse().map((day) => html`<tr key=${day.day}><td>${day.day}</td><td class="number">${bytes(whole(day.bytes))}</td><td>${Object.entries(day.bytes).sort((a, b) => b[1] - a[1]).slice(0, 3).map(([name, size]) => `${visible(name)} ${bytes(size)}`).join(", ")}</td></tr>`)}</tbody></table></div></details>`;
}

/** What each model was asked for, and what that cost. */
export function Models({ models, caller }) {
  const C = H.modelColumns;
  return html`<section class="panel" aria-label=${H.models}><header><h2>${H.models}</h2><span class="push"><${CopyCalls} cli=${command("status", "--json")} http=${curl("GET", "/v1/status")} /></span></header>
    ${!models.length ? html`<div class="body"><p class="muted">${H.noModels}</p></div>` : html`<div class="scroll"><table>
      <thead><tr><th>${C.model}</th><th>${C.use}</th><th class="number">${C.calls}</th><th class="number">${C.read}</th><th class="number">${C.written}</th><th class="number">${C.cost}</th></tr></thead>
      <tbody>${models.map((one) => html`<tr key=${one.model + one.use}><td>${visible(one.model)}</td><td>${visible(one.use)}</td><td class="number">${Object.entries(one.calls).map(([status, count]) => `${number(count)} ${words(status)}`).join(", ") || number(0)}</td><td class="number">${number(one.tokens_read)}</td><td class="number">${number(one.tokens_written)}</td><td class="number">${one.cost === null ? html`<span class="muted">${H.noPrice}</span>` : one.cost.toFixed(4)}</td></tr>`)}</tbody></table></div>
      <div class="body"><p class="small muted">${H.modelsLead(caller?.tenant === "default" && caller.role === "operator")}</p></div>`}
  </section>`;
}

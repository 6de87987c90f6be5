// Bars, one for each day, and the same numbers as a table for who cannot see them.
import { html } from "../lib/html.js";
import { number } from "../lib/text.js";
import { S } from "../strings.js";

const KINDS = ["remembered", "questions", "decisions", "forgotten"];
const HEIGHT = 120;

export function Days({ days }) {
  const most = Math.max(1, ...days.map((day) => KINDS.reduce((sum, kind) => sum + (day[kind] ?? 0), 0)));
  const width = 900 / Math.max(1, days.length);
  const label = S.timeline.chart(days.length);
  return html`<figure class="stack">
    <svg class="chart" viewBox="0 0 900 ${HEIGHT + 18}" preserveAspectRatio="none" role="img" aria-label=${label}>
      ${days.map((day, at) => {
        let below = 0;
        return KINDS.map((kind, place) => {
          const high = ((day[kind] ?? 0) / most) * HEIGHT;
          below += high;
          return high > 0 && html`<rect key=${kind} class="s${place}" x=${at * width} y=${HEIGHT - below} width=${Math.max(1, width - 1)} height=${high}><title>${day.day}: ${number(day[kind])} ${S.timeline[kind]}</title></rect>`;
        });
      })}
    </svg>
    <div class="row small">${KINDS.map((kind, place) => html`<span key=${kind} class="row"><span class="dot key${place}"></span>${S.timeline[kind]} ${number(days.reduce((sum, day) => sum + (day[kind] ?? 0), 0))}</span>`)}</div>
    <details><summary class="small muted">${S.graph.list}</summary><div class="scroll"><table>
      <thead><tr><th>${S.timeline.perDay}</th>${KINDS.map((kind) => html`<th key=${kind} class="number">${S.timeline[kind]}</th>`)}</tr></thead>
      <tbody>${days.filter((day) => KINDS.some((kind) => day[kind])).reverse().map((day) => html`<tr key=${day.day}><td>${day.day}</td>${KINDS.map((kind) => html`<td key=${kind} class="number">${number(day[kind] ?? 0)}</td>`)}</tr>`)}</tbody>
    </table></div></details>
  </figure>`;
}

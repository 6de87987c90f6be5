// The same question to two arms over one search.
import { post } from "../lib/api.js";
import { askFlagsOf } from "../lib/home.js";
import { html, useEffect, useState } from "../lib/html.js";
import { change } from "../lib/route.js";
import { ms, visible } from "../lib/text.js";
import { S } from "../strings.js";
import { Chip, CopyCalls, Fault, command, curl } from "./basics.js";

export function Compared({ question, recipe, recipes, other, user }) {
  const [state, setState] = useState({ compared: null, error: null });
  useEffect(() => {
    setState({ compared: null, error: null });
    if (!other) return undefined;
    const abort = new AbortController();
    post("/v1/compare", { ...question, a: recipe, b: other }, { signal: abort.signal }).then(
      (compared) => setState({ compared, error: null }),
      (error) => abort.signal.aborted || setState({ compared: null, error }),
    );
    return () => abort.abort();
  }, [JSON.stringify(question), recipe, other]);
  const { compared, error } = state;
  return html`<section class="panel">
    <header><h2>${S.ask.compare}</h2><span class="muted small">${S.ask.compareLead}</span>
      <label class="push row small">${visible(recipe)} ${S.ask.compareWith}
        <select value=${other} onChange=${(event) => change({ b: event.target.value }, { replace: true })}>
          <option value="">–</option>
          ${recipes.filter((one) => one.name !== recipe).map((one) => html`<option key=${one.name}>${one.name}</option>`)}
        </select>
      </label>
      ${other && html`<${CopyCalls} cli=${command("compare", question.query, "--a", recipe, "--b", other, ...askFlagsOf(user))} http=${curl("POST", "/v1/compare", { ...question, a: recipe, b: other })} />`}
    </header>
    <${Fault} error=${error} />
    ${compared && html`<div class="body">
      <div class="row"><${Chip}>${S.ask.both(compared.both.length)}<//><${Chip} tone="accent">${S.ask.only("A", compared.only_a.length)}<//><${Chip} tone="warn">${S.ask.only("B", compared.only_b.length)}<//></div>
      <div class="columns">${["a", "b"].map((side) => html`<div key=${side} class="stack">
        <h3>${S.ask.arm(side.toUpperCase())}: ${visible(compared[side].recipe.name)} <span class="small muted">${ms(compared[side].took_ms)}</span></h3>
        <pre class="block said" tabindex="0">${visible(compared[side].block) || S.ask.noBlock}</pre>
      </div>`)}</div>
    </div>`}
  </section>`;
}

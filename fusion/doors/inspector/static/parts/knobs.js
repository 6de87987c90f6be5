// "What if?": the numbers of a recipe as sliders. A change packs the block again from the recording.
import { html } from "../lib/html.js";
import { ms } from "../lib/text.js";
import { S } from "../strings.js";
import { Fault } from "./basics.js";

const CHARS = { min: 500, max: 20_000, step: 100 };
const RESULTS = { min: 1, max: 30, step: 1 };
const WEIGHT = { min: 0, max: 10, step: 0.25 };

const OF_PACK = ["budget_chars", "max_results"];

/** The changes that an address names, such as "max_results:5,words:1.5"; what is no number is left out. */
export function knobsOf(text) {
  const named = text.split(",").map((one) => one.split(":")).filter(([name, value]) => name && value && Number.isFinite(Number(value)));
  const numbers = named.map(([name, value]) => [name, Number(value)]);
  const signals = Object.fromEntries(numbers.filter(([name]) => !OF_PACK.includes(name)));
  return {
    ...Object.fromEntries(numbers.filter(([name]) => OF_PACK.includes(name))),
    ...(Object.keys(signals).length && { changes: { rerank: { signals } } }),
  };
}

/** Those of the changes that the recipe with these `values` knows: an address may name anything. */
export function known({ changes, ...ofPack }, values) {
  const signals = Object.entries(changes?.rerank?.signals ?? {}).filter(([name]) => Object.hasOwn(values?.rerank?.signals ?? {}, name));
  return { ...ofPack, ...(signals.length && { changes: { rerank: { signals: Object.fromEntries(signals) } } }) };
}

/** The same changes as an address names them. */
export function addressOf({ changes, ...ofPack }) {
  return Object.entries({ ...ofPack, ...changes?.rerank?.signals }).map(([name, value]) => `${name}:${value}`).join(",");
}

/** `values` are those of the recipe; `changes` are the fields of `POST /v1/replay`; `onChange` gets them anew. */
export function Knobs({ values, changes, onChange, took, error }) {
  const signals = values?.rerank?.signals ?? {};
  const changed = changes.changes?.rerank?.signals ?? {};
  function weigh(name, value) {
    onChange({ ...changes, changes: { rerank: { signals: { ...changed, [name]: value } } } });
  }
  const moved = Object.keys(changes).length > 0;
  return html`<details class="panel"><summary class="summary"><h2>${S.ask.knobs}</h2><span class="small muted">${S.ask.knobsLead}</span></summary><div class="body">
    <div class="knobs">
      <${Knob} text=${S.ask.chars} ...${CHARS} value=${changes.budget_chars ?? values?.pack?.budget_chars ?? CHARS.min} onInput=${(value) => onChange({ ...changes, budget_chars: value })} />
      <${Knob} text=${S.ask.results} ...${RESULTS} value=${changes.max_results ?? values?.pack?.max_results ?? RESULTS.min} onInput=${(value) => onChange({ ...changes, max_results: value })} />
      ${Object.entries(signals).map(([name, weight]) => html`<${Knob} key=${name} text=${name} ...${WEIGHT} value=${changed[name] ?? weight} onInput=${(value) => weigh(name, value)} />`)}
    </div>
    <div class="row"><button disabled=${!moved} onClick=${() => onChange({})}>${S.ask.reset}</button><span class="small muted" role="status">${moved && took !== undefined ? S.ask.replayed(ms(took)) : ""}</span></div>
    <${Fault} error=${error?.status === 404 ? { message: S.ask.recordingGone } : error} />
  </div></details>`;
}

const Knob = ({ text, value, min, max, step, onInput }) => html`<label>${text}<span class="value" aria-hidden="true">${value}</span>
  <input type="range" min=${min} max=${max} step=${step} value=${value} onInput=${(event) => onInput(Number(event.target.value))} /></label>`;

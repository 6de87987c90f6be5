// Timeline: what came in per day, the decisions, what was forgotten, the ingests that can be undone, and who did what.
import { Act, CopyCalls, Dialog, Fault, Loading, When, command, curl, say } from "../parts/basics.js";
import { Accesses } from "../parts/accesses.js";
import { Decision } from "../parts/decisions.js";
import { Days } from "../parts/days.js";
import { Preview } from "../parts/bulk.js";
import { address, get, post, useLoad } from "../lib/api.js";
import { flagsOf, scopeOf } from "../lib/home.js";
import { html, useState } from "../lib/html.js";
import { change } from "../lib/route.js";
import { number, visible } from "../lib/text.js";
import { S } from "../strings.js";

const DAYS = [30, 90, 400];

export function Timeline({ route }) {
  const { user, days = 90, did, of } = route.params;
  const scope = scopeOf(user);
  const activity = useLoad((signal) => get("/v1/activity", { days, ...scope }, { signal }), [days, user]);
  const decisions = useLoad((signal) => get("/v1/decisions", { limit: 50, ...scope }, { signal }), [user]);
  const forgotten = useLoad((signal) => get("/v1/forgotten", { limit: 30, ...scope }, { signal }), [user]);
  const batches = useLoad((signal) => get("/v1/batches", { limit: 20, ...scope }, { signal }), [user]);
  const [undoing, setUndoing] = useState(null);

  function reload() {
    for (const one of [activity, decisions, forgotten, batches]) one.reload();
  }

  return html`
    <div class="head"><h1>${S.timeline.title}</h1><p class="lead">${S.timeline.lead}</p><span class="push"><${CopyCalls} cli=${command("status", "--growth", days, ...flagsOf(user))} http=${curl("GET", address("/v1/activity", { days, ...scope }))} /></span></div>
    <section class="panel"><header><h2>${S.timeline.chart(days)}</h2><label class="push row small">${S.timeline.days}<select value=${String(days)} onChange=${(event) => change({ days: event.target.value }, { replace: true })}>${DAYS.map((count) => html`<option key=${count} value=${count}>${count}</option>`)}</select></label></header><div class="body">
      <${Fault} error=${activity.error} />${activity.value ? html`<${Days} days=${activity.value.days} />` : !activity.error && html`<${Loading} />`}
    </div></section>
    <div class="columns">
      <section class="panel"><header><h2>${S.timeline.decisionsTitle}</h2><span class="push"><${CopyCalls} cli=${command("decisions", ...flagsOf(user))} http=${curl("GET", address("/v1/decisions", scope))} /></span></header><div class="body">
        <${Fault} error=${decisions.error} />
        ${decisions.value && (decisions.value.decisions.length ? html`<ol class="history">${decisions.value.decisions.map((one) => html`<${Decision} key=${one.id} one=${one} user=${user} onUndone=${reload} />`)}</ol>` : html`<p class="muted">${S.timeline.noDecisions}</p>`)}
      </div></section>
      <div class="stack">
        <section class="panel"><header><h2>${S.timeline.batches}</h2><span class="push"><${CopyCalls} cli=${command("undo", ...flagsOf(user))} http=${curl("GET", address("/v1/batches", scope))} /></span></header><div class="body">
          <${Fault} error=${batches.error} />
          ${batches.value && (batches.value.batches.length ? html`<ul class="history">${batches.value.batches.map((one) => html`<li key=${one.id} class="row small"><${When} at=${one.at} /><span class="mono">${visible(one.id)}</span><span>${number(one.memories)} ${S.timeline.remembered}</span><${Act} needs="writer" class="push" onClick=${() => setUndoing(one)}>${S.timeline.undoBatch}<//></li>`)}</ul>` : html`<p class="muted">${S.timeline.noBatches}</p>`)}
        </div></section>
        <section class="panel"><header><h2>${S.timeline.forgottenTitle}</h2><span class="push"><${CopyCalls} cli=${command("forgotten", ...flagsOf(user))} http=${curl("GET", address("/v1/forgotten", scope))} /></span></header><div class="body">
          <${Fault} error=${forgotten.error} />
          ${forgotten.value && (forgotten.value.forgotten.length ? html`<ul class="history">${forgotten.value.forgotten.map((one, at) => html`<li key=${at} class="row small"><${When} at=${one.at} /><span class="mono">${visible(one.ref ?? "")}</span><span class="muted">${visible(one.by ?? "")}</span></li>`)}</ul>` : html`<p class="muted">${S.timeline.noForgotten}</p>`)}
        </div></section>
      </div>
    </div>
    <${Accesses} user=${user} did=${did} of=${of} />
    ${undoing && html`<${UndoBatch} batch=${undoing} scope=${scope} onClose=${() => setUndoing(null)} onDone=${() => { setUndoing(null); reload(); }} />`}
  `;
}

function UndoBatch({ batch, scope, onClose, onDone }) {
  const preview = useLoad((signal) => post("/v1/undo", { batch: batch.id, dry_run: true, ...scope }, { signal }), [batch.id]);
  const [error, setError] = useState(null);
  async function submit() {
    try {
      for (let more = true; more; ) ({ more } = await post("/v1/undo", { batch: batch.id, ...scope }));
      say(S.undone);
      onDone();
    } catch (failed) {
      setError(failed);
    }
  }
  return html`<${Dialog} title=${S.timeline.undoBatchTitle(visible(batch.id))} submit=${S.undo} danger onSubmit=${submit} onClose=${onClose}>
    <p>${S.timeline.undoBatchLead(batch.memories)}</p>
    <${Preview} reply=${preview.value} />
    <${Fault} error=${error ?? preview.error} />
  <//>`;
}

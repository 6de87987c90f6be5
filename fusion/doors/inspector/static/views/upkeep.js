// Upkeep: what needs a person, proposals, and the jobs that keep the memories in order.
import { Act, Chip, CopyCalls, Dialog, Empty, Fault, Loading, Only, Said, When, command, curl, say } from "../parts/basics.js";
import { undoDecision } from "../parts/decisions.js";
import { MemoryFile } from "../parts/memory_file.js";
import { address, get, post, useLoad } from "../lib/api.js";
import { flagsOf, scopeOf } from "../lib/home.js";
import { html, useState } from "../lib/html.js";
import { change, href } from "../lib/route.js";
import { visible, words } from "../lib/text.js";
import { S } from "../strings.js";

export function Upkeep({ route, status }) {
  const { user } = route.params;
  return html`
    <div class="head"><h1>${S.upkeep.title}</h1><p class="lead">${S.upkeep.lead}</p></div>
    <div class="columns">
      <section class="panel"><header><h2>${S.upkeep.triage}</h2><span class="push"><${CopyCalls} cli=${command("triage", ...flagsOf(user))} http=${curl("GET", address("/v1/triage", scopeOf(user)))} /></span></header><div class="body"><${Only} needs="operator"><${Triage} user=${user} /><//></div></section>
      <div class="stack">
        <section class="panel"><header><h2>${S.upkeep.proposals}</h2><span class="push"><${CopyCalls} cli=${command("proposals", ...flagsOf(user))} http=${curl("GET", address("/v1/proposals", { state: "open", ...scopeOf(user) }))} /></span></header><div class="body"><${Only} needs="proposer"><${Proposals} user=${user} decides=${status?.caller?.decides_on_proposals} /><//></div></section>
        <${MemoryFile} status=${status} />
      </div>
    </div>
    ${status && (status.caller?.tenant ?? "default") === "default" && html`<${Jobs} chosen=${route.params.job} />`}
  `;
}

function Triage({ user }) {
  const { value, error, reload } = useLoad((signal) => get("/v1/triage", scopeOf(user), { signal }), [user]);
  async function decide(item, choice) {
    try {
      const done = await post("/v1/triage", { item: item.id, choice: choice.name, ...scopeOf(user) });
      say(S.upkeep.decided, { undo: done.decision && (() => undoDecision(done.decision, reload)) });
      reload();
    } catch (failed) {
      say(failed.message, { tone: "bad" });
    }
  }
  return html`
    <${Fault} error=${error} />
    ${!value && !error && html`<${Loading} />`}
    ${value && !value.items.length && html`<${Empty} title=${S.upkeep.nothing}><p>${S.upkeep.nothingLead}</p><//>`}
    ${value?.items.map((item) => html`<article key=${item.id} class="candidate">
      <div class="row"><${Chip} tone=${item.urgency >= 60 ? "bad" : "warn"}>${words(item.kind)}<//><span class="small muted" title=${S.upkeep.urgency(item.urgency)}>${visible(item.why)}</span></div>
      ${(item.sides?.length ? item.sides : [{ ref: item.id, text: item.text, at: item.at }]).map((side) => html`<div key=${side.ref}><span class="row small"><a class="mono" href=${href("memories", { ref: side.ref, user })}>${visible(side.ref)}</a><${When} at=${side.at} /></span><${Said} text=${side.text} limit=${400} /></div>`)}
      <div class="row">${item.choices.map((choice) => html`<button key=${choice.name} title=${visible(choice.does)} onClick=${() => decide(item, choice)}>${words(choice.name).replace(":", " ")}</button>`)}${item.command && html`<span class="push"><${CopyCalls} cli=${item.command} /></span>`}</div>
    </article>`)}`;
}

function Proposals({ user, decides }) {
  const { value, error, reload } = useLoad((signal) => get("/v1/proposals", { state: "open", ...scopeOf(user) }, { signal }), [user]);
  const [rejecting, setRejecting] = useState(null);
  async function decide(id, verb, body = {}) {
    try {
      await post(`/v1/proposals/${encodeURIComponent(id)}/${verb}`, body);
      say(S.upkeep.decided);
    } catch (failed) {
      say(failed.message, { tone: "bad" });
    }
    setRejecting(null);
    reload();
  }
  return html`
    <${Fault} error=${error} />
    ${value && !value.proposals.length && html`<p class="muted">${S.upkeep.noProposals}</p>`}
    ${value?.proposals.map((one) => html`<article key=${one.id} class="candidate"><${Said} text=${one.text} limit=${600} />
      <div class="row"><${Act} needs="operator" allowed=${decides} onClick=${() => decide(one.id, "approve")}>${S.upkeep.approve}<//><${Act} needs="operator" allowed=${decides} class="danger" onClick=${() => setRejecting(one)}>${S.upkeep.reject}<//><span class="small muted push"><${When} at=${one.at} /></span></div></article>`)}
    ${rejecting && html`<${Dialog} title=${S.upkeep.rejectTitle} submit=${S.upkeep.reject} danger onClose=${() => setRejecting(null)} onSubmit=${() => decide(rejecting.id, "reject", { why: document.getElementById("why-not").value })}>
      <${Said} text=${rejecting.text} limit=${300} /><label class="field">${S.memories.why}<input id="why-not" maxlength="500" /></label><//>`}`;
}

/** `chosen` is the job whose last receipt is shown; what was run just now is shown instead. */
function Jobs({ chosen }) {
  const { value, error, reload } = useLoad((signal) => get("/v1/jobs", {}, { signal }), [], { every: 5000 });
  const [ran, setRan] = useState(null);
  const last = value?.jobs.find((job) => job.name === chosen)?.last;
  const receipt = ran ?? (last ? { job: chosen, ran: last } : null);
  async function run(job, dryRun) {
    say(S.upkeep.running(job.name), { tone: "" });
    try {
      const done = await post(`/v1/jobs/${encodeURIComponent(job.name)}/run`, { dry_run: dryRun });
      say(S.upkeep.ran(job.name));
      setRan({ job: job.name, ran: done });
    } catch (failed) {
      say(failed.message, { tone: "bad" });
    }
    reload();
  }
  async function turn(job) {
    try {
      await post(`/v1/jobs/${encodeURIComponent(job.name)}/${job.paused ? "resume" : "pause"}`, {});
    } catch (failed) {
      say(failed.message, { tone: "bad" });
    }
    reload();
  }
  function close() {
    setRan(null);
    change({ job: "" }, { replace: true });
  }
  const C = S.upkeep.columns;
  return html`<section class="panel"><header><h2>${S.upkeep.jobs}</h2><span class="push"><${CopyCalls} cli=${command("jobs")} http=${curl("GET", "/v1/jobs")} /></span></header>
    <${Fault} error=${error} />
    <div class="scroll"><table>
      <thead><tr><th>${C.job}</th><th>${C.schedule}</th><th>${C.last}</th><th>${C.next}</th><th><span class="hidden">${S.more}</span></th></tr></thead>
      <tbody>${(value?.jobs ?? []).map((job) => html`<tr key=${job.name}>
        <td><strong>${visible(job.name)}</strong><div class="small muted">${visible(job.does)}</div></td>
        <td>${visible(job.schedule)} ${job.paused && html`<${Chip} tone="warn">${S.upkeep.paused}<//>`}</td>
        <td>${job.last ? html`<button class="plain" onClick=${() => change({ job: job.name })}><${When} at=${job.last.began} /></button> ${job.last.status && html`<${Chip} tone=${job.last.status === "done" ? "good" : "bad"}>${visible(job.last.status)}<//>`}` : html`<span class="muted">${S.upkeep.never}</span>`}</td>
        <td><${When} at=${job.next} exact /></td>
        <td><div class="row"><${Act} needs="operator" onClick=${() => run(job, true)}>${S.upkeep.dryRun}<//><${Act} needs="operator" onClick=${() => run(job, false)}>${S.upkeep.run}<//><${Act} needs="operator" class="plain" onClick=${() => turn(job)}>${job.paused ? S.upkeep.resume : S.upkeep.pause}<//></div></td>
      </tr>`)}</tbody>
    </table></div>
    ${receipt && html`<${Dialog} title=${`${S.upkeep.receipt}: ${visible(receipt.job)}`} onClose=${close}><pre class="block said">${visible(JSON.stringify(receipt.ran, null, 2))}</pre><//>`}
  </section>`;
}

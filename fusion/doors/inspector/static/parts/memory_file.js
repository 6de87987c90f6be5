// MEMORY.md against its baseline: what differs, what a restore would bring back, and the decision of a person.
import { Problem, get, post, useLoad } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { share, time, visible } from "../lib/text.js";
import { S } from "../strings.js";
import { Chip, CopyCalls, Dialog, Fault, Loading, When, command, curl, say } from "./basics.js";
import { takeBack, undoDecision } from "./decisions.js";

const F = S.upkeep.file;
const PATH = "/v1/inspector/memory-file";
const TONES = { same: "good", differs: "warn", unreadable: "bad" };
/** lines of a difference that are drawn */
const SHOWN = 600;

/** `status` says whose key the page has: the owner of the home alone sees the file. */
export function MemoryFile({ status }) {
  const who = status?.caller;
  const isOwner = who?.name === "owner" && who.tenant === "default";
  return html`<section class="panel" aria-label=${F.title}><header><h2>${F.title}</h2><span class="push"><${CopyCalls} cli=${command("shepherd", "diff")} http=${curl("POST", "/v1/jobs/shepherd/run", { dry_run: true })} /></span></header>
    <div class="body">${!who ? html`<${Loading} />` : isOwner ? html`<${Owned} />` : html`<p class="muted">${F.ownersOnly}</p>`}</div></section>`;
}

function Owned() {
  const { value: file, error, reload } = useLoad((signal) => get(PATH, {}, { signal }), []);
  const [doing, setDoing] = useState(null);
  if (error) return error instanceof Problem && error.status === 403 ? html`<p class="muted">${visible(error.message)}</p>` : html`<${Fault} error=${error} />`;
  if (!file) return html`<${Loading} />`;
  const done = () => {
    setDoing(null);
    reload();
  };
  return html`
    <div class="row"><${Chip} tone=${TONES[file.state] ?? ""}>${F.states[file.state]}<//>
      ${file.baseline && html`<span class="small muted">${F.promotedAt} <${When} at=${file.baseline.at} exact /></span>`}
      ${file.path && html`<span class="small mono muted said">${visible(file.path)}</span>`}</div>
    ${file.why && html`<p class="small said muted">${visible(file.why)}</p>`}
    ${file.drift && file.state === "differs" && html`<p class="small">${F.drift(share(file.drift.lines), file.drift.meaning.toFixed(2))}</p>`}
    ${file.drift?.protected.length > 0 && html`<div class="notice bad small">${F.protectedParts}: ${visible(file.drift.protected.join(", "))}</div>`}
    ${file.diff.length > 0 && html`<details open=${file.state === "differs"}><summary class="small">${F.diff}</summary><${Diff} lines=${file.diff} /></details>`}
    ${["no_baseline", "differs", "same"].includes(file.state) && html`<div class="row">
      <button onClick=${() => setDoing("promote")} disabled=${!file.diff.length}>${F.promote}</button>
      <button onClick=${() => setDoing("restore")} disabled=${!file.restore.length}>${F.restore}</button>
      ${file.earlier && html`<button class="plain" onClick=${() => setDoing("back")}>${F.undoPromotion}</button>`}
    </div>`}
    ${file.incidents.length > 0 && html`<details><summary class="small">${F.incidents}</summary><ul class="history">${file.incidents.map((one) => html`<li key=${one.number} class="small"><${When} at=${one.at} /> <span class="said">${visible(one.text)}</span></li>`)}</ul></details>`}
    ${doing === "promote" && html`<${Promote} file=${file} onClose=${() => setDoing(null)} onDone=${done} />`}
    ${doing === "restore" && html`<${Restore} file=${file} onClose=${() => setDoing(null)} onDone=${done} />`}
    ${doing === "back" && html`<${Back} file=${file} onClose=${() => setDoing(null)} onDone=${done} />`}
  `;
}

function Promote({ file, onClose, onDone }) {
  const decide = async () => {
    const made = await post(`${PATH}/promote`, { sha256: file.sha256 });
    say(F.promoted, { undo: file.baseline && (() => goBack(made.sha256, onDone)) });
  };
  return html`<${Decide} title=${F.promoteTitle} lead=${F.promoteLead} submit=${F.promote.replace(" …", "")} lines=${file.diff} cli=${command("shepherd", "promote")} decide=${decide} onClose=${onClose} onDone=${onDone} />`;
}

function Restore({ file, onClose, onDone }) {
  const decide = async () => {
    const made = await post(`${PATH}/restore`, { sha256: file.sha256 });
    say(F.restored, { undo: () => undoDecision(made.change, onDone) });
  };
  return html`<${Decide} title=${F.restoreTitle} lead=${F.restoreLead} submit=${F.restore.replace(" …", "")} lines=${file.restore} cli=${command("shepherd", "restore")} decide=${decide} onClose=${onClose} onDone=${onDone} />`;
}

function Back({ file, onClose, onDone }) {
  const decide = async () => {
    await post(`${PATH}/undo-promotion`, { sha256: file.baseline.sha256 });
    say(F.back);
  };
  return html`<${Decide} title=${F.undoPromotionTitle(time(file.earlier, { exact: true }))} lead=${F.undoPromotionLead} submit=${F.undoPromotion} lines=${[]} cli=${command("shepherd", "undo-promotion")} decide=${decide} onClose=${onClose} onDone=${onDone} />`;
}

const goBack = (sha256, done) => takeBack(`${PATH}/undo-promotion`, { sha256 }, done, F.back);

/** What would change, before a person decides; a refusal of the server stays in the dialog. */
function Decide({ title, lead, submit, lines, cli, decide, onClose, onDone }) {
  const [error, setError] = useState(null);
  async function onSubmit() {
    try {
      await decide();
      onDone();
    } catch (failed) {
      setError(failed);
    }
  }
  return html`<${Dialog} title=${title} submit=${submit} onSubmit=${onSubmit} onClose=${onClose}>
    <p>${lead}</p>
    ${lines.length > 0 && html`<${Diff} lines=${lines} />`}
    ${cli && html`<${CopyCalls} cli=${cli} />`}
    <${Fault} error=${error} />
  <//>`;
}

const KINDS = { "+": "added", "-": "removed", "@": "place" };

/** Lines with what is added and removed; a sign stands before each, so that colour is not needed. */
function Diff({ lines }) {
  return html`<pre class="block diff" tabindex="0">${lines.slice(0, SHOWN).map((line, at) => html`<span key=${at} class=${KINDS[line[0]] ?? ""}>${visible(line)}${"\n"}</span>`)}${lines.length > SHOWN ? F.more(lines.length - SHOWN) : ""}</pre>`;
}

// Small parts that all views share.
import { useStore, store } from "../lib/store.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { S } from "../strings.js";
import { ago, time, visible } from "../lib/text.js";

/** A text of a memory, with what was looked for marked. Long ones are cut until somebody asks for all. */
export function Said({ text, find = "", limit = 2000 }) {
  const [all, setAll] = useState(false);
  const whole = String(text ?? "");
  const shown = visible(all ? whole : whole.slice(0, limit));
  return html`<div class="said">${marked(shown, find)}${!all && whole.length > limit && html`… <button class="plain" onClick=${() => setAll(true)}>${S.showAll(whole.length)}</button>`}</div>`;
}

function marked(text, find) {
  const words = find.split(/\s+/).filter((word) => word.length > 3).slice(0, 12);
  if (!words.length) return text;
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "giu");
  return text.split(pattern).map((part, at) => (at % 2 ? html`<mark>${part}</mark>` : part));
}

export const Chip = ({ tone = "", title, children }) => html`<span class="chip ${tone}" title=${title}>${children}</span>`;

export function When({ at, exact }) {
  return at ? html`<time datetime=${at} title=${ago(at)}>${time(at, { exact })}</time>` : null;
}

export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

/** What went wrong, in the words of the server, which name the fix. */
export const Fault = ({ error }) => error && html`<div class="notice bad" role="alert">${visible(error.message)}</div>`;

export const Loading = ({ what }) => html`<div class="empty waiting" role="status">${what ?? S.loading}</div>`;

export function Meter({ value, most, label }) {
  const part = most ? Math.min(1, value / most) : 0;
  return html`<div class="meter ${part >= 0.98 ? "full" : ""}" role="img" aria-label=${label}><span style=${{ width: `${part * 100}%` }}></span></div>`;
}

export function Tabs({ tabs, chosen, onChoose, label }) {
  const list = useRef(null);
  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex(([name]) => name === chosen);
    const next = (at + step + tabs.length) % tabs.length;
    onChoose(tabs[next][0]);
    list.current.children[next].focus();
  }
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
    ${tabs.map(([name, text]) => html`<button key=${name} role="tab" type="button" aria-selected=${name === chosen} tabindex=${name === chosen ? 0 : -1} onClick=${() => onChoose(name)}>${text}</button>`)}
  </div>`;
}

/** A question before something is changed. It is closed by Escape, and nothing has happened. */
export function Dialog({ title, onClose, onSubmit, submit, danger, busy, children }) {
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  function decide(event) {
    event.preventDefault();
    onSubmit();
  }
  return html`<dialog ref=${dialog} onClose=${onClose} aria-label=${title}>
    <form onSubmit=${decide}>
      <h2>${title}</h2>
      ${children}
      <div class="row">
        <button type="button" class="push" onClick=${() => dialog.current.close()}>${S.cancel}</button>
        ${submit && html`<button type="submit" class=${danger ? "danger" : "first"} disabled=${busy}>${submit}</button>`}
      </div>
    </form>
  </dialog>`;
}

const toast = store(null);

/** Say what has just happened; with `undo` it can be taken back. */
export function say(text, { tone = "good", undo } = {}) {
  const said = { text, tone, undo };
  toast.set(said);
  setTimeout(() => toast.get() === said && toast.set(null), undo ? 15_000 : 5000);
}

export function Toast() {
  const said = useStore(toast);
  return html`<div aria-live="polite">
    ${said && html`<div class="toast notice ${said.tone}">
      <span>${visible(said.text)}</span>
      ${said.undo && html`<button onClick=${() => { toast.set(null); said.undo(); }}>${S.undo}</button>`}
      <button class="plain" onClick=${() => toast.set(null)} aria-label=${S.close}>✕</button>
    </div>`}
  </div>`;
}

/** Copies a text; what is shown can always be had by the command line and by curl as well. */
export function Copy({ text, label, what }) {
  async function copy() {
    await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
    say(S.copied(what ?? label), {});
  }
  return html`<button type="button" class="plain" onClick=${copy}>${label}</button>`;
}

const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`);
export const command = (...words) => ["fusion", ...words.filter((word) => word !== null && word !== undefined)].map(quote).join(" ");

export function curl(method, path, body) {
  const sent = body === undefined ? [] : ["-H 'content-type: application/json'", `-d ${quote(JSON.stringify(body))}`];
  return [`curl -X ${method} ${quote(location.origin + path)}`, '-H "authorization: Bearer $(fusion token)"', ...sent].join(" ");
}

export const CopyCalls = ({ cli, http }) => html`<span class="row">
  ${cli && html`<${Copy} label=${S.copyCommand} what=${S.theCommand} text=${cli} />`}
  ${http && html`<${Copy} label=${S.copyCurl} what=${S.theCurl} text=${http} />`}
</span>`;

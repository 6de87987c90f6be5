// Small parts that all views share.
import { useStore, store } from "../lib/store.js";
import { allows, caller } from "../lib/home.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { EVERYBODY } from "../lib/home.js";
import { change } from "../lib/route.js";
import { S } from "../strings.js";
import { ago, quoted, time, visible } from "../lib/text.js";

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

/** What went wrong, in the words of the server, which name the fix; or whose memories one can look at. */
export function Fault({ error }) {
  if (!error) return null;
  if (!error.users?.length) return html`<div class="notice bad" role="alert">${visible(error.message)}</div>`;
  return html`<div class="notice" role="alert"><span>${S.severalUsers}</span>
    ${error.users.map((name) => html`<button key=${name} type="button" onClick=${() => change({ user: name })}>${visible(name)}</button>`)}
    <button type="button" onClick=${() => change({ user: EVERYBODY })}>${S.everybody}</button></div>`;
}

export const Loading = ({ what }) => html`<div class="empty waiting" role="status">${what ?? S.loading}</div>`;

export function Meter({ value, most, label }) {
  const part = most ? Math.min(1, value / most) : 0;
  return html`<div class="meter ${part >= 0.98 ? "full" : ""}" role="img" aria-label=${label}><span style=${{ width: `${part * 100}%` }}></span></div>`;
}

/** A button for what needs a role. With a lower key it is off, and says why. */
export function Act({ needs, allowed, children, ...rest }) {
  const who = useStore(caller);
  if (allowed ?? allows(who, needs)) return html`<button type="button" ...${rest}>${children}</button>`;
  return html`<button type="button" ...${rest} disabled title=${S.roles.needs(needs)}>${children}<span class="hidden"> (${S.roles.needs(needs)})</span></button>`;
}

/** What only a key with a role may see; a lower one is given a word instead. */
export function Only({ needs, children }) {
  return allows(useStore(caller), needs) ? children : html`<p class="muted">${S.roles.needs(needs)}</p>`;
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

/** Bring what was opened in sight where it is above the list instead of next to it, as on a phone. */
export function useDetail(ref) {
  useEffect(() => {
    if (ref && matchMedia("(max-width: 1080px)").matches) document.querySelector(".detail")?.scrollIntoView({ block: "start" });
  }, [ref]);
}

export const command = (...words) => ["fusion", ...words.filter((word) => word !== null && word !== undefined)].map(quoted).join(" ");

/** `raw` is a body in the words of a shell, in place of `body`. */
export function curl(method, path, body, { raw = body === undefined ? "" : quoted(JSON.stringify(body)), quiet = false } = {}) {
  const sent = raw ? ["-H 'content-type: application/json'", `-d ${raw}`] : [];
  return [`curl ${quiet ? "-s " : ""}-X ${method} ${quoted(location.origin + path)}`, '-H "authorization: Bearer $(fusion token)"', ...sent].join(" ");
}

/** The call that asks a question and answers it again by other numbers. It asks, since the recording of the page ends. */
export function replayCurl(question, changes) {
  const asking = curl("POST", "/v1/ask", { ...question, record: true }, { quiet: true });
  const recording = `"$(${asking} | sed -n 's/.*"recording":"\\([^"]*\\)"}$/\\1/p')"`;
  const rest = quoted(JSON.stringify({ recording: "", ...changes }).slice('{"recording":"'.length));
  return curl("POST", "/v1/replay", undefined, { raw: `'{"recording":"'${recording}${rest}` });
}

export const CopyCalls = ({ cli, http }) => html`<span class="row">
  ${cli && html`<${Copy} label=${S.copyCommand} what=${S.theCommand} text=${cli} />`}
  ${http && html`<${Copy} label=${S.copyCurl} what=${S.theCurl} text=${http} />`}
</span>`;

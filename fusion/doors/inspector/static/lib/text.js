// Text from outside as a person can read it safely. It is only ever shown as text, never as HTML.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const INVISIBLE = /[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Control characters and marks that change the direction of writing, made visible: a text cannot hide or reorder itself. */
export function visible(text) {
  return String(text ?? "")
    .replace(CONTROLS, (sign) => (sign < " " ? String.fromCharCode(0x2400 + sign.charCodeAt(0)) : code(sign)))
    .replace(INVISIBLE, code);
}

/** Whether a text has signs that `visible` shows. */
export const hasUnseen = (text) => visible(text) !== String(text);

/** A word of a command line. Signs that a terminal would obey when they are pasted are escapes, as bash and zsh read them. */
export function quoted(word) {
  const text = String(word);
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (!hasUnseen(text) && !text.includes("\n")) return `'${text.replaceAll("'", "'\\''")}'`;
  const escape = (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `$'${text.replace(/['\\]/g, "\\$&").replace(/[\t\n]/g, escape).replace(CONTROLS, escape).replace(INVISIBLE, escape)}'`;
}

const code = (sign) => `⟨U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** A name of the server's as words: adds_too_little is "adds too little". */
export const words = (name) => visible(name).replaceAll("_", " ");

/** The beginning of a text, as one line. */
export function opening(text, chars = 160) {
  const line = visible(String(text ?? "").slice(0, chars * 2)).replace(/\s+/g, " ").trim();
  return line.length > chars ? `${line.slice(0, chars)}…` : line;
}

const NUMBER = new Intl.NumberFormat("en");
export const number = (value) => (value === null || value === undefined ? "–" : NUMBER.format(value));
export const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 100)} %`);
export const score = (value) => (value === null || value === undefined ? "–" : value.toFixed(3).replace(/^0(?=\.)/, ""));
export const ms = (value) => (value === null || value === undefined ? "–" : value < 10 ? `${value.toFixed(1)} ms` : value < 10_000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`);

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const unit = value < 1e3 ? ["B", 1] : value < 1e6 ? ["kB", 1e3] : value < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
  return `${(value / unit[1]).toFixed(unit[1] === 1 || value / unit[1] >= 100 ? 0 : 1)} ${unit[0]}`;
}

/** A time as a person writes it: 2026-04-21 14:05, in the zone of the browser; midnight in UTC is a date alone. */
export function time(at, { exact = false } = {}) {
  if (!at) return "";
  const moment = new Date(at);
  if (Number.isNaN(moment.getTime())) return visible(at);
  const two = (part) => String(part).padStart(2, "0");
  if (!exact && /T00:00:00(\.0+)?(Z|\+00:00)$/.test(at)) return at.slice(0, 10);
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())} ${two(moment.getHours())}:${two(moment.getMinutes())}`;
}

export function ago(at, now = Date.now()) {
  const seconds = (now - new Date(at).getTime()) / 1000;
  if (!Number.isFinite(seconds)) return "";
  const [count, unit] = seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [seconds / 60, "min"] : seconds < 86_400 ? [seconds / 3600, "h"] : [seconds / 86_400, "d"];
  return seconds < 0 ? time(at) : `${Math.floor(count)} ${unit} ago`;
}

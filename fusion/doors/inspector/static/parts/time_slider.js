// A slider over the days from the oldest memory until now; what is shown next to it follows.
import { get, useLoad } from "../lib/api.js";
import { scopeOf } from "../lib/home.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { S } from "../strings.js";

const DAY_MS = 86_400_000;
/** milliseconds that the slider stands still before the server is asked */
const STILL_MS = 120;

const dayOf = (time) => Math.floor(new Date(time).getTime() / DAY_MS);
const dateOf = (day) => new Date(day * DAY_MS).toISOString().slice(0, 10);

/** `at` is a date, or empty for now; `onChange` is called with the date that the slider stands at, or with "" for now. */
export function TimeSlider({ at, user, onChange }) {
  const oldest = useLoad((signal) => get("/v1/memories", { order: "oldest", limit: 1, ...scopeOf(user) }, { signal }), [user]);
  const first = oldest.value?.memories[0];
  const today = dayOf(Date.now());
  const [day, setDay] = useState(at ? dayOf(at) : today);
  const timer = useRef(null);
  useEffect(() => setDay(at ? dayOf(at) : today), [at]);
  useEffect(() => () => clearTimeout(timer.current), []);
  if (!first) return null;
  const from = Math.min(dayOf(first.at ?? first.recorded_at), today - 1);

  function moved(event) {
    const next = Number(event.target.value);
    setDay(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(next >= today ? "" : dateOf(next)), STILL_MS);
  }

  const shown = day >= today ? S.graph.now : dateOf(day);
  return html`<label class="slider small"><span>${S.graph.at}</span><span class="mono">${dateOf(from)}</span>
    <input type="range" min=${from} max=${today} step="1" value=${Math.min(today, Math.max(from, day))} aria-valuetext=${shown} onInput=${moved} />
    <output class="mono">${shown}</output></label>`;
}

// A list of any length: only the rows in sight are drawn, and more are fetched before its end is reached.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";

const AROUND = 8;

/**
 * `items` in rows of `height` pixels. `row(item)` draws one; `onEnd` is called when its last rows come in sight. The arrow
 * keys move between the rows.
 */
export function Rows({ items, height, row, onEnd, label }) {
  const box = useRef(null);
  const [seen, setSeen] = useState({ top: 0, size: 600 });
  useLayoutEffect(() => {
    const measured = new ResizeObserver(() => setSeen((now) => ({ ...now, size: box.current.clientHeight })));
    measured.observe(box.current);
    return () => measured.disconnect();
  }, []);
  const from = Math.max(0, Math.floor(seen.top / height) - AROUND);
  const to = Math.min(items.length, Math.ceil((seen.top + seen.size) / height) + AROUND);
  useEffect(() => {
    if (onEnd && to >= items.length) onEnd();
  }, [to, items.length]);
  function move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const now = event.target.closest?.("[data-at]");
    if (!step || !now) return;
    event.preventDefault();
    const next = Number(now.dataset.at) + step;
    const wanted = box.current.querySelector(`[data-at="${next}"]`);
    if (wanted) wanted.focus();
  }
  return html`<div class="rows" ref=${box} role="list" aria-label=${label} onScroll=${() => setSeen({ top: box.current.scrollTop, size: box.current.clientHeight })} onKeyDown=${move}>
    <div class="space" style=${{ height: `${items.length * height}px` }}>
      ${items.slice(from, to).map((item, at) => row(item, { "data-at": from + at, style: { top: `${(from + at) * height}px`, height: `${height}px` } }))}
    </div>
  </div>`;
}

// One line drawing a view.
import { html } from "../lib/html.js";

const PATHS = {
  ask: "M4 5h16v11H9l-5 4V5z",
  live: "M3 12h4l3-7 4 14 3-7h4",
  memories: "M4 6h16M4 12h16M4 18h10",
  graph: "M6 6h.01M18 8h.01M9 18h.01M6 6l12 2M6 6l3 12M18 8L9 18",
  timeline: "M4 19V9m5 10V5m6 14v-7m5 7V8",
  upkeep: "M12 3v4m0 10v4M3 12h4m10 0h4M6 6l3 3m6 6l3 3M18 6l-3 3m-6 6l-3 3",
  health: "M12 20s-7-4.5-7-10a4 4 0 0 1 7-2.6A4 4 0 0 1 19 10c0 5.500-7 10-7 10z",
};

export const Icon = ({ name }) => html`<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

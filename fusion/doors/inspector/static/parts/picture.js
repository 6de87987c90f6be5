// The graph as a picture on a canvas: drag to move, turn the wheel to come closer, click an entity to go there.
import { html, useEffect, useRef } from "../lib/html.js";
import { layoutWorker } from "../lib/worker.js";
import { visible, words } from "../lib/text.js";
import { paint } from "./paint.js";
import { S } from "../strings.js";

const NEAREST_PX = 14;
const LABEL_CHARS = 40;
/** milliseconds without a change after which all relations are drawn again */
const REST_MS = 150;

/** `known` has the places of entities by name, from the picture before; it is kept up to date. */
export function Picture({ graph, known, chosen, marked, onChoose }) {
  const canvas = useRef(null);
  useEffect(() => draw(canvas.current, graph, { known, chosen, marked, onChoose }), [graph, chosen, marked]);
  return html`<div class="canvas" aria-busy="true"><canvas ref=${canvas} role="img" aria-label=${S.graph.canvas}></canvas></div>`;
}

/**
 * What is drawn of a graph, by number: each edge has two entries in `edges`, its ends. Edges and `order`, the entities, have
 * the most connected first.
 */
function drawing(graph, { chosen, marked }) {
  const numberOf = new Map(graph.nodes.map((node, at) => [node.name, at]));
  const degrees = graph.nodes.map((node) => node.degree ?? 0);
  const most = degrees.reduce((one, other) => Math.max(one, other), 1);
  const kinds = [...new Set(graph.nodes.map((node) => node.type ?? ""))];
  const pairs = graph.edges.map((edge) => [numberOf.get(edge.source), numberOf.get(edge.target), edge.relation]).filter(([a, b]) => a !== undefined && b !== undefined);
  const least = ([a, b]) => Math.min(degrees[a], degrees[b]);
  pairs.sort((one, other) => least(other) - least(one));
  return {
    numberOf,
    degrees,
    edges: Int32Array.from(pairs.flatMap(([a, b]) => [a, b])),
    relation: (n) => words(pairs[n][2]).slice(0, LABEL_CHARS),
    chosen: numberOf.get(chosen),
    radius: degrees.map((degree) => 2.5 + 7 * Math.sqrt(degree / most)),
    kinds: kinds.map((kind) => graph.nodes.flatMap((node, at) => ((node.type ?? "") === kind ? [at] : []))),
    order: degrees.map((_, at) => at).sort((a, b) => degrees[b] - degrees[a]),
    label: (at) => visible(graph.nodes[at].name).slice(0, LABEL_CHARS),
    rings: [[numberOf.get(chosen), "--accent"], ...[...marked].map((name) => [numberOf.get(name), "--bad"])].filter(([at]) => at !== undefined),
  };
}

/** Draws until the function that it returns is called. */
function draw(canvas, graph, { known, chosen, marked, onChoose }) {
  const box = canvas.parentElement;
  box.ariaBusy = "true";
  const drawn = drawing(graph, { chosen, marked });
  const view = { x: 0, y: 0, scale: 1, moved: false };
  const context = canvas.getContext("2d");
  const start = startOf(graph.nodes, drawn.edges, known);
  let places = start;
  let hovered = -1;
  let frame = 0;
  let rest = 0;

  const again = () => {
    frame ||= requestAnimationFrame(show);
  };
  /** Draw again, with fewer relations until the picture rests. */
  function changed() {
    clearTimeout(rest);
    rest = setTimeout(() => {
      rest = 0;
      again();
    }, REST_MS);
    again();
  }

  function show() {
    frame = 0;
    if (!places) return;
    if (!view.moved) fit(view, places, box);
    paint(canvas, context, { ...drawn, places, view, hovered, isMoving: rest !== 0 });
    canvas.dataset.drawn = rest ? "moving" : "whole";
  }

  function under(event) {
    if (!places) return -1;
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const x = (event.clientX - left - width / 2) / view.scale + view.x;
    const y = (event.clientY - top - height / 2) / view.scale + view.y;
    let [found, nearest] = [-1, (NEAREST_PX / view.scale) ** 2];
    for (let at = 0; at < graph.nodes.length; at += 1) {
      const distance = (places[2 * at] - x) ** 2 + (places[2 * at + 1] - y) ** 2;
      if (distance < nearest) [found, nearest] = [at, distance];
    }
    return found;
  }

  const stop = new AbortController();
  const on = (name, handle, options) => canvas.addEventListener(name, handle, { signal: stop.signal, ...options });
  let dragged = null;
  on("pointerdown", (event) => {
    dragged = { x: event.clientX, y: event.clientY, far: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  on("pointermove", (event) => {
    if (!dragged) {
      const at = under(event);
      if (at !== hovered) {
        hovered = at;
        canvas.style.cursor = at >= 0 ? "pointer" : "grab";
        again();
      }
      return;
    }
    const [dx, dy] = [event.clientX - dragged.x, event.clientY - dragged.y];
    dragged = { x: event.clientX, y: event.clientY, far: dragged.far + Math.abs(dx) + Math.abs(dy) };
    view.x -= dx / view.scale;
    view.y -= dy / view.scale;
    view.moved = true;
    changed();
  });
  on("pointerup", (event) => {
    const clicked = dragged && dragged.far < 4;
    dragged = null;
    const at = clicked ? under(event) : -1;
    if (at >= 0) onChoose(graph.nodes[at].name);
  });
  on("wheel", (event) => {
    event.preventDefault();
    view.moved = true;
    view.scale = Math.max(0.02, Math.min(12, view.scale * Math.exp(-event.deltaY / 400)));
    changed();
  }, { passive: false });
  const measured = new ResizeObserver(again);
  measured.observe(box);

  const worker = layoutWorker();
  worker.onmessage = ({ data }) => {
    places = data.places;
    box.ariaBusy = String(data.moving);
    changed();
  };
  worker.postMessage({ edges: drawn.edges, degrees: drawn.degrees, start });
  again();
  return () => {
    if (places) graph.nodes.forEach((node, at) => known.set(node.name, [places[2 * at], places[2 * at + 1]]));
    stop.abort();
    measured.disconnect();
    worker.terminate();
    cancelAnimationFrame(frame);
    clearTimeout(rest);
  };
}

/** All places in sight. */
function fit(view, places, { clientWidth: width, clientHeight: height }) {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let at = 0; at < places.length; at += 2) {
    left = Math.min(left, places[at]);
    right = Math.max(right, places[at]);
    top = Math.min(top, places[at + 1]);
    bottom = Math.max(bottom, places[at + 1]);
  }
  view.x = (left + right) / 2;
  view.y = (top + bottom) / 2;
  view.scale = Math.min(3, 0.9 * Math.min(width / Math.max(1, right - left + 60), height / Math.max(1, bottom - top + 60)));
}

/** Where the nodes begin: where they were, or at a neighbour that has a place; null if no place is known. */
function startOf(nodes, edges, known) {
  const found = nodes.map((node) => known.get(node.name));
  if (!found.some(Boolean)) return null;
  for (let at = 0; at < edges.length; at += 2) {
    const [a, b] = [edges[at], edges[at + 1]];
    found[a] ??= found[b] && near(found[b], a);
    found[b] ??= found[a] && near(found[a], b);
  }
  return Float32Array.from(found.flatMap((place, at) => place ?? near([0, 0], at)));
}

/** A place at another one, for the number of a node: no two are the same, so that forces can part them. */
const near = ([x, y], at) => [x + 12 * Math.cos(at), y + 12 * Math.sin(at)];

// The graph as a picture on a canvas: drag to move, turn the wheel to come closer, click an entity to go there.
import { html, useEffect, useRef } from "../lib/html.js";
import { layoutWorker } from "../lib/worker.js";
import { visible } from "../lib/text.js";
import { S } from "../strings.js";

const LABELS = 60;
const NEAREST_PX = 14;

export function Picture({ graph, chosen, marked, onChoose }) {
  const canvas = useRef(null);
  useEffect(() => draw(canvas.current, graph, { chosen, marked, onChoose }), [graph, chosen, marked]);
  return html`<div class="canvas"><canvas ref=${canvas} role="img" aria-label=${S.graph.canvas}></canvas></div>`;
}

/** Draws until it is told to stop, by the function that it returns. */
function draw(canvas, graph, { chosen, marked, onChoose }) {
  const numberOf = new Map(graph.nodes.map((node, at) => [node.name, at]));
  const edges = graph.edges.map((edge) => [numberOf.get(edge.source), numberOf.get(edge.target)]).filter(([a, b]) => a !== undefined && b !== undefined);
  const degrees = graph.nodes.map((node) => node.degree ?? 0);
  const most = Math.max(1, ...degrees);
  const radius = degrees.map((degree) => 2.5 + 7 * Math.sqrt(degree / most));
  const kinds = [...new Set(graph.nodes.map((node) => node.type ?? ""))];
  const byKind = kinds.map((kind) => graph.nodes.map((node, at) => ((node.type ?? "") === kind ? at : -1)).filter((at) => at >= 0));
  const labelled = degrees.map((degree, at) => [degree, at]).sort((a, b) => b[0] - a[0]).slice(0, LABELS).map(([, at]) => at);
  const paint = canvas.getContext("2d");
  const view = { x: 0, y: 0, scale: 1, fitted: false };
  let places = null;
  let hovered = -1;
  let frame = 0;

  const colours = new Map();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  /** A colour of the style sheet as a canvas takes it, in the theme of now. */
  const colour = (name) => {
    const key = `${name} ${document.documentElement.dataset.theme} ${dark.matches}`;
    if (!colours.has(key)) {
      canvas.style.color = `var(${name})`;
      colours.set(key, getComputedStyle(canvas).color);
    }
    return colours.get(key);
  };
  const again = () => {
    frame ||= requestAnimationFrame(show);
  };

  function show() {
    frame = 0;
    const ratio = devicePixelRatio;
    const { clientWidth: width, clientHeight: height } = canvas.parentElement;
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    if (!places) return;
    if (!view.moved) fit(width, height);
    paint.translate(width / 2, height / 2);
    paint.scale(view.scale, view.scale);
    paint.translate(-view.x, -view.y);

    paint.strokeStyle = colour("--line");
    paint.lineWidth = 1 / view.scale;
    paint.beginPath();
    for (const [a, b] of edges) {
      paint.moveTo(places[2 * a], places[2 * a + 1]);
      paint.lineTo(places[2 * b], places[2 * b + 1]);
    }
    paint.stroke();
    kinds.forEach((_, kind) => {
      paint.fillStyle = colour(`--b${kind % 8}`);
      paint.beginPath();
      for (const at of byKind[kind]) {
        paint.moveTo(places[2 * at] + radius[at], places[2 * at + 1]);
        paint.arc(places[2 * at], places[2 * at + 1], radius[at], 0, 7);
      }
      paint.fill();
    });
    ring(graph.nodes.findIndex((node) => node.name === chosen), colour("--accent"));
    for (const name of marked) ring(numberOf.get(name) ?? -1, colour("--bad"));
    labels();
  }

  function ring(at, stroke) {
    if (at < 0) return;
    paint.strokeStyle = stroke;
    paint.lineWidth = 3 / view.scale;
    paint.beginPath();
    paint.arc(places[2 * at], places[2 * at + 1], radius[at] + 3 / view.scale, 0, 7);
    paint.stroke();
  }

  function labels() {
    paint.fillStyle = colour("--text");
    paint.font = `${12 / view.scale}px system-ui, sans-serif`;
    paint.textAlign = "center";
    for (const at of hovered >= 0 ? [...labelled, hovered] : labelled) {
      paint.fillText(visible(graph.nodes[at].name).slice(0, 40), places[2 * at], places[2 * at + 1] - radius[at] - 4 / view.scale);
    }
  }

  function fit(width, height) {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let at = 0; at < places.length; at += 2) {
      left = Math.min(left, places[at]);
      right = Math.max(right, places[at]);
      top = Math.min(top, places[at + 1]);
      bottom = Math.max(bottom, places[at + 1]);
    }
    view.x = (left + right) / 2;
    view.y = (top + bottom) / 2;
    view.scale = Math.min(2, 0.9 * Math.min(width / Math.max(1, right - left + 60), height / Math.max(1, bottom - top + 60)));
  }

  function under(event) {
    if (!places) return -1;
    const box = canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - box.width / 2) / view.scale + view.x;
    const y = (event.clientY - box.top - box.height / 2) / view.scale + view.y;
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
    again();
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
    again();
  }, { passive: false });
  const measured = new ResizeObserver(again);
  measured.observe(canvas.parentElement);

  const worker = layoutWorker();
  worker.onmessage = ({ data }) => {
    places = data;
    again();
  };
  worker.postMessage({ count: graph.nodes.length, edges, degrees });
  return () => {
    stop.abort();
    measured.disconnect();
    worker.terminate();
    cancelAnimationFrame(frame);
  };
}

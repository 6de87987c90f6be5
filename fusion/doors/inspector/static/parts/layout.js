// A worker that places the nodes of a graph by forces (d3-force), so that the page stays free to move.
import "../vendor/d3-dispatch.js";
import "../vendor/d3-quadtree.js";
import "../vendor/d3-timer.js";
import "../vendor/d3-force.js";

const { d3 } = globalThis;
/** milliseconds between two pictures of the placement */
const SHOW_MS = 80;
const STILL = 0.02;

/** how much the nodes may still move that have a place already */
const WARM = 0.25;

addEventListener("message", ({ data: { edges, degrees, start } }) => {
  const nodes = degrees.map((degree, index) => ({ index, degree, ...(start && { x: start[2 * index], y: start[2 * index + 1] }) }));
  const links = Array.from({ length: edges.length / 2 }, (_, at) => ({ source: edges[2 * at], target: edges[2 * at + 1] }));
  const large = nodes.length > 2000;
  const simulation = d3
    .forceSimulation(nodes)
    .force("link", d3.forceLink(links).distance(large ? 18 : 46))
    .force("charge", d3.forceManyBody().strength((node) => -30 - 6 * Math.min(20, node.degree)).theta(large ? 1.4 : 0.9).distanceMax(large ? Infinity : 900))
    .force("x", d3.forceX().strength(0.04))
    .force("y", d3.forceY().strength(0.04))
    .alphaDecay(large ? 0.05 : 0.03)
    .alpha(start ? WARM : 1)
    .stop();
  let shown = 0;
  while (simulation.alpha() > STILL) {
    simulation.tick();
    if (performance.now() - shown > SHOW_MS) {
      shown = performance.now();
      send(nodes, true);
    }
  }
  send(nodes, false);
  close();
});

function send(nodes, moving) {
  const places = new Float32Array(nodes.length * 2);
  nodes.forEach((node, at) => {
    places[2 * at] = node.x;
    places[2 * at + 1] = node.y;
  });
  postMessage({ places, moving }, [places.buffer]);
}

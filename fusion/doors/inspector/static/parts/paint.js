// One frame of a graph's picture. Everything is drawn in pixels of the screen, and what is out of sight is left out: lines
// of one pixel, small squares and one size of letters are what a browser without a graphics card draws fast.

/** names that are drawn at once, those of the most connected entities in sight */
const LABELS = 60;
/** the size of its letters, in pixels */
const LETTERS = 12;
/** pixels of a radius below which an entity is drawn as a square */
const SMALL = 3;
/** lines that are drawn as one path */
const LINES_AT_ONCE = 1000;
/** lines that are drawn of a picture that moves, those of the most connected entities in sight */
const LINES_MOVING = 4000;
/** relations up to which their lines are strong; more of them would hide the entities */
const FEW_LINES = 500;

export function paint(canvas, context, { places, edges, radius, kinds, order, label, relation, rings, view, hovered, chosen = -1, isMoving }) {
  const { clientWidth: width, clientHeight: height } = canvas.parentElement;
  fitted(canvas, context, width, height);
  const spots = inPixels(places, view, width, height);
  const size = (at) => Math.max(0.8, radius[at] * Math.min(1, view.scale * 1.5));
  const isSeen = (at) => spots[2 * at] > -20 && spots[2 * at] < width + 20 && spots[2 * at + 1] > -20 && spots[2 * at + 1] < height + 20;

  lines(context, spots, edges, isMoving ? LINES_MOVING : Infinity, width, height, colour(canvas, edges.length <= 2 * FEW_LINES ? "--muted" : "--line"));
  const near = isMoving ? [] : relationsOf(edges, hovered < 0 ? chosen : hovered);
  if (near.length) lines(context, spots, near.flatMap((n) => [edges[2 * n], edges[2 * n + 1]]), LABELS, width, height, colour(canvas, "--accent"), 1.5);
  kinds.forEach((members, kind) => dots(context, spots, members.filter(isSeen), size, colour(canvas, `--b${kind % 8}`)));
  for (const [at, name] of rings) ring(context, spots, at, size(at) + 3, colour(canvas, name));
  const named = hovered < 0 ? [] : [hovered];
  for (let n = 0; n < order.length && named.length < LABELS; n += 1) if (isSeen(order[n])) named.push(order[n]);
  const written = [];
  labels(context, named.map((at) => [label(at), spots[2 * at], spots[2 * at + 1] - size(at) - 4]), written, colour(canvas, "--text"));
  labels(context, near.slice(0, LABELS).map((n) => [relation(n), ...middle(spots, edges[2 * n], edges[2 * n + 1])]), written, colour(canvas, "--accent"), colour(canvas, "--panel"));
}

/** The numbers of the relations of an entity, whose names are drawn: of the one under the mouse, or of the chosen one. */
function relationsOf(edges, at) {
  const found = [];
  if (at >= 0) for (let n = 0; n < edges.length / 2; n += 1) if (edges[2 * n] === at || edges[2 * n + 1] === at) found.push(n);
  return found;
}

const middle = (spots, a, b) => [(spots[2 * a] + spots[2 * b]) / 2, (spots[2 * a + 1] + spots[2 * b + 1]) / 2 + LETTERS / 3];

/** The canvas as large as its box, and empty. */
function fitted(canvas, context, width, height) {
  const ratio = devicePixelRatio;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
}

function inPixels(places, { x, y, scale }, width, height) {
  const spots = new Float32Array(places.length);
  for (let at = 0; at < places.length; at += 2) {
    spots[at] = (places[at] - x) * scale + width / 2;
    spots[at + 1] = (places[at + 1] - y) * scale + height / 2;
  }
  return spots;
}

function lines(context, spots, edges, most, width, height, stroke, thick = 1 / devicePixelRatio) {
  context.strokeStyle = stroke;
  context.lineWidth = thick;
  let drawn = 0;
  context.beginPath();
  for (let at = 0; at < edges.length && drawn < most; at += 2) {
    const [x1, y1, x2, y2] = [spots[2 * edges[at]], spots[2 * edges[at] + 1], spots[2 * edges[at + 1]], spots[2 * edges[at + 1] + 1]];
    if ((x1 < 0 && x2 < 0) || (y1 < 0 && y2 < 0) || (x1 > width && x2 > width) || (y1 > height && y2 > height)) continue;
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    drawn += 1;
    if (drawn % LINES_AT_ONCE === 0) {
      context.stroke();
      context.beginPath();
    }
  }
  context.stroke();
}

function dots(context, spots, members, size, fill) {
  context.fillStyle = fill;
  for (const at of members) {
    const [x, y, r] = [spots[2 * at], spots[2 * at + 1], size(at)];
    if (r < SMALL) {
      context.fillRect(x - r, y - r, 2 * r, 2 * r);
    } else {
      context.beginPath();
      context.arc(x, y, r, 0, 7);
      context.fill();
    }
  }
}

function ring(context, spots, at, r, stroke) {
  context.strokeStyle = stroke;
  context.lineWidth = 3;
  context.beginPath();
  context.arc(spots[2 * at], spots[2 * at + 1], r, 0, 7);
  context.stroke();
}

/** Names at their places, the first ones first; one that would cover another is left out until somebody comes closer. `ground` parts them from a line. */
function labels(context, names, written, fill, ground = "") {
  context.fillStyle = fill;
  context.font = `${LETTERS}px system-ui, sans-serif`;
  context.textAlign = "center";
  for (const [text, x, y] of names) {
    const half = context.measureText(text).width / 2;
    if (written.some((one) => Math.abs(one.x - x) < one.half + half && Math.abs(one.y - y) < LETTERS)) continue;
    written.push({ x, y, half });
    if (ground) {
      context.strokeStyle = ground;
      context.lineWidth = 4;
      context.strokeText(text, x, y);
    }
    context.fillText(text, x, y);
  }
}

const colours = new Map();
const dark = matchMedia("(prefers-color-scheme: dark)");

/** A colour of the style sheet as a canvas takes it, in the theme of now. */
function colour(canvas, name) {
  const key = `${name} ${document.documentElement.dataset.theme} ${dark.matches}`;
  if (!colours.has(key)) {
    canvas.style.color = `var(${name})`;
    colours.set(key, getComputedStyle(canvas).color);
  }
  return colours.get(key);
}

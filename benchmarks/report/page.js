"use strict";
// The list of questions. All text comes from the page's data and goes in as text, never as markup.
(() => {
  const PAGE = 30;
  const data = JSON.parse(document.getElementById("data").textContent);
  const form = document.getElementById("filters");
  const list = document.getElementById("cases");
  const count = document.getElementById("count");
  const more = document.getElementById("more");
  let matching = [];
  let shown = 0;

  function element(tag, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function isolated(tag, name, text) {
    const made = element(tag, name, text);
    made.dir = "auto";
    return made;
  }

  function points(share) {
    const rounded = (100 * Math.abs(share)).toFixed(0);
    return rounded + (rounded === "1" ? " point" : " points");
  }

  function outcome(one) {
    if (one.over === null) return ["", "no comparison"];
    if (one.outcome === "even") return ["", "even with " + one.baseline];
    return one.outcome === "won"
      ? ["good", "▲ won: " + points(one.over) + " more than " + one.baseline]
      : ["bad", "▼ lost: " + points(one.over) + " fewer than " + one.baseline];
  }

  // The block, with the evidence that stands in it as it is told marked.
  function block(text, evidence) {
    const box = isolated("pre");
    box.tabIndex = 0;
    if (!text) {
      box.textContent = "(an empty block)";
      return box;
    }
    let from = 0;
    const spans = [];
    for (const gold of evidence) {
      const at = gold.text ? text.indexOf(gold.text) : -1;
      if (at >= 0) spans.push([at, at + gold.text.length]);
    }
    spans.sort((a, b) => a[0] - b[0]);
    for (const [start, end] of spans) {
      if (start < from) continue;
      box.append(text.slice(from, start), element("mark", "", text.slice(start, end)));
      from = end;
    }
    box.append(text.slice(from));
    return box;
  }

  function evidence(gold, baseline) {
    const item = element("li", gold.found ? "found" : "missed");
    const state = element("div");
    state.append(element("span", "state", gold.found ? "✓ found" : "✗ missed"), " ", isolated("span", "where", gold.id));
    item.append(state);
    if (gold.text) item.append(isolated("p", "", gold.text));
    const notes = [];
    if (gold.rank !== null) notes.push("rank " + gold.rank + " before packing");
    else if (!gold.found) notes.push("not in the ranking that the row keeps");
    if (gold.baseline !== null) notes.push(baseline + (gold.baseline ? " found it" : " missed it, too"));
    if (gold.found && gold.baseline === false) notes[notes.length - 1] = baseline + " missed it";
    if (notes.length) item.append(element("div", "where", notes.join(" · ")));
    return item;
  }

  function body(one) {
    const sides = element("div", "sides");
    const got = element("div");
    got.append(element("h4", "", "The block of " + one.arm), block(data.blocks[one.block], one.evidence));
    if (one.theirs !== null) {
      const theirs = element("details", "theirs");
      theirs.append(element("summary", "", "The block of " + one.baseline));
      theirs.addEventListener("toggle", () => {
        if (theirs.open && theirs.childElementCount === 1) theirs.append(block(data.blocks[one.theirs], one.evidence));
      });
      got.append(theirs);
    }
    const wanted = element("div", "wanted");
    const missed = one.evidence.filter((gold) => !gold.found).length;
    wanted.append(element("h4", "", "The evidence: " + missed + " of " + one.evidence.length + " missed"));
    const items = element("ul", "evidence");
    const order = [...one.evidence].sort((a, b) => a.found - b.found);
    items.append(...order.map((gold) => evidence(gold, one.baseline)));
    wanted.append(items);
    sides.append(got, wanted);
    return sides;
  }

  function entry(one) {
    const made = element("details", "case");
    const summary = element("summary");
    summary.append(isolated("span", "query", one.query));
    const facts = element("div", "facts");
    const found = one.evidence.filter((gold) => gold.found).length;
    const [tone, text] = outcome(one);
    facts.append(isolated("span", "", one.arm), isolated("span", "", one.category));
    facts.append(element("span", "", "found " + found + " of " + one.evidence.length), element("span", tone, text));
    const place = (data.datasets > 1 ? one.dataset + " · " : "") + one.corpus + " · question " + one.question;
    facts.append(isolated("span", "", place));
    summary.append(facts);
    made.append(summary);
    made.addEventListener("toggle", () => {
      if (made.open && made.childElementCount === 1) made.append(body(one));
    });
    return made;
  }

  function grow() {
    const next = matching.slice(shown, shown + PAGE);
    list.append(...next.map(entry));
    shown += next.length;
    more.hidden = shown >= matching.length;
    more.textContent = "Show " + Math.min(PAGE, matching.length - shown) + " more";
    return next.length;
  }

  function narrow() {
    const chosen = Object.fromEntries(new FormData(form));
    const words = (chosen.words || "").toLocaleLowerCase().split(/\s+/).filter(Boolean);
    matching = data.cases.filter(
      (one) =>
        (!chosen.dataset || one.dataset === chosen.dataset) &&
        (!chosen.arm || one.arm === chosen.arm) &&
        (!chosen.category || one.category === chosen.category) &&
        (!chosen.outcome || (chosen.outcome === "missed" ? one.evidence.some((g) => !g.found) : one.outcome === chosen.outcome)) &&
        words.every((word) => one.searched.includes(word))
    );
    list.replaceChildren();
    shown = 0;
    grow();
    count.textContent = matching.length === 1 ? "1 question" : matching.length.toLocaleString("en") + " questions";
  }

  for (const one of data.cases) {
    const texts = one.evidence.map((gold) => gold.id + " " + gold.text);
    one.searched = [one.query, one.corpus, data.blocks[one.block], ...texts].join("\n").toLocaleLowerCase();
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", narrow);
  form.addEventListener("reset", () => setTimeout(narrow, 0));
  more.addEventListener("click", () => {
    const before = list.childElementCount;
    grow();
    const next = list.children[before];
    if (next) next.querySelector("summary").focus();
  });
  narrow();
})();

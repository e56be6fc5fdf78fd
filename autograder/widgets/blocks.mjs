// The one place that draws a block: pools of numbered squares, block tables, rows of blocks, memory bars. See blocks.css.
import { layout, marks as marksOf } from "./model.mjs";
import { make } from "./dom.mjs";
import { plural, spoken } from "./words.mjs";

const FEW = 40, MANY = 256;     // blocks: large squares with everything in them, small ones, tiny ones
const MOST_ENTRIES = 10;        // of a block table; the middle of a longer one is left out
const FINEST = 16;              // slots that are drawn as cells of their own

const hueClass = (mark) => (mark && mark.hue !== null ? `kv-hue-${mark.hue}` : "kv-no-hue");

export const chip = (mark, title) => make("span", { class: `kv-chip ${hueClass(mark)}`, text: mark.letter, title });

// The slots of a block: `filled` of `size` hold a token, the first `prefix` of them a token of a shared prefix.
function slots(filled, size, prefix) {
  const share = (n) => `${(100 * n) / size}%`;
  const vars = { "--filled": share(filled), "--prefix": share(prefix ?? filled), "--cell": size <= FINEST ? share(1) : "100%" };
  return make("span", { class: "kv-slots", vars });
}

// One block. fact: { number, kind, owners, count, filled }; size: slots in it; was: its count before, if it has just changed.
function fill(square, fact, marks, { size, small = false, was, prefix, first = true } = {}) {
  const { number, kind, owners, count, filled } = fact;
  const letters = [...new Set(owners)].map((name) => marks.get(name).letter);
  square.className = `kv-block kv-${kind}${small ? " kv-small" : ""}${was === undefined ? "" : " kv-ticked"} ${kind === "owned" ? hueClass(marks.get(owners[0])) : ""}`;
  const word = { free: "free", lost: "lost!" }[kind] ?? (letters.length > 3 ? `${letters.slice(0, 2).join(" ")} …` : letters.join(" "));
  if (small) {
    const short = kind === "free" || !first ? "" : kind === "owned" ? letters[0] : kind === "shared" ? `×${count}` : "!";
    square.replaceChildren(make("span", { class: "kv-letters", text: short }));
    return;
  }
  const counted = kind === "torn" ? `×${count}!` : count > 1 ? `×${count}` : "";
  square.replaceChildren(
    make("span", { class: "kv-number", text: `#${number}` }),
    make("span", { class: "kv-count", text: counted }),
    make("span", { class: "kv-letters", text: word }),
    was === undefined ? "" : make("span", { class: "kv-was", text: `was ×${was}` }),
    owners.length ? slots(filled, size, prefix) : "",
  );
}

export function block(fact, marks, options) {
  const square = make("span");
  fill(square, fact, marks, options);
  return square;
}

// A pool that is drawn once and then only mended where something has changed, so that a thousand blocks stay smooth.
export class PoolPicture {
  #squares = []; #drawn = []; #ringed = []; #arrow = null; #copied = null;

  constructor() {
    this.grid = make("div", { class: "kv-grid", role: "img" });
    this.el = make("div", { class: "kv-pool" }, this.grid);
    new ResizeObserver(() => this.#point()).observe(this.grid);
  }

  // changed: what model.changes found, or null; only: the numbers that stay strong where all else is pale, or null.
  draw(state, numBlocks, blockSize, marks, { changed = null, only = null, label = "" } = {}) {
    const facts = layout(state, numBlocks, blockSize), small = numBlocks > FEW;
    if (this.#squares.length !== facts.length) this.#renew(facts.length);
    const was = new Map((changed?.counts ?? []).filter(([, before, after]) => before > 1 && after).map(([number, before]) => [number, before]));
    facts.forEach((fact, n) => {
      const first = !small || n === 0 || String(facts[n - 1].owners) !== String(fact.owners);
      const pale = only !== null && !only.has(n);
      const key = JSON.stringify([fact, was.get(n), first, pale, blockSize, small && [...new Set(fact.owners)].map((name) => marks.get(name).letter)]);
      if (this.#drawn[n] === key) return;
      this.#drawn[n] = key;
      fill(this.#squares[n], fact, marks, { size: blockSize, small, was: was.get(n), first });
      this.#squares[n].classList.toggle("kv-pale", pale);
    });
    this.#ring(changed);
    this.grid.setAttribute("aria-label", `${label}${spoken(facts)}`);
    return facts;
  }

  #renew(numBlocks) {
    this.#drawn = [];
    this.#squares = Array.from({ length: numBlocks }, () => make("span"));
    this.grid.className = `kv-grid ${numBlocks > MANY ? "kv-tiny-grid" : numBlocks > FEW ? "kv-small-grid" : ""}`;
    this.grid.replaceChildren(...this.#squares);
    this.#arrow?.remove();
    this.#arrow = null;
    this.el.classList.toggle("kv-tall", numBlocks > MANY);
    // What scrolls must be reachable from the keyboard, and what can be reached needs a name.
    for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", "the pool, scrollable"]]) {
      if (numBlocks > MANY) this.el.setAttribute(name, value); else this.el.removeAttribute(name);
    }
  }

  #ring(changed) {
    for (const square of this.#ringed) square.classList.remove("kv-changed");
    const numbers = changed ? [...changed.counts.map(([number]) => number), ...changed.taken, ...changed.freed, ...(changed.wrote ?? [])] : [];
    this.#ringed = [...new Set(numbers)].map((number) => this.#squares[number]).filter(Boolean);
    for (const square of this.#ringed) square.classList.add("kv-changed");
    this.#copied = changed?.copied ?? null;
    if (this.#squares.length > MANY) this.#reveal(this.#ringed[0]);
    this.#point();
  }

  // Scrolls the pool alone, never the page.
  #reveal(square) {
    if (!square) return;
    const at = square.offsetTop;     // .kv-pool is positioned, so this is measured from its own top
    if (at < this.el.scrollTop || at + square.offsetHeight > this.el.scrollTop + this.el.clientHeight) this.el.scrollTop = at - this.el.clientHeight / 2;
  }

  // The arrow of a copy, from the old block to the new one.
  #point() {
    this.#arrow?.remove();
    this.#arrow = null;
    const [from, to] = (this.#copied ?? []).map((number) => this.#squares[number]?.getBoundingClientRect());
    if (!from?.width || !to?.width) return;
    const { left, top } = this.el.getBoundingClientRect(), ground = { left, top: top - this.el.scrollTop };
    this.#arrow = arrow(middle(from, ground), middle(to, ground));
    this.el.append(this.#arrow);
  }
}

const middle = (box, ground) => ({ x: box.left + box.width / 2 - ground.left, y: box.top + box.height * 0.42 - ground.top });

// A thin bent line that starts and ends a little inside the two squares.
function arrow(from, to) {
  const dx = to.x - from.x, dy = to.y - from.y, long = Math.hypot(dx, dy) || 1, inset = Math.min(20, long / 3);
  const [a, b] = [inset, long - inset].map((at) => ({ x: from.x + (dx * at) / long, y: from.y + (dy * at) / long }));
  const bend = { x: (a.x + b.x) / 2 + (dy / long) * 14, y: (a.y + b.y) / 2 - (dx / long) * 14 };
  const angle = Math.atan2(b.y - bend.y, b.x - bend.x);
  const wing = (turn) => `${b.x - 9 * Math.cos(angle + turn)},${b.y - 9 * Math.sin(angle + turn)}`;
  const line = `M${a.x},${a.y}Q${bend.x},${bend.y} ${b.x},${b.y}`;
  return make("svg:svg", { class: "kv-arrow", "aria-hidden": "true" },
    make("svg:path", { class: "kv-arrow-back", d: line }), make("svg:path", { class: "kv-arrow-line", d: line }),
    make("svg:polygon", { class: "kv-arrow-head", points: `${b.x},${b.y} ${wing(0.45)} ${wing(-0.45)}` }));
}

// The block tables, one row per sequence: logical index over physical number. actions(name) gives buttons for the row's end.
export function tables(state, marks, { changed = null, only = null, actions = () => [] } = {}) {
  const rows = state.seqs.map(([name, numbers, length]) => {
    const pale = only !== null && !only.has(name);
    const row = make("li", { class: `kv-row${changed?.names.includes(name) ? " kv-changed" : ""}${pale ? " kv-pale" : ""}` }, who(name, numbers, length, marks));
    const buttons = actions(name);
    if (buttons.length) row.append(make("span", { class: "kv-actions" }, ...buttons));
    row.append(entries(numbers, marks.get(name)));
    return row;
  });
  return rows.length ? make("ul", { class: "kv-tables", "aria-label": "block tables" }, ...rows) : make("p", { class: "kv-none", text: "No sequence yet." });
}

function who(name, numbers, length, marks) {
  const mark = marks.get(name), words = plural(length, "token");
  return make("span", { class: "kv-who" }, chip(mark, name), make("span", { text: mark.letter === name ? words : `${name.length > 20 ? `${name.slice(0, 19)}…` : name}: ${words}` }),
    make("span", { class: "kv-unseen", text: `; block table [${numbers.slice(0, 24).join(", ")}${numbers.length > 24 ? ", …" : ""}]` }));
}

function entries(numbers, mark) {
  const pairs = numbers.map((number, index) => [index, number]);
  const shown = pairs.length <= MOST_ENTRIES ? pairs : [...pairs.slice(0, MOST_ENTRIES - 2), null, pairs.at(-1)];
  const cells = shown.map((pair) => pair === null ? make("span", { class: "kv-gap", text: "…" })
    : make("span", { class: `kv-entry ${hueClass(mark)}` }, make("span", { class: "kv-index", text: pair[0] }), make("span", { class: "kv-physical", text: `#${pair[1]}` })));
  return make("span", { class: "kv-entries", "aria-hidden": "true" }, ...(cells.length ? cells : [make("span", { class: "kv-none", text: "no block yet" })]));
}

// A row of blocks that belong together, e.g. one request's; after `most` of them only how many follow.
export function rowOfBlocks(facts, marks, { size, label, most = 10, prefixes = [] }) {
  const shown = facts.slice(0, most).map((fact, n) => block(fact, marks, { size, prefix: prefixes[n] }));
  const more = facts.length - shown.length;
  return make("span", { class: "kv-grid kv-line", role: "img", "aria-label": label }, ...shown, ...(more > 0 ? [make("span", { class: "kv-more", text: `+ ${more.toLocaleString("en")} more` })] : []));
}

const KIND_WORDS = { tokens: "token states", reserved: "reserved", internal: "internal (slack)", external: "external", free: "free" };

// Memory from slot 0 to the last, in stretches { start, length, kind, owner }; block: slots per block, where the memory has blocks.
export function memoryBar(spans, size, marks, { label, block = null }) {
  const vars = { "--size": size, ...(block ? { "--step": `${(100 * block) / size}%` } : {}) };
  const parts = spans.map(({ start, length, kind, owner }) => {
    const mark = owner === null ? null : marks.get(owner), tokens = kind === "tokens";
    const part = make("span", { class: `kv-span kv-kind-${kind} ${tokens ? hueClass(mark) : ""}`, vars: { "--from": `${(100 * start) / size}%`, "--long": `${(100 * length) / size}%` } });
    if (mark && tokens && length > 0.03 * size) part.append(make("span", { text: mark.letter }));
    part.title = `${KIND_WORDS[kind]}${owner === null ? "" : ` of ${owner}`}: slots ${start} to ${start + length - 1}`;
    return part;
  });
  return make("div", { class: `kv-bar${block ? " kv-bar-blocks" : ""}`, role: "img", "aria-label": label, vars }, ...parts);
}

// A sample of each kind of memory with its name.
export const memoryLegend = (kinds, words = {}) => make("ul", { class: "kv-legend" }, ...kinds.map((kind) => make("li", {}, make("span", { class: `kv-swatch kv-kind-${kind} kv-hue-0`, "aria-hidden": "true" }), words[kind] ?? KIND_WORDS[kind])));

// A sample of each kind of block with its name.
export function blockLegend() {
  const kinds = [["free", "free"], ["owned", "one owner"], ["shared", "shared, ×n: n table entries"]];
  return make("ul", { class: "kv-legend" }, ...kinds.map(([kind, words]) => make("li", {}, make("span", { class: `kv-swatch kv-block kv-small kv-${kind} kv-hue-0`, "aria-hidden": "true" }), words)));
}

// Every name that a history ever uses, in order, so that letters and hues stay while sequences come and go.
export function marksIn(ops, states = []) {
  const names = ops.flatMap(([verb, first, second]) => (verb === "allocate" ? [first] : verb === "fork" ? [first, second] : []));
  return marksOf([...names, ...states.flatMap(({ seqs }) => seqs.map(([name]) => name))]);
}

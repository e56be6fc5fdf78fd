// A beam search as a tree over time beside the pool that holds it: forks, releases, and how little is ever copied.
//
// state  { title, prompt, num_blocks, block_size, steps: [{ fork: [[parent, child], …], release: [name, …] }] }: see model.beamOps.
// kept   { at, width, seed }: the reader's step, and the made-up tree that replaced the given one, if any.
import { blockLegend, marksIn, PoolPicture, tables } from "./blocks.mjs";
import { button, choice, Stepper } from "./controls.mjs";
import { ground, make } from "./dom.mjs";
import { beamOps, blocksNeeded, changes, madeUpBeams, play } from "./model.mjs";
import { say } from "./say.mjs";
import { plural } from "./words.mjs";

const ROW = 30, COLUMN = 52, LEFT = 30, TOP = 16;
const MADE_UP = { length: 8, blocks: 24 };

class BeamsWidget {
  constructor({ model, el }) {
    Object.assign(this, { model, state: model.get("state"), picture: new PoolPicture() });
    Object.assign(this, { at: 0, width: 3, seed: 0 }, model.get("kept") ?? {});
    this.root = ground(el, "beams", this.state.title);
    this.stepper = new Stepper((to) => this.move(to), { play: true, seconds: 1.6 });
    this.log = make("div", { class: "kv-log" });
    this.tree = make("div", { class: "kv-tree", tabindex: "0", role: "region", "aria-label": "the beams as a tree" });
    this.rows = make("div");
    this.build();
    this.begin();
  }

  build() {
    const again = button("another tree", () => this.renew({ seed: this.seed + 1 }));
    const width = choice({ label: "beams", value: this.width, options: [2, 3, 4, 5].map((n) => [n, String(n)]), change: (n) => this.renew({ width: Number(n), seed: Math.max(1, this.seed) }) });
    const given = button("the lesson's tree", () => { width.select.value = "3"; this.renew({ seed: 0, width: 3 }); });
    const left = make("div", {}, make("p", { class: "kv-heading", text: "The tree: tokens from left to right" }), this.tree, this.log, this.stepper.el, make("div", { class: "kv-controls" }, width.el, again, given));
    const right = make("div", {}, make("p", { class: "kv-heading", text: "The pool" }), this.picture.el, make("p", { class: "kv-heading kv-tables-head", text: "Block tables" }), this.rows, make("div", { class: "kv-under" }, blockLegend()));
    this.root.append(make("p", { class: "kv-title", text: this.state.title }), make("div", { class: "kv-side-by-side" }, left, right));
  }

  renew(changed) {
    Object.assign(this, { at: 0 }, changed);
    this.begin();
    this.keep();
    say(this.words().join(" "));
  }

  // All states of the search, one after each step of it: the prompt, then a token for every live beam at a time.
  begin() {
    const { prompt, num_blocks, block_size } = this.state;
    this.plan = this.seed ? madeUpBeams(this.width, MADE_UP.length, this.seed) : this.state.steps;
    this.num_blocks = this.seed ? MADE_UP.blocks : num_blocks;
    const groups = beamOps(prompt, this.plan);
    const steps = play(this.num_blocks, block_size, groups.flat());
    let end = 0;
    this.moments = groups.map((ops) => {
      const first = end + 1;
      end += ops.length;
      return { before: steps[first - 1].state, state: steps[end].state, steps: steps.slice(first, end + 1), all: steps.slice(0, end + 1) };
    });
    this.marks = marksIn(groups.flat());
    this.at = Math.min(this.at, this.moments.length - 1);
    this.draw();
  }

  move(to) {
    this.at = Math.max(0, Math.min(to, this.moments.length - 1));
    this.keep();
    this.draw();
    say(this.words().join(" "));
  }

  keep() {
    const { at, width, seed } = this;
    this.model.set("kept", { at, width, seed });
    this.model.save_changes();
  }

  draw() {
    const moment = this.moments[this.at], changed = changes(moment.before, moment.state);
    this.picture.draw(moment.state, this.num_blocks, this.state.block_size, this.marks, { changed: { ...changed, copied: null } });
    this.rows.replaceChildren(tables(moment.state, this.marks, { changed }));
    this.tree.replaceChildren(this.treePicture());
    this.tree.scrollLeft = this.tree.scrollWidth;     // the live beams end at the right
    this.log.replaceChildren(...this.words().map((text) => make("p", { text })));
    this.stepper.update(this.at, this.moments.length - 1);
  }

  words() {
    const { state, steps, all } = this.moments[this.at], { block_size: size, prompt } = this.state;
    const copied = (from) => from.filter(({ value }) => value === true).length;
    const alone = state.seqs.reduce((sum, [, , len]) => sum + blocksNeeded(len, size), 0);
    const eager = all.reduce((sum, { op, state: after }) => sum + (op[0] === "fork" ? after.seqs.find(([name]) => name === op[2])[1].length : 0), 0);
    const done = this.at ? this.deeds(steps, copied(steps)) : `A is filled with a prompt of ${plural(prompt, "token")}.`;
    return [done, `In use: ${plural(state.ref.length, "block")}; ${alone} if every beam had its own. Copied so far: ${plural(copied(all), "block")}; copying the whole table at each fork: ${eager}.`];
  }

  deeds(steps, copies) {
    const { fork, release } = this.plan[this.at - 1], live = this.moments[this.at].state.seqs.length;
    const parts = release.length ? [`${release.join(" and ")} ${release.length === 1 ? "is" : "are"} released`] : [];
    parts.push(...fork.map(([parent, child]) => `${release.includes(child) ? `a new ${child}` : child} is forked off ${parent}`));
    return `${parts.length ? `${parts.join("; ")}. Then each` : "Each"} of ${live} beams appends a token: ${plural(copies, "block")} copied.`;
  }

  // Each beam is a line from its fork to its release (×) or to now; what lies behind the reader's step is not drawn.
  treePicture() {
    const { prompt, block_size: size } = this.state, end = this.at;
    const x = (at) => LEFT + COLUMN * at, rows = this.treeRows(), y = (row) => TOP + ROW * (row + 0.5);
    const height = TOP + ROW * rows.length + 22, width = x(end + 1) + 40;
    const svg = make("svg:svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": treeWords(rows) });
    for (let at = 0; at <= end; at += 1) {
      const boundary = (prompt + at) % size === 0;
      svg.append(make("svg:line", { class: boundary ? "kv-boundary" : "kv-tick", x1: x(at + 1), x2: x(at + 1), y1: TOP, y2: height - 20 }), make("svg:text", { class: "kv-axis", x: x(at + 1), y: height - 6, text: String(prompt + at) }));
    }
    for (const { row, parent, born } of rows) if (parent) svg.append(make("svg:path", { class: "kv-branch", d: `M${x(born)},${y(parent.row)}V${y(row)}` }));
    for (const { name, row, born, gone } of rows) {
      const { letter, hue } = this.marks.get(name), until = x((gone ?? this.at) + 1), d = `M${x(born)},${y(row)}H${until}`;
      if (gone === null) svg.append(make("svg:path", { class: "kv-beam-edge", d }));
      svg.append(make("svg:path", { class: `kv-beam${gone === null ? "" : " kv-gone"} ${hue === null ? "kv-no-hue" : `kv-hue-${hue}`}`, d }));
      svg.append(make("svg:text", { class: `kv-beam-name${gone === null ? "" : " kv-muted"}`, x: until + 8, y: y(row) + 5, text: gone === null ? letter : `${letter} ×` }));
    }
    return svg;
  }

  // Row, parent, and the steps of birth and release of every beam so far; a letter may come again in a later row.
  treeRows() {
    const rows = [{ name: "A", row: 0, parent: null, born: 0, gone: null }], live = new Map([["A", rows[0]]]);
    this.plan.slice(0, this.at).forEach(({ fork, release }, n) => {
      for (const name of release) { live.get(name).gone = n; live.delete(name); }
      for (const [parent, name] of fork) {
        const beam = { name, row: rows.length, parent: live.get(parent), born: n + 1, gone: null };
        rows.push(beam);
        live.set(name, beam);
      }
    });
    return rows;
  }
}

function treeWords(rows) {
  const told = rows.map(({ name, parent, gone }) => `${name}${parent ? ` off ${parent.name}` : ""}${gone === null ? "" : ", released"}`);
  return `Beams so far: ${told.join("; ")}.`;
}

export default {
  render(context) {
    const widget = new BeamsWidget(context);
    return () => widget.stepper.stop();
  },
};

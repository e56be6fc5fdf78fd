// Plays a recorded history: a failed check's, an engine's bug, or the reader's own manager's; expected beside actual.
//
// state  { title, num_blocks, block_size, steps: [{ op, words, outcome, state }], verdict, judged, whose }
//        outcome: [value, error, message] or null; state: as in Python's State.to_json; judged: whether what was expected
//        can be worked out from the operations; verdict: null or { step, sentence, expected, actual, hint }.
// kept   { at }: the step the reader stands at.
import { blockLegend, marksIn, PoolPicture, tables } from "./blocks.mjs";
import { Stepper } from "./controls.mjs";
import { ground, make, prose } from "./dom.mjs";
import { changes, layout, play, unpack } from "./model.mjs";
import { say } from "./say.mjs";
import { call, report } from "./words.mjs";

class HistoryWidget {
  constructor({ model, el }) {
    Object.assign(this, { model, state: model.get("state"), at: model.get("kept")?.at ?? 0, actual: new PoolPicture(), expected: new PoolPicture() });
    this.read();
    this.at = Math.min(this.at, this.steps.length - 1);
    this.root = ground(el, "history", this.state.title);
    this.stepper = new Stepper((to) => this.move(to), { play: true, seconds: 1.6 });
    this.log = make("div", { class: "kv-log" });
    this.tables = { actual: make("div"), expected: make("div") };
    this.verdictLine = make("p", { class: "kv-apart" });
    this.build();
    this.draw();
  }

  read() {
    const { steps, num_blocks, block_size, judged } = this.state;
    this.steps = steps.map((step) => ({ ...step, state: unpack(step.state), value: step.outcome?.[0] ?? null, error: step.outcome?.[1] ?? null, message: step.outcome?.[2] ?? "" }));
    this.right = judged ? play(num_blocks, block_size, this.steps.slice(1).map(({ op }) => op)) : null;
    this.marks = marksIn(this.steps.map(({ op }) => op ?? ["new"]), this.steps.map(({ state }) => state));
  }

  build() {
    const side = (words, picture, rows) => make("div", {}, make("p", { class: "kv-heading", text: words }), picture.el, rows);
    const actual = side(this.right ? `What ${this.state.whose === "yours" ? "your manager" : this.state.whose} held` : "The pool", this.actual, this.tables.actual);
    const pair = this.right ? make("div", { class: "kv-side-by-side" }, side("Expected", this.expected, this.tables.expected), actual) : actual;
    this.root.append(make("p", { class: "kv-title", text: this.state.title }), this.log, this.stepper.el, this.verdictLine, pair, make("div", { class: "kv-under" }, blockLegend()));
  }

  move(to) {
    this.at = Math.max(0, Math.min(to, this.steps.length - 1));
    this.model.set("kept", { at: this.at });
    this.model.save_changes();
    this.draw();
    say(`${this.sentences().join(" ")} ${this.right ? this.verdictLine.textContent : ""}`);
  }

  draw() {
    const { num_blocks: total, block_size: size } = this.state, { state } = this.steps[this.at], right = this.right?.[this.at].state;
    const parted = right ? this.parted(state, right) : null;
    const changed = this.at && !parted?.apart ? changes(this.steps[this.at - 1].state, state) : null;
    this.actual.draw(state, total, size, this.marks, { changed, only: parted?.apart ? parted.blocks : null, label: "Held: " });
    this.tables.actual.replaceChildren(tables(state, this.marks, { changed, only: parted?.apart ? parted.names : null }));
    if (right) {
      this.expected.draw(right, total, size, this.marks, { changed, only: parted.apart ? parted.blocks : null, label: "Expected: " });
      this.tables.expected.replaceChildren(tables(right, this.marks, { changed, only: parted.apart ? parted.names : null }));
      this.verdictLine.textContent = parted.apart ? `✗ They part: ${parted.words}` : "✓ The same on both sides.";
      this.verdictLine.classList.toggle("kv-bad", parted.apart);
    }
    this.verdictLine.hidden = !right;
    this.drawLog();
    this.stepper.update(this.at, this.steps.length - 1, { next: this.nextWords() });
  }

  nextWords() {
    const next = this.steps[this.at + 1];
    return next?.op ? call(next.op) : "";
  }

  // Where the two states differ: block numbers and names, and that in words.
  parted(state, right) {
    const { num_blocks: total, block_size: size } = this.state;
    const mine = layout(state, total, size), theirs = layout(right, total, size);
    const blocks = new Set(theirs.filter((fact, n) => JSON.stringify(fact) !== JSON.stringify(mine[n])).map(({ number }) => number));
    const rows = new Map([...state.seqs, ...right.seqs].map(([name]) => [name, [state, right].map(({ seqs }) => JSON.stringify(seqs.find((seq) => seq[0] === name)))]));
    const names = new Set([...rows].filter(([, [a, b]]) => a !== b).map(([name]) => name));
    const twice = state.free.filter((number, n) => state.free.indexOf(number) !== n);
    const words = [state.problem && `${state.problem}.`, blocks.size && `block${blocks.size === 1 ? "" : "s"} ${[...blocks].slice(0, 8).map((n) => `#${n}`).join(", ")}`, names.size && `the table of ${[...names].slice(0, 6).join(", ")}`, twice.length && `#${twice.join(", #")} twice in the free list`].filter(Boolean).join("; ");
    return { blocks, names, apart: Boolean(words), words: `${words}.` };
  }

  sentences() {
    const step = this.steps[this.at], { verdict } = this.state;
    const told = !step.op || step.op[0] === "new" ? step.words ?? "A new pool." : step.outcome ? report(step, this.steps[this.at - 1].state) : call(step.op);
    const lines = [told];
    if (step.words && step.words !== told) lines.push(step.words);
    if (verdict?.step === this.at) lines.push(verdict.sentence, verdict.expected && `Expected: ${verdict.expected}.`, verdict.actual && `Actual: ${verdict.actual}.`, verdict.hint);
    return lines.filter(Boolean);
  }

  drawLog() {
    const broken = this.state.verdict?.step === this.at;
    this.log.classList.toggle("kv-broken", broken);
    this.log.replaceChildren(...this.sentences().map((line) => (broken && line === this.state.verdict.sentence ? make("p", {}, make("strong", {}, "✗ ", ...prose(line))) : make("p", {}, ...prose(line)))));
  }
}

export default {
  render(context) {
    const widget = new HistoryWidget(context);
    return () => widget.stepper.stop();
  },
};

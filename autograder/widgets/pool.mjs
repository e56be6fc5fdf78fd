// A block pool to press: allocate, fork, append, release, back and forward through the history, scripted scenarios.
//
// state  { title, num_blocks, block_size, ops, at, verbs, scenarios: [{ id, title, words, num_blocks, block_size, ops, notes }], lock, driver }
//        lock, if any: { at, key, words }: no going beyond step `at` until `kv-answered` with this key is heard on the document.
// kept   { calls, num_blocks, block_size, ops, at, scenario }: the history, and how many times it was asked to be played.
//
// Who answers. Without `driver`, or while `driver.ready` is false, the block pool of model.mjs does. Otherwise the reader's
// class does, and whoever can run it (a kernel, or a page's Pyodide worker) listens: when `kept.calls` rises, it plays
// `kept.ops` from the start on a new object of the class, judges each step, and sets
//   state = { ...state, driver: { name, ready: true, answers: kept.calls, steps, verdict } }
//   steps    [[value, error, message], state as in Python's State.to_json], the new object first, then one per operation
//   verdict  null, or { step, sentence, expected, actual, hint }: the promise that broke first; no step after it is shown.
// In Python all of this is `autograder.simulate.answer(class, kept)`. An answer to an older call is ignored. A new class
// (its cell has run again) is a new `state.driver`, with `answers: 0`: the widget then asks by itself.
import { blockLegend, marksIn, PoolPicture, tables } from "./blocks.mjs";
import { button, choice, enable, numberField, Stepper } from "./controls.mjs";
import { ground, make, prose, refill } from "./dom.mjs";
import { changes, next, play, unpack } from "./model.mjs";
import { say } from "./say.mjs";
import { call, explain, report } from "./words.mjs";

const PATIENCE = 4000;     // milliseconds until the reader is told that Python has not answered
const LARGEST = 4096;

// The history and where the reader stands in it; the steps are the model's own or those of the reader's class.
class Session {
  constructor(model) {
    this.model = model;
    const { num_blocks, block_size, ops, at, scenario } = model.get("state");
    const kept = model.get("kept") ?? {};
    Object.assign(this, { num_blocks, block_size, ops, at, scenario: scenario ?? "", calls: 0 }, kept.ops ? kept : {});
    this.play();
    if (this.driven) this.ask();
  }

  get state() { return this.model.get("state"); }
  get driven() { return Boolean(this.state.driver?.ready); }
  get waiting() { return this.driven && this.state.driver.answers !== this.calls; }
  get verdict() { return this.driven && !this.waiting ? this.state.driver.verdict : null; }
  get steps() { return this.driven ? this.answered : this.own; }
  get last() { return this.waiting ? Math.min(this.ops.length, this.answered.length - 1) : Math.min(this.ops.length, this.steps.length - 1, this.verdict?.step ?? Infinity); }
  get shown() { return Math.max(0, Math.min(this.at, this.last)); }
  get step() { return this.steps[this.shown]; }

  play() {
    this.own = play(this.num_blocks, this.block_size, this.ops);
    this.answered ??= [this.own[0]];
    this.read();
  }

  // What the driver has answered, as steps.
  read() {
    if (!this.driven || this.waiting) return;
    this.answered = this.state.driver.steps.map(([[value, error, message], state], n) => ({ op: n ? this.ops[n - 1] : ["new"], value, error, message, state: unpack(state) }));
    if (!this.answered.length) this.answered = [this.own[0]];
  }

  keep() {
    const { calls, num_blocks, block_size, ops, at, scenario } = this;
    this.model.set("kept", { calls, num_blocks, block_size, ops, at, scenario });
    this.model.save_changes();
  }

  // Any number that was not asked with before will do; also after a reload, when an older answer may still stand.
  ask() {
    this.calls = Math.max(this.calls, this.state.driver.answers ?? 0) + 1;
    this.keep();
  }

  press(op) {
    const step = next(this.own[Math.min(this.shown, this.own.length - 1)], op, this.num_blocks, this.block_size);
    this.ops = [...this.ops.slice(0, this.shown), op];
    this.own = [...this.own.slice(0, this.ops.length), step];
    this.answered = this.answered.slice(0, this.ops.length);
    this.at = this.ops.length;
    this.driven ? this.ask() : this.keep();
  }

  move(to) {
    this.at = Math.max(0, Math.min(to, this.last));
    this.keep();
  }

  // Another view of the same widget has gone on.
  follow(kept) {
    if (!kept.ops || (kept.ops === this.ops && kept.at === this.at)) return;
    Object.assign(this, kept);
    this.play();
  }

  begin(changed) {
    Object.assign(this, changed);
    this.answered = undefined;
    this.play();
    this.driven ? this.ask() : this.keep();
  }
}

class PoolWidget {
  constructor({ model, el }) {
    Object.assign(this, { model, session: new Session(model), picture: new PoolPicture(), unlocked: !model.get("state").lock });
    this.root = ground(el, "pool", model.get("state").title);
    this.stepper = new Stepper((to) => this.act(() => this.session.move(to)));
    this.log = make("div", { class: "kv-log" });
    this.rows = make("div");
    this.allocation = this.allocateForm();
    this.build();
    this.listen();
    this.draw();
  }

  build() {
    const { title, scenarios } = this.session.state;
    this.note = make("p", { class: "kv-small-print" });
    this.title = make("p", { class: "kv-title", text: title });
    this.choice = scenarios.length ? choice({ label: "Scenario", value: this.session.scenario, change: (id) => this.pick(id), options: [["", "your own"], ...scenarios.map(({ id, title: words }) => [id, words])] }) : null;
    const left = make("div", {}, this.picture.el, this.log, this.stepper.el, make("div", { class: "kv-under" }, blockLegend()));
    const right = make("div", {}, make("p", { class: "kv-heading", text: "Block tables: logical over physical" }), this.rows, this.allocation.el);
    this.root.append(make("div", { class: "kv-head" }, this.title, this.choice?.el ?? null), this.note, make("div", { class: "kv-side-by-side kv-pool-first" }, left, right), this.anotherPool());
  }

  allocateForm() {
    const tokens = numberField({ label: "tokens", min: 0, max: 99999, value: this.session.state.tokens ?? 20, change: () => {} });
    const press = button("allocate", () => this.press(["allocate", this.newName(), tokens.value]));
    return { el: make("div", { class: "kv-controls kv-allocate" }, press, tokens.el), press, tokens };
  }

  anotherPool() {
    const blocks = numberField({ label: "blocks", min: 1, max: LARGEST, value: this.session.num_blocks, change: () => {} });
    const size = numberField({ label: "slots in each", min: 1, max: 256, value: this.session.block_size, change: () => {} });
    const begin = button("new pool", () => this.begin({ num_blocks: blocks.value, block_size: size.value, ops: [], at: 0, scenario: "" }));
    this.fields = { blocks, size };
    return make("details", { class: "kv-more-controls" }, make("summary", { text: "Another pool" }), make("div", { class: "kv-controls" }, blocks.el, size.el, begin));
  }

  // The lowest letter that no sequence has; a released name may come again.
  newName() {
    const live = new Set(this.session.step.state.seqs.map(([name]) => name));
    for (let n = 0; ; n += 1) {
      const name = String.fromCharCode(65 + (n % 26)) + (n < 26 ? "" : Math.floor(n / 26));
      if (!live.has(name)) return name;
    }
  }

  pick(id) {
    const found = this.session.state.scenarios.find((scenario) => scenario.id === id);
    if (found) this.begin({ num_blocks: found.num_blocks, block_size: found.block_size, ops: found.ops, at: 0, scenario: id });
    else this.begin({ num_blocks: this.session.state.num_blocks, block_size: this.session.state.block_size, ops: [], at: 0, scenario: "" });
  }

  begin(changed) {
    this.act(() => this.session.begin(changed));
    this.fields.blocks.set(this.session.num_blocks);
    this.fields.size.set(this.session.block_size);
    if (this.choice) this.choice.select.value = this.session.scenario;
  }

  press(op) { this.act(() => this.session.press(op)); }

  act(change) {
    change();
    this.draw();
    this.speak();
  }

  listen() {
    const { model, session } = this;
    this.onState = () => {
      if (session.driven && session.state.driver.answers === 0) session.ask();
      session.read();
      this.draw();
      if (!session.waiting) this.speak();
    };
    model.on("change:state", this.onState);
    this.onKept = () => { session.follow(model.get("kept")); this.draw(); };
    model.on("change:kept", this.onKept);
    this.onAnswer = ({ detail }) => {
      if (detail?.key !== session.state.lock?.key || this.unlocked) return;
      this.unlocked = true;
      this.draw();
    };
    document.addEventListener("kv-answered", this.onAnswer);
    if (session.state.lock) document.dispatchEvent(new CustomEvent("kv-asked", { detail: { key: session.state.lock.key } }));
  }

  leave() {
    clearTimeout(this.patience);
    this.model.off("change:state", this.onState);
    this.model.off("change:kept", this.onKept);
    document.removeEventListener("kv-answered", this.onAnswer);
  }

  get blocked() { return !this.unlocked && this.session.shown >= this.session.state.lock.at; }

  get before() { return this.session.shown ? this.session.steps[this.session.shown - 1] : null; }

  draw() {
    const { session, blocked } = this, { step, num_blocks, block_size } = session;
    const names = marksIn(session.ops, session.steps.map(({ state }) => state));
    const changed = this.before ? this.changed() : null;
    const broken = Boolean(session.verdict) && session.shown === session.verdict.step;
    this.picture.draw(step.state, num_blocks, block_size, names, { changed });
    const idle = !blocked && !session.waiting && !broken;
    refill(this.rows, [tables(step.state, names, { changed, actions: (name) => this.actions(name, idle) })], this.stepper.back);
    this.allocation.press.textContent = `allocate ${this.newName()}`;
    this.allocation.press.dataset.focus = "allocate";
    enable(this.allocation.press, idle && session.state.verbs.includes("allocate"));
    this.stepper.update(session.shown, session.last, { blocked, next: session.ops[session.shown] && call(session.ops[session.shown]) });
    this.write(broken);
    this.drawNote();
  }

  // An append in place changes no count: the block that took the token is marked all the same.
  changed() {
    const { step } = this.session, found = changes(this.before.state, step.state);
    const table = step.op[0] === "append" && !step.error && step.state.seqs.find(([name]) => name === step.op[1]);
    return { ...found, wrote: table && table[1].length ? [table[1].at(-1)] : [] };
  }

  actions(name, idle) {
    return ["append", "fork", "release"].filter((verb) => this.session.state.verbs.includes(verb)).map((verb) => {
      const words = { append: `append a token to ${name}`, fork: `fork ${name} into ${this.newName()}`, release: `release ${name}` }[verb];
      const control = button(verb, () => this.press(verb === "fork" ? ["fork", name, this.newName()] : [verb, name]), { name: words, focus: `${verb} ${name}` });
      enable(control, idle);
      return control;
    });
  }

  // The one line of the last step; what broke, if the reader's class broke a promise there.
  sentences(broken) {
    const { session } = this, { step, state, shown } = session;
    const told = session.driven ? report(step, this.before?.state) : explain(step, this.before?.state, session.block_size);
    const lines = [told];
    const note = this.scenario?.notes?.[shown];
    if (note) lines.push(note);
    if (broken) lines.push(...this.breach());
    if (this.blocked) lines.push(state.lock.words);
    if (session.waiting) lines.push(this.late ? "Python has not answered yet. If it stays so, run this cell again." : "Asking your class …");
    return lines;
  }

  breach() {
    const { sentence, expected, actual, hint } = this.session.verdict;
    return [sentence, expected && `Expected: ${expected}.`, actual && `Your class: ${actual}.`, hint].filter(Boolean);
  }

  write(broken) {
    const { session } = this;
    const lines = this.sentences(broken), failed = broken ? session.verdict.sentence : null;
    this.log.classList.toggle("kv-broken", broken);
    this.log.replaceChildren(...lines.map((line) => (line === failed ? make("p", {}, make("strong", {}, "✗ ", ...prose(line))) : make("p", {}, ...prose(line)))));
    clearTimeout(this.patience);
    if (session.waiting && !this.late) this.patience = setTimeout(() => { this.late = true; this.write(broken); }, PATIENCE);
    if (!session.waiting) this.late = false;
  }

  speak() {
    const broken = Boolean(this.session.verdict) && this.session.shown === this.session.verdict.step;
    if (!this.session.waiting) say(this.sentences(broken).join(" "));
  }

  get scenario() { return this.session.state.scenarios.find(({ id }) => id === this.session.scenario); }

  drawNote() {
    const { state, driven } = this.session, { driver } = state;
    const who = !driver ? "" : driven ? `Every button calls your ${driver.name}.` : `The course's own manager answers until your ${driver.name} has run.`;
    this.note.textContent = [who, this.scenario?.words].filter(Boolean).join(" ");
    this.note.hidden = !this.note.textContent;
  }
}

export default {
  render(context) {
    const widget = new PoolWidget(context);
    return () => widget.leave();
  },
};

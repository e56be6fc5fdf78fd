// Makes a lesson's code cells run: an editor where there was a listing, and buttons below it.
import { make } from "../widgets/dom.mjs";
import { say } from "../widgets/say.mjs";
import { everything, forget, read, thisPage, write } from "../widgets/store.mjs";
import { edit } from "./editor.mjs";
import { Output } from "./output.mjs";
import * as python from "./python.mjs";

const HINT = "Ctrl+Enter runs the cell. Escape, then Tab, leaves it.";
const SAVE_AFTER = 300;     // milliseconds without a key

const cells = [];
const ran = new Map();      // cell → the text that this Python has run; empty when Python is gone
const busy = new Set();

class Cell {
  constructor(element) {
    this.element = element;
    this.id = element.id.replace(/^cell-/, "");
    this.kind = element.classList.contains("kv-check") ? "check" : element.classList.contains("kv-exercise") ? "exercise" : "plain";
    this.listing = element.querySelector(".cell_input .highlight");
    this.original = this.listing.querySelector("pre").textContent.replace(/\n$/, "");
    this.key = `cell:${this.id}`;
    this.code = this.kind === "check" ? this.original : read(this.key)?.code ?? this.original;
    this.answers = element.querySelector(".cell_output");
    this.output = new Output(`Output of ${this.name}`, answer);
    this.#build();
  }

  get name() { return this.kind === "plain" ? `the cell ${cells.indexOf(this) + 1}` : this.id.replace(/-checks$/, ""); }

  #build() {
    const verb = this.kind === "check" ? "Check" : "Run";
    this.runButton = make("button", { type: "button", class: "kv-run", "aria-label": `${verb} ${this.name}`, text: verb, on: { click: () => run(this) } });
    this.stopButton = make("button", { type: "button", class: "kv-stop", "aria-label": `Stop ${this.name}`, text: "Stop", hidden: true, on: { click: () => stop(this) } });
    this.resetButton = make("button", { type: "button", class: "kv-reset", "aria-label": `Reset ${this.name}`, text: "Reset", on: { click: () => this.reset() } });
    this.status = make("span", { class: "kv-status" });
    this.bar = make("div", { class: "kv-bar", role: "group", "aria-label": `${verb} ${this.name}` }, this.runButton, this.stopButton, this.kind === "check" ? null : this.resetButton, this.status);
    const input = this.element.querySelector(".cell_input");
    if (this.kind !== "check") this.#makeEditor();
    input.append(this.bar);
    input.after(this.output.element);
    if (this.kind === "check" && read(`passed:${this.id}`)) this.say("passed before");
  }

  #makeEditor() {
    const host = make("div", { class: "kv-editor" });
    host.style.setProperty("min-height", `${this.listing.offsetHeight}px`);     // until the editor has measured itself
    this.host = host;
    this.plain = this.listing.parentElement;
    this.plain.replaceWith(host);
    this.editor = edit(host, this.code, {
      label: this.kind === "exercise" ? `Code of exercise ${this.name}` : `Code of ${this.name}`,
      described: HINT,
      changed: (text) => {
        host.style.removeProperty("min-height");
        this.#changed(text);
      },
      run: () => run(this),
    });
  }

  #changed(text) {
    this.code = text;
    python.begin();     // whoever writes will run
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.save(), SAVE_AFTER);
  }

  save() {
    clearTimeout(this.saving);
    if (this.code !== this.original) write(this.key, { code: this.code });
    else if (read(this.key)) forget(this.key);
  }

  // An editor scrolls; on paper its lines must wrap.
  toPaper() {
    if (!this.host?.isConnected) return;
    this.paper = this.code === this.original ? this.plain : make("pre", { class: "kv-printed", text: this.code });
    this.host.replaceWith(this.paper);
  }

  toScreen() { this.paper?.replaceWith(this.host); }

  reset() {
    this.editor.set(this.original);
    this.save();
    this.output.clear();
    this.#answersShown(true);
    this.say("as it was at first");
    say(`${this.name} is as it was at first.`);
  }

  #answersShown(shown) { if (this.answers) this.answers.hidden = !shown; }

  say(words) { this.status.textContent = words; }

  begin() {
    busy.add(this);
    this.runButton.setAttribute("aria-disabled", "true");
    this.stopButton.hidden = false;
    this.element.classList.add("kv-busy");
    this.say("waiting for its turn");
  }

  end() {
    busy.delete(this);
    this.runButton.removeAttribute("aria-disabled");
    if (this.stopButton.contains(document.activeElement)) this.runButton.focus();
    this.stopButton.hidden = true;
    this.element.classList.remove("kv-busy");
    clearInterval(this.clock);
  }

  // One run of this cell in Python, within a turn.
  async play(ask) {
    this.output.clear();
    this.#answersShown(false);
    const begun = performance.now();
    this.clock = setInterval(() => this.say(`running, ${Math.round((performance.now() - begun) / 1000)} s`), 1000);
    this.say("running");
    const text = this.code;
    const heard = ({ kind, words }) => (kind === "html" ? this.output.html(words) : this.output.text(words));
    const result = await ask({ kind: "run", name: this.id, source: text, predictions: predictions() }, heard);
    clearInterval(this.clock);
    note(this, text);
    this.#show(result, (performance.now() - begun) / 1000);
    return result;
  }

  // The same before another cell's run: what it shows is not asked for, a mistake in it is.
  async prepare(ask) {
    const text = this.code;
    const result = await ask({ kind: "run", name: this.id, source: text, predictions: predictions() });
    note(this, text);
    if (result.how === "failed") {
      this.output.clear();
      this.output.error(result.error);
      this.say("fails");
    }
    return result;
  }

  #show(result, seconds) {
    const took = `${seconds.toFixed(1)} s`;
    if (result.how === "lacks") {
      this.output.note(`${result.error} `, this.answers ? "Below is what the answer key shows. " : "", make("a", { href: guide(), text: "How to work" }), " says how to get it.");
      this.#answersShown(true);
    } else if (result.error) this.output.error(result.error);
    const words = { done: this.output.empty ? `done, no output, ${took}` : `done, ${took}`, unwritten: "not written yet", lacks: "needs the notebook", broken: `a promise is broken, ${took}`, failed: `an error, ${took}` }[result.how];
    this.say(this.kind !== "check" || result.how !== "done" ? words : result.passed ? `passed, ${took}` : "not written yet");
    if (this.kind === "check" && result.how !== "lacks") result.passed ? write(`passed:${this.id}`, true) : forget(`passed:${this.id}`);
    requestAnimationFrame(() => say(`${this.name}: ${this.status.textContent}. ${this.output.element.textContent.slice(0, 300)}`));
  }
}

// After a cell has run with another text than before, what ran below it stood on something else.
function note(cell, text) {
  if (ran.get(cell) !== text) for (const below of cells.slice(cells.indexOf(cell) + 1)) ran.delete(below);
  ran.set(cell, text);
}

// Predictions made on this page, as the package reads them.
function predictions() {
  const made = {};
  for (const [key, kept] of Object.entries(everything()[thisPage()] ?? {})) {
    if (key.startsWith("question:") && kept?.answers?.length) made[key.slice("question:".length)] = kept.answers.map((answer) => ({ answer, at: "" }));
  }
  return made;
}

const guide = () => new URL("../../book/how-to-work.html", import.meta.url).href;

async function run(cell) {
  if (busy.has(cell)) return;     // a second press while it runs
  cell.save();
  cell.begin();
  try {
    await python.turn((ask) => play(cell, ask));
  } catch (error) {
    if (error instanceof python.Stopped) {
      cell.say("stopped");
      say(`${cell.name} was stopped. Python starts anew with the next run.`);
    } else {
      cell.say("Python has ended");
      cell.output.error(`Python has ended and starts anew with the next run: ${error.message}`);
    }
  } finally {
    cell.end();
  }
}

// The cells above that this Python has not run as they are now, then the cell itself. Checks define nothing.
async function play(cell, ask) {
  const failed = [], lacking = [];
  for (const above of cells.slice(0, cells.indexOf(cell))) {
    if (above.kind === "check" || ran.get(above) === above.code) continue;
    cell.say("running the cells above");
    const { how } = await above.prepare(ask);
    if (how === "failed") failed.push(above);
    if (how === "lacks") lacking.push(above);
  }
  const { how } = await cell.play(ask);
  if (how === "failed" && lacking.length) cell.output.note("Cells above need what the page's Python does not have, so names that they define are missing here.");
  if ((how === "failed" || how === "broken") && failed.length) {
    const links = failed.flatMap((above, n) => [n ? ", " : "", make("a", { href: `#${above.element.id}`, text: above.name })]);
    cell.output.note("Above, these cells end in an error: ", ...links, ".");
  }
}

function stop(cell) {
  cell.say("stopping");
  python.stop();
}

python.listen((news) => {
  if (news.kind === "gone") ran.clear();
  if (news.kind === "loading") for (const cell of busy) cell.say(`starting Python, ${Math.round(100 * news.part)} %`);
  if (news.kind === "loading" && news.part === 0 && busy.size) say("Python is starting.");
});

// A prompt is a widget already; its cell has nothing to run.
const runs = (element) => element.querySelector(".cell_input pre") && !element.querySelector('.kv-widget[data-widget="question"]');

export function start() {
  for (const element of [...document.querySelectorAll("div.cell[id^=cell-]")].filter(runs)) cells.push(new Cell(element));
  addEventListener("beforeprint", () => cells.forEach((cell) => cell.toPaper()));
  addEventListener("afterprint", () => cells.forEach((cell) => cell.toScreen()));
  addEventListener("pagehide", () => cells.forEach((cell) => cell.editor && cell.save()));
}

// A simulator over the reader's own class asks Python what the class does.
function answer(key, kept) {
  return python.turn((ask) => ask({ kind: "kept", key, kept: JSON.stringify(kept) })).catch(() => null);
}

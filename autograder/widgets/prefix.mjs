// Requests with a common prefix: how many blocks they take with and without sharing its full blocks.
//
// state  { title, prefix, requests, own, block }: where the reader begins.   kept  the same numbers as the reader left them.
import { rowOfBlocks } from "./blocks.mjs";
import { button, choice, numberField } from "./controls.mjs";
import { ground, make } from "./dom.mjs";
import { marks as marksOf, prefixSums } from "./model.mjs";
import { say } from "./say.mjs";
import { plural } from "./words.mjs";

const SIZES = [1, 2, 4, 8, 16, 32, 64];
const LIMITS = { prefix: [0, 200], requests: [1, 12], own: [0, 100] };
const LABELS = { prefix: "prefix tokens", requests: "requests", own: "own tokens of each" };
const MOST_ROWS = 4;

const nameOf = (n) => String.fromCharCode(65 + n);

class PrefixWidget {
  constructor({ model, el }) {
    const state = model.get("state");
    this.model = model;
    this.begun = { prefix: state.prefix, requests: state.requests, own: state.own, block: state.block };
    this.now = { ...this.begun, ...pick(model.get("kept") ?? {}) };
    this.root = ground(el, "prefix", state.title);
    this.picture = make("div", { class: "kv-side-by-side kv-columns" });
    this.sums = make("div", { class: "kv-log kv-sums" });
    this.root.append(make("p", { class: "kv-title", text: state.title }), this.fields(), this.sums, this.picture, legend());
    this.draw();
  }

  fields() {
    this.numbers = Object.entries(LIMITS).map(([name, [min, max]]) => [name, numberField({ label: LABELS[name], min, max, value: this.now[name], slider: true, change: (value) => this.set({ [name]: value }) })]);
    const sizes = [...new Set([...SIZES, this.now.block])].sort((a, b) => a - b);
    this.size = choice({ label: "block size", value: this.now.block, options: sizes.map((n) => [n, plural(n, "slot")]), change: (value) => this.set({ block: Number(value) }) });
    const back = button("as at first", () => { this.set(this.begun); this.showFields(); });
    return make("div", { class: "kv-sliders" }, ...this.numbers.map(([, field]) => field.el), make("div", { class: "kv-controls" }, this.size.el, back));
  }

  showFields() {
    for (const [name, field] of this.numbers) field.set(this.now[name]);
    this.size.select.value = this.now.block;
  }

  set(changed) {
    this.now = { ...this.now, ...changed };
    this.model.set("kept", this.now);
    this.model.save_changes();
    this.draw();
    const { without, withSharing, saved } = prefixSums(this.now);
    say(`${plural(without, "block")} without sharing, ${withSharing} with, ${saved} saved.`);
  }

  draw() {
    const sums = prefixSums(this.now);
    this.sums.replaceChildren(...this.lines(sums));
    this.picture.replaceChildren(...this.columns(sums));
  }

  lines({ full, tail, total, each, rest, eachRest, without, withSharing, saved }) {
    const { requests: n, prefix, own, block } = this.now;
    const line = (words, sum) => make("p", {}, make("span", { text: words }), make("strong", { text: sum }));
    const what = tail && n > 1 ? `Only ${plural(full, "full block")} can be shared; the other ${plural(tail, "prefix token")} stay with each request.` : "";
    return [
      line(`Without sharing: ${n} × ⌈${total} ÷ ${block}⌉ = ${n} × ${each} = `, plural(without, "block")),
      line(`With sharing: ⌊${prefix} ÷ ${block}⌋ + ${n} × ⌈${rest} ÷ ${block}⌉ = ${full} + ${n} × ${eachRest} = `, plural(withSharing, "block")),
      line(`Saved: ${without} − ${withSharing} = `, plural(saved, "block")),
      ...(what ? [make("p", { text: what })] : []),
      ...(own === 0 && prefix === 0 ? [make("p", { text: "No tokens, no blocks." })] : []),
    ];
  }

  columns(sums) {
    const { requests, block } = this.now, { full, tail, total, each, rest, eachRest } = sums;
    const names = Array.from({ length: requests }, (_, n) => nameOf(n)), marks = marksOf(names), told = names.slice(0, MOST_ROWS);
    const owned = (name, first, count, tokens) => Array.from({ length: count }, (_, at) => ({ number: first + at, kind: "owned", owners: [name], count: 1, filled: Math.min(block, tokens - at * block) }));
    const prefixes = (count, tokens) => Array.from({ length: count }, (_, at) => Math.max(0, Math.min(block, tokens - at * block)));
    const more = (count) => (requests > MOST_ROWS ? [make("p", { class: "kv-small-print", text: `and ${requests - MOST_ROWS} more requests with ${plural(count, "block")} each` })] : []);
    const alone = told.map((name, n) => row(name, owned(name, n * each, each, total), marks, block, prefixes(each, this.now.prefix)));
    const together = told.map((name, n) => row(`${name}'s own`, owned(name, full + n * eachRest, eachRest, rest), marks, block, prefixes(eachRest, tail)));
    const shared = Array.from({ length: full }, (_, number) => ({ number, kind: requests > 1 ? "shared" : "owned", owners: names, count: requests, filled: block }));
    if (full) together.unshift(row(requests > 1 ? `shared by ${requests === 2 ? "both" : `all ${requests}`}` : "A's full prefix blocks", shared, marks, block, shared.map(() => block)));
    return [column(`Without sharing: ${plural(sums.without, "block")}`, [...alone, ...more(each)]), column(`With sharing: ${plural(sums.withSharing, "block")}`, [...together, ...more(eachRest)])];
  }
}

const column = (words, rows) => make("div", {}, make("p", { class: "kv-total", text: words }), ...rows);

function row(label, facts, marks, size, prefixes) {
  const told = `${label}: ${plural(facts.length, "block")}${facts.length ? `, the last with ${plural(facts.at(-1).filled, "token")}` : ""}`;
  return make("div", { class: "kv-request" }, make("span", { class: "kv-heading", text: `${label}, ${plural(facts.length, "block")}` }), make("div", { class: "kv-pool" }, rowOfBlocks(facts, marks, { size, label: told, prefixes, most: 8 })));
}

const legend = () => make("ul", { class: "kv-legend" },
  make("li", {}, make("span", { class: "kv-cell kv-cell-prefix", "aria-hidden": "true" }), "prefix token"),
  make("li", {}, make("span", { class: "kv-cell kv-cell-own", "aria-hidden": "true" }), "own token"),
  make("li", {}, make("span", { class: "kv-cell", "aria-hidden": "true" }), "empty slot"));

function pick(kept) {
  return Object.fromEntries(["prefix", "requests", "own", "block"].filter((name) => Number.isInteger(kept[name])).map((name) => [name, kept[name]]));
}

export default { render(context) { new PrefixWidget(context); } };

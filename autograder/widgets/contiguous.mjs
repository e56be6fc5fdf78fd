// One stream of requests into a contiguous pool and a paged one, with the three wastes counted in both.
//
// state  { title, slots, longest, block, events }: see model.arrivals.   kept  { at }: the step the reader stands at.
import { chip, memoryBar, memoryLegend } from "./blocks.mjs";
import { Stepper } from "./controls.mjs";
import { ground, make } from "./dom.mjs";
import { arrivals, KINDS, marks as marksOf } from "./model.mjs";
import { say } from "./say.mjs";
import { plural } from "./words.mjs";

const SIDES = ["contiguous", "paged"];
const KIND_WORDS = { tokens: "hold a token", reserved: "reserved", internal: "internal", external: "external", free: "free" };

class ContiguousWidget {
  constructor({ model, el }) {
    Object.assign(this, { model, state: model.get("state") });
    this.moments = arrivals(this.state);
    this.at = Math.min(model.get("kept")?.at ?? 0, this.moments.length - 1);
    this.marks = marksOf(this.state.events.filter(([verb]) => verb === "arrive").map(([, name]) => name));
    this.root = ground(el, "contiguous", this.state.title);
    this.sides = Object.fromEntries(SIDES.map((side) => [side, make("div", { class: "kv-side" })]));
    this.event = make("p", { class: "kv-event" });
    this.stepper = new Stepper((to) => this.move(to), { play: true, seconds: 2 });
    this.counts = make("table", { class: "kv-counts" });
    this.root.append(make("p", { class: "kv-title", text: this.state.title }), this.event, this.stepper.el, ...SIDES.map((side) => this.sides[side]), this.legend(), this.counts);
    this.draw();
  }

  legend() {
    const { longest } = this.state;
    return memoryLegend(KINDS, { reserved: "reserved: will be filled later", internal: "internal: inside an allocation, not filled", external: `external: free, but too short for ${longest}` });
  }

  move(to) {
    this.at = Math.max(0, Math.min(to, this.moments.length - 1));
    this.model.set("kept", { at: this.at });
    this.model.save_changes();
    this.draw();
    const { contiguous, paged } = this.moments[this.at];
    say(`${this.eventWords()} Contiguous: ${contiguous.said.join(" ") || "no change."} Paged: ${paged.said.join(" ") || "no change."}`);
  }

  eventWords() {
    const [verb, name, now, end] = this.moments[this.at].event ?? [];
    if (!verb) return "Both pools are empty. Press Forward: the first request arrives.";
    if (verb === "arrive") return `${name} arrives: ${plural(now, "token")} now, ${end} when it is done.`;
    return verb === "grow" ? `Everybody who is in writes ${plural(name, "token")}.` : `${name}'s reader closes the page.`;
  }

  draw() {
    const moment = this.moments[this.at];
    this.event.textContent = this.eventWords();
    for (const side of SIDES) this.drawSide(side, moment[side]);
    this.drawCounts(moment);
    this.stepper.update(this.at, this.moments.length - 1);
  }

  drawSide(side, { spans, counts, waiting, said }) {
    const { slots, longest, block } = this.state;
    const words = side === "contiguous" ? `Contiguous: ${longest} slots reserved for each` : `Paged: blocks of ${block}`;
    const queue = make("span", { class: "kv-queue" }, waiting.length ? "waiting: " : "nobody waits", ...waiting.map((name) => chip(this.marks.get(name), name)));
    const label = `${words}. ${KINDS.filter((kind) => counts[kind]).map((kind) => `${counts[kind]} ${KIND_WORDS[kind]}`).join(", ")} of ${slots} slots.`;
    this.sides[side].replaceChildren(make("div", { class: "kv-head" }, make("span", { class: "kv-heading", text: words }), queue),
      memoryBar(spans, slots, this.marks, { label, block: side === "paged" ? block : null }),
      make("p", { class: "kv-said", text: said.join(" ") || "No change." }));
  }

  drawCounts({ contiguous, paged }) {
    const heads = ["slots", "contiguous", "paged"].map((text) => make("th", { scope: "col", text }));
    const rows = KINDS.map((kind) => make("tr", {}, make("th", { scope: "row", text: KIND_WORDS[kind] }), ...[contiguous, paged].map(({ counts }) => make("td", { text: counts[kind], class: counts[kind] ? "" : "kv-zero" }))));
    this.counts.replaceChildren(make("caption", { text: `Of ${this.state.slots} slots` }), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
  }
}

export default {
  render(context) {
    const widget = new ContiguousWidget(context);
    return () => widget.stepper.stop();
  },
};

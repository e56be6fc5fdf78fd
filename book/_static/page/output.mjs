// Shows what a cell gave: text as it comes, and the package's HTML made anew from the few elements it may have.
import { make } from "../widgets/dom.mjs";
import { mount } from "../widgets/mount.mjs";

const TAGS = new Set("DIV SPAN P BR HR OL UL LI CODE PRE STRONG B EM I SMALL SUB SUP TABLE CAPTION THEAD TBODY TR TH TD DETAILS SUMMARY FIGURE FIGCAPTION H3 H4 A".split(" "));
const ATTRIBUTES = /^(style|class|role|aria-[a-z]+|title|lang|start|scope|colspan|rowspan|open|data-widget|data-key|href)$/;

// A copy of the node with nothing in it that runs or loads. What a learner's code says is text to the package already;
// this holds for HTML that a learner's own object gives, too.
function copy(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (node.nodeType !== Node.ELEMENT_NODE) return null;
  if (node.tagName === "SCRIPT") return data(node);
  if (!TAGS.has(node.tagName)) return null;
  const made = document.createElement(node.tagName);
  for (const { name, value } of node.attributes) if (ATTRIBUTES.test(name) && harmless(name, value)) made.setAttribute(name, value);
  made.append(...[...node.childNodes].map(copy).filter(Boolean));
  return made;
}

// A widget's state.
function data(script) {
  if (script.type !== "application/json") return null;
  const made = document.createElement("script");
  made.type = "application/json";
  made.textContent = script.textContent;
  return made;
}

function harmless(name, value) {
  if (name === "style") return !/url\(|position|expression|@/i.test(value);
  if (name === "href") return /^(#|\.\.?\/|[\w-]+\.html)/.test(value);
  return true;
}

async function follow({ key, model }, answer) {
  const ask = async () => {
    const changed = await answer(key, model.get("kept"));
    if (changed) model.set("state", { ...model.get("state"), ...changed });
  };
  model.on("change:kept", ask);
  await ask();     // it may have asked before anybody listened
}

export class Output {
  #text = ""; #waiting = false; #pre = null;

  // answer(key, kept): what changes in a shown widget's state now that the reader has changed what it keeps.
  constructor(label, answer) {
    this.element = make("div", { class: "kv-output", role: "group", "aria-label": label, hidden: true, on: { "kv-mounted": ({ detail }) => follow(detail, answer) } });
  }

  clear() {
    this.#text = "";
    this.#pre = null;
    this.element.replaceChildren();
    this.element.hidden = true;
  }

  get empty() { return this.element.childElementCount === 0 && !this.#text; }

  // Drawn once per frame, however fast it comes.
  text(words) {
    this.#text += words;
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => { this.#waiting = false; this.#draw(); });
  }

  #draw() {
    if (!this.#text) return;
    if (!this.#pre) this.#add(this.#pre = make("pre", { tabindex: "0", role: "group", "aria-label": "printed" }));
    this.#pre.append(this.#text);
    this.#text = "";
  }

  html(words) {
    this.#draw();
    this.#pre = null;
    const parsed = new DOMParser().parseFromString(words, "text/html");
    const box = make("div", { class: "kv-shown" });
    box.append(...[...parsed.body.childNodes].map(copy).filter(Boolean));
    this.#add(box);
    box.querySelectorAll(".kv-widget[data-widget]").forEach((place) => mount(place));
  }

  error(words) {
    this.#draw();
    this.#pre = null;
    this.#add(make("pre", { class: "kv-error", tabindex: "0", role: "group", "aria-label": "error", text: words }));
  }

  // A sentence of the page itself.
  note(...parts) {
    this.#draw();
    this.#add(make("p", { class: "kv-note" }, ...parts));
  }

  #add(element) {
    this.element.hidden = false;
    this.element.append(element);
  }
}

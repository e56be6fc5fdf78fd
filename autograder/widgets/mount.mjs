// Mounts the widgets of a static page: the front end that a notebook gets through anywidget, with a model of its own.
import { hold } from "./hold.mjs";
import { keep } from "./paper.mjs";
import { read, write } from "./store.mjs";

// What anywidget's model offers and our widgets use: get, set, save_changes, on, off.
class PageModel {
  #values; #key; #listeners = new Map();

  constructor(values, key) {
    this.#values = values;
    this.#key = key;
  }

  get(name) { return this.#values[name]; }

  set(name, value) {
    if (this.#values[name] === value) return;
    this.#values[name] = value;
    for (const event of [`change:${name}`, "change"]) for (const tell of [...(this.#listeners.get(event) ?? [])]) tell(this, value);
  }

  save_changes() { write(this.#key, this.#values.kept); }

  on(event, listener) { this.#listeners.set(event, (this.#listeners.get(event) ?? new Set()).add(listener)); }

  off(event, listener) {
    if (listener) this.#listeners.get(event)?.delete(listener);
    else this.#listeners.delete(event);
  }
}

const styles = new Map();

// Ready when the style is there (or cannot be had), so that nothing is drawn twice before the reader's eyes.
function style(name) {
  if (!styles.has(name)) {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL(`./${name}.css`, import.meta.url).href });
    styles.set(name, new Promise((ready) => { link.onload = link.onerror = ready; }));
    document.head.append(link);
  }
  return styles.get(name);
}

export async function mount(place) {
  if (place.dataset.mounted) return;
  place.dataset.mounted = "yes";
  const { widget: name, key } = place.dataset;
  const still = place.querySelector(":scope > .kv-still");
  let release = () => {};
  try {
    const [{ default: front }] = await Promise.all([import(`./${name}.mjs`), style(name), style("colours")]);
    const model = new PageModel({ state: JSON.parse(place.querySelector(":scope > script").textContent), kept: read(key) ?? {} }, key);
    const el = document.createElement("div");
    if (model.get("state").kind === "predict") {
      release = hold(place, model.get("kept").answers?.length);
      el.addEventListener("kv-prompt", release);
    }
    await front.render({ model, el });
    still?.replaceWith(el);     // only now: whatever fails above leaves the reader with the picture and the text
    if (still) keep(el, still);
    // Page code that runs Python may answer for it: see the head of pool.mjs.
    place.dispatchEvent(new CustomEvent("kv-mounted", { bubbles: true, detail: { name, key, model } }));
  } catch (error) {
    release();     // nobody can answer a prompt that did not start
    console.error(`The widget ${name} did not start:`, error);
  }
}

document.querySelectorAll(".kv-widget[data-widget]").forEach(mount);

// "My work": everything that this browser keeps of the book can be saved to a file, read from one, or removed.
import { make } from "../widgets/dom.mjs";
import { clear, close, everything, lasting, thisPage, write } from "../widgets/store.mjs";

const FORMAT = "paged-kv-caches", LARGEST = 5_000_000;

// The pages of an exported file; an Error with one sentence for any other.
export function readExport(text) {
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON: choose the file that “Save to a file” made.");
  }
  const pages = data?.format === FORMAT && data.version === 1 ? data.pages : null;
  const named = (value) => value && typeof value === "object" && !Array.isArray(value);
  if (!named(pages) || !Object.entries(pages).every(([page, kept]) => !page.includes(":") && named(kept))) throw new Error("This file holds no work of this book: choose the file that “Save to a file” made.");
  return pages;
}

export function writeExport() {
  return JSON.stringify({ format: FORMAT, version: 1, saved: new Date().toISOString(), pages: everything() }, null, 1);
}

function save() {
  const href = URL.createObjectURL(new Blob([writeExport()], { type: "application/json" }));
  make("a", { href, download: "my-work.json" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

function take(pages) {
  for (const [page, kept] of Object.entries(pages)) {
    clear(page);
    for (const [key, value] of Object.entries(kept)) write(key, value, page);
  }
}

function again() {
  close();
  location.reload();
}

function build() {
  const told = make("p", { role: "status", class: "kv-told" });
  const file = make("input", { type: "file", accept: ".json,application/json", id: "kv-import", on: { change: async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    try {
      if (chosen.size > LARGEST) throw new Error("This file is larger than any work of this book: choose the file that “Save to a file” made.");
      take(readExport(await chosen.text()));
      again();
    } catch (error) {
      told.textContent = error.message;
    }
    file.value = "";
  } } });
  const button = (text, click) => make("button", { type: "button", text, on: { click } });
  const sure = make("div", { class: "kv-sure", hidden: true });
  // Removing asks once more, in the same place.
  const remove = (question, act) => () => {
    sure.replaceChildren(make("p", { text: question }), button("Remove it", () => { act(); again(); }), button("Leave it", () => { sure.hidden = true; }));
    sure.hidden = false;
    sure.querySelector("button").focus();
  };
  const dialog = make("dialog", { class: "kv-panel", "aria-labelledby": "kv-panel-title" },
    make("h2", { id: "kv-panel-title", text: "My work" }),
    make("p", { text: lasting() ? "Your code, predictions and answers are kept in this browser and nowhere else. Nobody can see them." : "This browser keeps nothing for this page: save your work to a file before you leave." }),
    make("p", {}, button("Save to a file", save)),
    make("p", {}, make("label", { for: "kv-import", text: "Read from a file " }), file),
    make("p", {}, button("Remove this page's work", remove("Remove your code, predictions and answers of this page?", () => clear(thisPage()))), " ",
      button("Remove everything", remove("Remove all that you did in this book?", () => Object.keys(everything()).forEach((page) => clear(page))))),
    sure, told,
    make("p", {}, button("Close", () => dialog.close())));
  document.body.append(dialog);
  return dialog;
}

export function start() {
  const place = document.querySelector(".article-header-buttons");
  if (!place) return;
  let dialog;
  place.prepend(make("button", { type: "button", class: "btn btn-sm kv-my-work", text: "My work", "aria-haspopup": "dialog", on: { click: () => { (dialog ??= build()).showModal(); } } }));
}

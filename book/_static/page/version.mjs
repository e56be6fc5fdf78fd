// A page that has changed since the reader wrote on it asks once: keep mine, or take the new.
import { make } from "../widgets/dom.mjs";
import { clear, close, everything, read, thisPage, write } from "../widgets/store.mjs";

const KEY = "version";
const written = (key) => key.startsWith("cell:");

export function start() {
  const version = document.querySelector('meta[name="kv-version"]')?.content;
  if (!version) return;
  const mine = Object.keys(everything()[thisPage()] ?? {}).some(written);
  if (mine && read(KEY) && read(KEY) !== version) return offer(version);
  if (read(KEY) !== version && mine) write(KEY, version);
  // The version that work belongs to is the one it was begun with.
  document.addEventListener("kv-kept", ({ detail }) => { if (written(detail.key) && !read(KEY)) write(KEY, version); });
  if (!mine && read(KEY)) write(KEY, version);
}

function offer(version) {
  const settle = (words) => () => {
    if (words === "new") clear(thisPage(), (key) => written(key) || key.startsWith("passed:"));
    write(KEY, version);
    if (words === "mine") return box.remove();
    close();
    return location.reload();
  };
  const box = make("section", { class: "kv-offer", "aria-label": "This page has changed" },
    make("p", { text: "This page has changed since you wrote on it. Your code is still here. To take the new cells is to give up what you wrote in the old ones; predictions and answers stay either way." }),
    make("button", { type: "button", text: "Keep mine", on: { click: settle("mine") } }),
    make("button", { type: "button", text: "Take the new", on: { click: settle("new") } }));
  document.querySelector("#main-content article, article")?.prepend(box);
}

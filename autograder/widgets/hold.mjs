// On a static page: what follows a prediction in its section is held back until the prediction is made or skipped.
import { read, write } from "./store.mjs";

export function hold(place, done) {
  const cell = place.closest(".cell") ?? place;
  const key = `skipped:${place.dataset.key}`;
  if (done || read(key)) return () => {};
  const held = [];
  for (let next = cell.nextElementSibling; next && !ends(next); next = next.nextElementSibling) held.push(next);
  if (!held.length) return () => {};
  const note = document.createElement("p");
  note.className = "kv-skip kv-widget";
  const release = () => {
    held.forEach((element) => element.classList.remove("kv-held"));
    note.remove();
  };
  const skip = Object.assign(document.createElement("button"), { type: "button", textContent: "Go on without predicting" });
  skip.addEventListener("click", () => { write(key, true); release(); });
  note.append("What comes of it follows here once you have committed a prediction. ", skip);
  held.forEach((element) => element.classList.add("kv-held"));
  cell.after(note);
  const aimed = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && held.some((element) => element.contains(target))) release();
  };
  addEventListener("hashchange", aimed);
  aimed();
  return release;
}

// A section of its own ends what belongs to the prompt, and so does the next prompt.
const ends = (element) => element.tagName === "SECTION" || element.querySelector('.kv-widget[data-widget="question"]') !== null;

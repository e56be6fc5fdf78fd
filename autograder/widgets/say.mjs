// What a screen reader hears when a picture has changed: one polite live region for the whole page, whoever speaks.
const ID = "kv-say";

function region() {
  const known = document.getElementById(ID);
  if (known) return known;
  const made = document.createElement("div");
  made.id = ID;
  made.setAttribute("role", "status");
  made.setAttribute("aria-live", "polite");
  // Out of sight without a style sheet, so that any widget may be the first to speak.
  for (const [name, value] of Object.entries({ position: "absolute", width: "1px", height: "1px", overflow: "hidden", "clip-path": "inset(50%)", "white-space": "nowrap" })) {
    made.style.setProperty(name, value);
  }
  document.body.append(made);
  return made;
}

let waiting;

export function say(words) {
  const place = region();
  place.textContent = "";     // the same sentence twice is news twice
  clearTimeout(waiting);
  waiting = setTimeout(() => { place.textContent = words; }, 60);
}

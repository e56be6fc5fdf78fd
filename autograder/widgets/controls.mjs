// What every simulator is worked with: buttons, number fields with sliders, a choice, and the stepper through a history.
import { make } from "./dom.mjs";

// A button that cannot be pressed now stays focusable, so that the keyboard never loses its place.
export function button(text, press, { primary = false, focus = text, name = null } = {}) {
  const control = make("button", { type: "button", class: `kv-button${primary ? " kv-primary" : ""}`, text, "data-focus": focus, "aria-label": name });
  control.addEventListener("click", () => { if (control.getAttribute("aria-disabled") !== "true") press(); });
  return control;
}

export function enable(control, yes) {
  if (yes) control.removeAttribute("aria-disabled");
  else control.setAttribute("aria-disabled", "true");
}

let made = 0;
const freshId = () => { made += 1; return `kv-${made}-${Math.random().toString(36).slice(2, 7)}`; };

// A whole number from min to max, with or without a slider beside the field; what is outside is brought inside.
export function numberField({ label, min, max, value, change, slider = false, step = 1 }) {
  const id = freshId();
  const field = make("input", { type: "number", id, class: "kv-number-field", min, max, step, inputmode: "numeric" });
  const range = slider ? make("input", { type: "range", class: "kv-range", min, max, step, "aria-label": `${label} (slider)` }) : null;
  const show = (now) => { field.value = now; if (range) range.value = now; };
  const take = (raw, tidy) => {
    if (raw.trim() === "" || !Number.isFinite(Number(raw))) { if (tidy) show(value); return; }
    value = Math.min(max, Math.max(min, Math.round(Number(raw))));
    if (tidy) show(value); else if (range) range.value = value;
    change(value);
  };
  field.addEventListener("input", () => take(field.value, false));
  field.addEventListener("change", () => take(field.value, true));
  range?.addEventListener("input", () => take(range.value, true));
  show(value);
  const el = make("div", { class: `kv-field${slider ? " kv-with-range" : ""}` }, make("label", { for: id, text: label }), range, field);
  return { el, field, set: (now) => { value = now; show(now); }, get value() { return value; } };
}

export function choice({ label, options, value, change }) {
  const id = freshId();
  const select = make("select", { id, class: "kv-select", on: { change: () => change(select.value) } }, ...options.map(([key, words]) => make("option", { value: key, text: words })));
  select.value = value;
  return { el: make("div", { class: "kv-field" }, make("label", { for: id, text: label }), select), select };
}

// Start, Back, Forward, and, where time passes, Play; nothing plays by itself. move(to) is asked with the step to go to.
export class Stepper {
  #at = 0; #last = 0; #timer = null; #playButton = null;

  constructor(move, { play = false, seconds = 1.2 } = {}) {
    this.move = move;
    this.seconds = seconds;
    this.start = button("Start", () => this.#go(0), { focus: "start", name: "Start: go to the first step" });
    this.back = button("◀ Back", () => this.#go(this.#at - 1), { focus: "back", name: "Back one step" });
    this.forward = button("Forward ▶", () => this.#go(this.#at + 1), { primary: true, focus: "forward", name: "Forward one step" });
    if (play) this.#playButton = button("Play", () => (this.#timer ? this.stop() : this.#begin()), { focus: "play" });
    this.place = make("span", { class: "kv-place" });
    this.el = make("div", { class: "kv-stepper", role: "group", "aria-label": "steps" }, this.start, this.back, this.forward, this.#playButton, this.place);
  }

  // blocked: whether something outside keeps the reader from going forward; next: what Forward would do.
  update(at, last, { blocked = false, next = "" } = {}) {
    this.#at = at;
    this.#last = blocked ? Math.min(at, last) : last;
    enable(this.start, at > 0);
    enable(this.back, at > 0);
    enable(this.forward, at < this.#last);
    if (this.#playButton) enable(this.#playButton, at < this.#last);
    this.place.textContent = `step ${at} of ${last}${next && at < this.#last ? `, next: ${next}` : ""}`;
    if (at >= this.#last) this.stop();
  }

  #go(to) { this.stop(); this.move(to); }

  #begin() {
    this.#timer = setInterval(() => (this.el.isConnected ? this.move(this.#at + 1) : this.stop()), this.seconds * 1000);
    this.#playButton.textContent = "Pause";
    this.move(this.#at + 1);
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = null;
    if (this.#playButton) this.#playButton.textContent = "Play";
  }
}

// A prompt: a form, then the answer beside its outcome. "predict" is answered once; "ask" may be tried again.

// The inverse of autograder/prompts/seal.py. A cover, not a lock.
export function unseal(id, covered) {
  let state = 2166136261;
  for (const byte of new TextEncoder().encode(id)) state = Math.imul(state ^ byte, 16777619) >>> 0;
  state ||= 1;
  const raw = Uint8Array.from(atob(covered), (c) => c.charCodeAt(0));
  for (let n = 0; n < raw.length; n++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    raw[n] ^= state & 0xff;
  }
  return JSON.parse(new TextDecoder().decode(raw));
}

// What was typed, as autograder/prompts/compare.py reads it; undefined if it does not fill in the field.
export function read(field, typed) {
  const text = String(typed ?? "").trim();
  if (field.kind === "number") {
    const digits = text.replace(/[\s,_%]/g, "");
    return digits !== "" && Number.isFinite(Number(digits)) ? Number(digits) : undefined;
  }
  if (field.kind === "list") {
    const numbers = text.match(/-?\d+/g);
    return numbers ? numbers.map(Number) : undefined;
  }
  return text === "" ? undefined : text;
}

function same(field, one, other, within) {
  if (field.kind === "number") return Math.abs(one - other) <= within + 1e-9;
  if (Array.isArray(one)) return one.length === other.length && one.every((item, n) => item === other[n]);
  return one === other;
}

// Each field's answer beside its outcome: {field, answer, right: true | false | null, outcome, why}.
export function compare(fields, outcomes, answer) {
  return fields.map((field) => {
    const { right, within, wrong, otherwise } = outcomes[field.key];
    const given = answer[field.key];
    if (!right.length) return { field, answer: given, right: null, outcome: null, why: otherwise };
    if (right.some((one) => same(field, given, one, within))) return { field, answer: given, right: true, outcome: right[0], why: "" };
    const known = wrong.find(([one]) => same(field, given, one, within));
    return { field, answer: given, right: false, outcome: right[0], why: known ? known[1] : otherwise };
  });
}

export const shown = (value) => (Array.isArray(value) ? `[${value.join(", ")}]` : String(value));

// ---- elements ----------------------------------------------------------------------------------------------------

function make(tag, { text, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  if (text !== undefined) element.append(...inWords(text));
  element.append(...children);
  return element;
}

// `code`, **strong** and *emphasis*, as the lessons write them.
function inWords(text) {
  return String(text).split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*)/).map((part) => {
    const mark = /^(`|\*\*|\*)(.+)\1$/.exec(part);
    if (!mark) return document.createTextNode(part);
    return Object.assign(document.createElement({ "`": "code", "**": "strong", "*": "em" }[mark[1]]), { textContent: mark[2] });
  });
}

let made = 0;

// One field's control: {element, value()}; value() is undefined while nothing usable is given.
function control(field, name) {
  if (field.kind === "choice") return choice(field, name);
  if (field.kind === "order") return order(field, name);
  const long = field.kind === "words";
  const input = make(long ? "textarea" : "input", { id: name, autocomplete: "off", ...(long ? { rows: 3 } : { type: "text" }), ...(field.kind === "number" ? { inputmode: "decimal" } : {}), ...(field.kind === "list" ? { placeholder: "like 0, 2, 5" } : {}) });
  const element = make("div", { class: "kv-field" }, make("label", { for: name, text: field.label }), input);
  return { element, input, value: () => read(field, input.value) };
}

function choice(field, name) {
  const options = field.options.map((option, n) => make("label", { class: "kv-option" }, make("input", { type: "radio", name, value: String(n) }), make("span", { text: option })));
  const element = make("fieldset", { class: "kv-field" }, make("legend", { text: field.label }), ...options);
  const picked = () => element.querySelector("input:checked");
  return { element, input: options[0].firstChild, value: () => (picked() ? field.options[Number(picked().value)] : undefined) };
}

// Lines to be put in order: each has buttons, so that a keyboard and a finger do what a mouse does.
function order(field, name) {
  const say = make("p", { class: "kv-quiet", "aria-live": "polite" });
  const list = make("ol", { class: "kv-order" });
  let moved = false;
  const item = (line, n) => {
    const row = make("li", { "data-line": n + 1 }, make("span", { text: line }));
    const move = (sign) => () => {
      const other = sign < 0 ? row.previousElementSibling : row.nextElementSibling;
      moved = true;
      if (!other) return;
      if (sign < 0) other.before(row);
      else other.after(row);
      say.textContent = `Now line ${[...list.children].indexOf(row) + 1} of ${list.children.length}: ${line}`;
      row.querySelectorAll("button")[sign < 0 ? 0 : 1].focus();
    };
    row.append(make("span", { class: "kv-moves" }, make("button", { type: "button", "aria-label": `Move up: ${line}`, text: "↑", onclick: move(-1) }), make("button", { type: "button", "aria-label": `Move down: ${line}`, text: "↓", onclick: move(1) })));
    return row;
  };
  list.append(...field.options.map(item));
  const element = make("div", { class: "kv-field", role: "group", "aria-labelledby": name }, make("p", { id: name, text: field.label }), list, say);
  return { element, input: list.querySelector("button"), value: () => (moved ? [...list.children].map((row) => Number(row.dataset.line)) : undefined) };
}

function form(state, onAnswer, verb) {
  const controls = state.fields.map((field) => control(field, `kv-${state.id}-${field.key}-${made++}`));
  const trouble = make("p", { class: "kv-trouble", role: "alert" });
  const element = make("form", { class: "kv-form", novalidate: true }, ...controls.map((c) => c.element), trouble, make("button", { type: "submit", class: "kv-main", text: verb }));
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    const answer = {};
    for (const [n, field] of state.fields.entries()) {
      const value = controls[n].value();
      if (value === undefined) {
        const how = { number: "give a number", list: "give numbers, like 0, 2, 5", choice: "choose one", order: "move at least one line", words: "write a sentence" }[field.kind];
        trouble.textContent = `${field.label}: ${how}.`;
        controls[n].input.focus();
        return;
      }
      answer[field.key] = value;
    }
    onAnswer(answer);
  });
  return element;
}

const SIGNS = new Map([[true, ["✓", "as you said", "kv-good"]], [false, ["✗", "not as you said", "kv-bad"]], [null, ["·", "", ""]]]);

function orderLines(field, value) {
  return make("ol", { class: "kv-order-shown" }, ...value.map((n) => make("li", { text: field.options[n - 1] })));
}

function cell(field, value) {
  if (value === null) return make("td", { text: "–" });
  return field.kind === "order" ? make("td", {}, orderLines(field, value)) : make("td", { text: shown(value) });
}

// The answer beside the outcome, field by field, each with its sign and the explanation of that very answer.
function sides(rows, outcomeToo) {
  const head = make("tr", {}, make("th", { scope: "col", text: "" }), make("th", { scope: "col", text: "you said" }), ...(outcomeToo ? [make("th", { scope: "col", text: "outcome" })] : []), make("th", { scope: "col", text: "" }));
  const lines = rows.map((row) => {
    const [sign, words, kind] = SIGNS.get(row.right);
    return make("tr", { class: kind }, make("th", { scope: "row", text: row.field.label }), cell(row.field, row.answer), ...(outcomeToo ? [cell(row.field, row.outcome)] : []), make("td", { class: "kv-sign" }, make("span", { "aria-hidden": "true", text: sign }), make("span", { text: ` ${words}` })));
  });
  const why = rows.filter((row) => row.why).map((row) => make("p", { class: "kv-why" }, make("strong", { text: row.right === null || row.field.kind === "order" ? `${row.field.label}. ` : `${row.field.label}, “${shown(row.answer)}”. ` }), make("span", { text: row.why })));
  return [make("div", { class: "kv-wide" }, make("table", { class: "kv-sides" }, make("thead", {}, head), make("tbody", {}, ...lines))), ...why];
}

function reveal(hidden) {
  // Made from the lesson's own Markdown when the lesson was built; no reader's words are in it.
  return make("div", { class: "kv-reveal" }, ...new DOMParser().parseFromString(hidden.html, "text/html").body.childNodes);
}

// ---- the two kinds -------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const state = model.get("state");
  const hidden = unseal(state.id, state.covered);
  const box = make("div", { class: "kv-question", role: "group", "aria-label": `${state.kind === "predict" ? "Prediction" : "Question"}: ${state.title}` });
  const badge = state.kind === "predict" ? "Predict first" : "Your turn";
  const body = make("div", { "aria-live": "polite" });
  box.append(make("p", { class: "kv-title" }, make("span", { class: "kv-badge", text: badge }), make("span", { text: state.title })), body);
  el.classList.add("kv-widget");
  el.append(box);

  const keep = (kept) => {
    model.set("kept", kept);
    model.save_changes();
  };
  // The page lets what it held back go; a simulator that waits for this prompt goes on, also one that asks only later.
  const announce = () => {
    el.dispatchEvent(new CustomEvent("kv-prompt", { bubbles: true, detail: { id: state.id } }));
    document.dispatchEvent(new CustomEvent("kv-answered", { detail: { key: state.id } }));
  };
  document.addEventListener("kv-asked", (event) => {
    if (event.detail?.key === state.id && model.get("kept")?.done) announce();
  });

  function predictForm() {
    body.replaceChildren(form(state, (answer) => {
      keep({ answers: [{ ...answer }], done: true });
      outcome();
      body.firstElementChild?.focus();
    }, "Commit my prediction"));
  }

  function outcome() {
    const rows = compare(state.fields, hidden.outcomes, model.get("kept").answers[0]);
    const off = rows.filter((row) => row.right === false).length;
    const judged = rows.filter((row) => row.right !== null).length;
    const line = !judged ? "Committed." : off ? `${off} of ${judged} came out differently. Here is why.` : "It came out as you said.";
    body.replaceChildren(make("p", { class: "kv-line", tabindex: "-1", text: line }), ...sides(rows, true), reveal(hidden));
    announce();
  }

  function askForm() {
    const asking = form(state, (answer) => {
      keep({ ...model.get("kept"), answers: [answer], tries: (model.get("kept").tries ?? 0) + 1 });
      graded(answer, asking);
    }, "Check");
    body.replaceChildren(asking);
  }

  // asking: the form as it was filled in, to be mended.
  function graded(answer, asking) {
    const rows = compare(state.fields, hidden.outcomes, answer);
    const off = rows.filter((row) => row.right === false).length;
    if (!off) {
      keep({ ...model.get("kept"), done: true });
      body.replaceChildren(make("p", { class: "kv-line", text: "Right." }), ...sides(rows, false), reveal(hidden), again());
      announce();
      return;
    }
    const show = make("button", { type: "button", text: "Show the answer", onclick: () => body.replaceChildren(make("p", { class: "kv-line", text: "The answer:" }), ...sides(rows, true), reveal(hidden), again()) });
    const judged = make("div", { class: "kv-judged" }, make("p", { class: "kv-line", text: off === rows.length && off === 1 ? "Not so." : `${off} of ${rows.length} not so. Mend and check again.` }), ...sides(rows, false), show);
    if (asking) body.replaceChildren(judged, asking);
    else askForm();
  }

  const again = () => make("button", { type: "button", text: "Try again", onclick: () => { keep({ tries: model.get("kept").tries }); askForm(); } });

  function draw() {
    const { answers, done } = model.get("kept") ?? {};
    try {
      if (state.kind === "predict") return answers?.length ? outcome() : predictForm();
      return answers?.length && done ? graded(answers[0]) : askForm();
    } catch {     // kept by an older version of this prompt, whose fields were others
      keep({});
      return state.kind === "predict" ? predictForm() : askForm();
    }
  }

  draw();
}

export default { render };

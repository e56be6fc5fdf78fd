// Elements without HTML strings, so that no data can become markup and a strict Content-Security-Policy holds.

// make("button", { class: "kv-button", text: "Back", "aria-label": "…", on: { click } }, child, …)
export function make(tag, { text, on = {}, vars = {}, ...attributes } = {}, ...children) {
  const element = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  for (const [name, value] of Object.entries(vars)) element.style.setProperty(name, value);
  if (text !== undefined) element.textContent = text;
  element.append(...children.filter((child) => child !== null));
  return element;
}

// The widget's own ground inside `el`: it carries the colours, and keys pressed in it are no shortcuts of JupyterLab.
export function ground(el, name, label) {
  const root = make("div", { class: `kv-widget kv-lab kv-lab-${name}`, role: "group", "aria-label": label, "data-lm-suppress-shortcuts": "true" });
  el.append(root);
  return root;
}

// Put new children into a place and keep the focus on the element with the same data-focus, or else on `otherwise`.
export function refill(place, children, otherwise = null) {
  const held = place.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  place.replaceChildren(...children);
  if (held !== undefined) ([...place.querySelectorAll("[data-focus]")].find((child) => child.dataset.focus === held) ?? otherwise)?.focus();
}

// A sentence whose words between backticks are code.
export function prose(text) {
  return String(text).split("`").map((part, n) => (n % 2 ? make("code", { text: part }) : document.createTextNode(part)));
}

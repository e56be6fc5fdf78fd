// What the reader did, kept in this browser only: JSON values by key, each page under its own address in the book.
const memory = new Map();     // where storage is refused (private windows), the page still works until it is left
const START = "kv:";

// The book's own folder: other books on the same host keep theirs apart.
const book = () => new URL("../../", import.meta.url).pathname;
const here = () => location.pathname.replace(/index\.html$/, "");
const place = (key, page) => `${START}${page === undefined ? here() : book() + page}:${key}`;

function storage() {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}

// After all of it was replaced or removed nothing more is kept until the page is loaded anew: what is still on the
// screen must not come back.
let closed = false;
export function close() { closed = true; }

function told(detail) {
  globalThis.document?.dispatchEvent(new CustomEvent("kv-kept", { detail }));
}

export function read(key, page) {
  const name = place(key, page);
  try {
    const kept = storage()?.getItem(name) ?? null;
    return kept === null ? memory.get(name) : JSON.parse(kept);
  } catch {
    return memory.get(name);
  }
}

export function write(key, value, page) {
  if (closed) return;
  const name = place(key, page);
  memory.set(name, value);
  try {
    storage()?.setItem(name, JSON.stringify(value));
  } catch { /* kept in memory above */ }
  told({ key });
}

export function forget(key, page) {
  if (closed) return;
  const name = place(key, page);
  memory.delete(name);
  try {
    storage()?.removeItem(name);
  } catch { /* it was in memory only */ }
  told({ key });
}

// Whether what is written outlives the page.
export function lasting() {
  try {
    storage().setItem(`${START}?`, "");
    storage().removeItem(`${START}?`);
    return true;
  } catch {
    return false;
  }
}

export const thisPage = () => here().slice(book().length);

// All pages of this book: { page: { key: value } }.
export function everything() {
  const names = new Set(memory.keys());
  try {
    for (let n = 0; n < storage().length; n++) names.add(storage().key(n));
  } catch { /* memory alone */ }
  const found = {};
  for (const name of [...names].filter((one) => one.startsWith(START + book())).sort()) {
    const rest = name.slice((START + book()).length);
    const at = rest.indexOf(":");
    const [page, key] = [rest.slice(0, at), rest.slice(at + 1)];
    (found[page] ??= {})[key] = read(key, page);
  }
  return found;
}

// Forget what `page` has kept under keys that `which` accepts.
export function clear(page, which = () => true) {
  for (const key of Object.keys(everything()[page] ?? {}).filter(which)) forget(key, page);
}

// What the reader did on this page, kept in this browser only, under the page's own address.
const prefix = () => `kv:${location.pathname.replace(/index\.html$/, "")}:`;
const memory = new Map();     // where storage is refused (private windows, file://), the page still works until it is left

export function read(key) {
  try {
    const kept = localStorage.getItem(prefix() + key);
    return kept === null ? memory.get(key) : JSON.parse(kept);
  } catch {
    return memory.get(key);
  }
}

export function write(key, value) {
  memory.set(key, value);
  try {
    localStorage.setItem(prefix() + key, JSON.stringify(value));
  } catch { /* kept in memory above */ }
}

// Marks in the table of contents: how many exercises of a page are passed and how many of its prompts are answered.
import { make } from "../widgets/dom.mjs";
import { everything, read, write } from "../widgets/store.mjs";

const KEY = "progress";

// What can be done on this page, and what has been.
function count() {
  const checks = [...document.querySelectorAll("div.cell.kv-check")].map((cell) => cell.id.replace(/^cell-/, ""));
  const prompts = [...document.querySelectorAll('.kv-widget[data-widget="question"]')].map((place) => place.dataset.key);
  return {
    passed: checks.filter((id) => read(`passed:${id}`)).length, checks: checks.length,
    answered: prompts.filter((key) => read(key)?.answers?.length).length, prompts: prompts.length,
  };
}

function mark(link, { passed, checks, answered, prompts }) {
  link.querySelector(".kv-mark")?.remove();
  if (!passed && !answered) return;
  const parts = [[passed, checks, "✓", "exercises passed"], [answered, prompts, "?", "prompts answered"]].filter(([, all]) => all);
  link.append(make("span", { class: "kv-mark" },
    make("span", { "aria-hidden": "true", text: parts.map(([done, all, sign]) => `${sign} ${done}/${all}`).join("  ") }),
    make("span", { class: "kv-unseen", text: ` (${parts.map(([done, all, , words]) => `${done} of ${all} ${words}`).join(", ")})` })));
}

function draw() {
  const kept = everything();
  for (const link of document.querySelectorAll(".bd-links a.reference.internal")) {
    const page = new URL(link.href).pathname.slice(new URL("../../", import.meta.url).pathname.length);
    if (kept[page]?.[KEY]) mark(link, kept[page][KEY]);
    else link.querySelector(".kv-mark")?.remove();
  }
}

function renew() {
  const now = count();
  if (now.checks + now.prompts === 0) return;
  if (now.passed + now.answered === 0 && !read(KEY)) return;
  if (JSON.stringify(now) !== JSON.stringify(read(KEY))) write(KEY, now);
}

export function start() {
  renew();
  draw();
  document.addEventListener("kv-kept", ({ detail }) => {
    if (detail.key !== KEY) renew();
    draw();
  });
  addEventListener("storage", draw);     // another tab
}

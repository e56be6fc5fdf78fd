// What a static page does for paper: a form that nobody has answered and a simulator are of no use there, so their stills
// take their place; folds are opened; and the ground is white.
const pairs = new Map();
let after = [];

/** Remember the still that `live` has replaced on the screen. */
export function keep(live, still) { pairs.set(live, still); }

function toPaper() {
  for (const [live, still] of pairs) {
    if (!live.isConnected || !live.querySelector(".kv-form, .kv-lab")) continue;
    live.replaceWith(still);
    after.push(() => still.replaceWith(live));
  }
  for (const fold of document.querySelectorAll("details:not([open])")) {
    fold.open = true;
    after.push(() => { fold.open = false; });
  }
  for (const picture of document.querySelectorAll('img[loading="lazy"]')) picture.loading = "eager";
  const page = document.documentElement, theme = page.dataset.theme;
  if (theme === "dark") {
    page.dataset.theme = "light";
    after.push(() => { page.dataset.theme = theme; });
  }
}

function toScreen() {
  for (const undo of after.reverse()) undo();
  after = [];
}

addEventListener("beforeprint", toPaper);
addEventListener("afterprint", toScreen);

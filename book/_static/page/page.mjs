// What every page of the book starts: the reader's work and progress, and on lessons the cells that run.
import * as panel from "./panel.mjs";
import * as progress from "./progress.mjs";
import * as version from "./version.mjs";

panel.start();
version.start();
progress.start();
document.querySelectorAll(".btn-download-pdf-button").forEach((button) => button.addEventListener("click", () => print()));
// From a file there is no Python (workers and modules need a server), and no editor then.
if (location.protocol !== "file:" && document.querySelector("div.cell[id^=cell-]")) import("./cells.mjs").then(({ start }) => start());

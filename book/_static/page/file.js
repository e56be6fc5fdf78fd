// Browsers load no modules from file://. Here the one script that they do load says so and brings the rest as a classic script.
if (location.protocol === "file:") {
  const own = document.currentScript.src;
  addEventListener("DOMContentLoaded", () => {
    document.documentElement.classList.add("kv-file");
    if (document.querySelector("div.cell[id^=cell-]")) {
      const note = document.createElement("p");
      note.className = "kv-offer";
      note.textContent = "You opened this page as a file. Its Python cells need a server: `make serve`, or any plain file server, on the folder of these pages. Everything else works.";
      document.querySelector("article")?.prepend(note);
    }
    document.head.append(Object.assign(document.createElement("script"), { src: new URL("../widgets/classic.js", own).href }));
  });
}

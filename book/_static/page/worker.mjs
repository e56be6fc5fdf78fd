// Python, in a worker of its own: an endless loop stops nothing but itself, and `terminate` ends it.
//
// takes  { id, kind: "run", name, source, predictions } and { id, kind: "kept", key, kept }
// gives  { kind: "loading", part } and { kind: "ready" }; for a run { id, kind: "text" | "html", words }; for both { id, kind: "ended", result };
//        { kind: "fatal", words } when this Python is of no more use
import { loadPyodide } from "../pyodide/pyodide.mjs";
import bytes from "../pyodide/bytes.mjs";

const FILES = new URL("../pyodide/", import.meta.url);
let running = null;

// Counts what arrives while Python loads, since that is what a reader on a slow line waits for.
function counting(fetch) {
  let arrived = 0, told = 0;
  return async (...request) => {
    const answer = await fetch(...request);
    if (!answer.ok || !answer.body) return answer;
    const counter = new TransformStream({
      transform(chunk, stream) {
        stream.enqueue(chunk);
        arrived += chunk.byteLength;
        const part = Math.min(1, Math.floor(20 * arrived / bytes) / 20);     // in steps of a twentieth
        if (part > told) postMessage({ kind: "loading", part: told = part });
      },
    });
    return new Response(answer.body.pipeThrough(counter), { headers: { "Content-Type": answer.headers.get("Content-Type") ?? "" } });
  };
}

async function start() {
  const fetch = self.fetch;
  self.fetch = counting(fetch.bind(self));
  const python = await loadPyodide({ indexURL: FILES.href, packageBaseUrl: FILES.href });
  const course = await (await self.fetch(new URL("course.zip", FILES))).arrayBuffer();
  self.fetch = fetch;
  python.unpackArchive(course, "zip", { extractDir: "/course" });
  python.runPython("import sys; sys.path.append('/course')");
  const page = python.pyimport("autograder.page").Page((kind, words) => postMessage({ id: running, kind, words }));
  page.begin();
  postMessage({ kind: "ready" });
  return { python, page };
}

const started = start();
started.catch((error) => postMessage({ kind: "fatal", words: String(error) }));

self.onmessage = async ({ data }) => {
  const { python, page } = await started;
  running = data.id;
  try {
    // Where autograder.prompts looks for what was predicted.
    if (data.predictions) python.FS.writeFile("predictions.json", JSON.stringify(data.predictions));
    const result = data.kind === "kept" ? page.kept(data.key, data.kept) : page.run(data.name, data.source);
    postMessage({ id: data.id, kind: "ended", result: JSON.parse(result) });
  } catch (error) {
    if (data.kind === "kept" && error?.type) postMessage({ id: data.id, kind: "ended", result: null });
    else postMessage({ kind: "fatal", words: String(error) });     // the interpreter itself has failed
  }
};

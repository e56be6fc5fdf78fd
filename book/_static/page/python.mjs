// The page's one Python: started on first use, one job at a time, every answer matched to its question by number.
let worker = null, question = null, count = 0, jobs = Promise.resolve(), generation = 0;
const listeners = new Set();

export class Stopped extends Error {}

// Hears { kind: "loading", part }, { kind: "ready" } and { kind: "gone" }.
export function listen(listener) { listeners.add(listener); }

const tell = (news) => listeners.forEach((listener) => listener(news));

// Start Python if it is not there; whoever is about to need it may say so early.
export function begin() {
  if (worker) return;
  worker = bound();
  worker.onmessage = ({ data }) => hear(data);
  worker.onerror = (event) => end(new Error(event.message || "it could not be loaded"));
  tell({ kind: "loading", part: 0 });
}

// A worker that is loaded from an address has the policy that its server sends with it, and a plain file server sends
// none: the reader's Python could ask any host. One whose first lines are the page's own is bound by the page's policy.
function bound() {
  const lines = `
    const early = [];
    self.onmessage = (event) => early.push(event);     // until the rest is there
    import(${JSON.stringify(new URL("./worker.mjs", import.meta.url).href)}).then(
      () => early.forEach((event) => self.onmessage(event)),
      () => postMessage({ kind: "fatal", words: "it could not be loaded" }),
    );`;
  const address = URL.createObjectURL(new Blob([lines], { type: "text/javascript" }));
  setTimeout(() => URL.revokeObjectURL(address), 60_000);     // long after the browser has read it
  return new Worker(address, { type: "module" });
}

function hear(message) {
  if (message.kind === "loading" || message.kind === "ready") return tell(message);
  if (message.kind === "fatal") return end(new Error(message.words));
  if (!question || message.id !== question.id) return undefined;     // an answer to nothing that is being asked
  if (message.kind === "ended") {
    const { answered } = question;
    question = null;
    return answered(message.result);
  }
  return question.heard(message);
}

function end(error) {
  worker?.terminate();
  worker = null;
  generation += 1;
  jobs = Promise.resolve();
  const asked = question;
  question = null;
  asked?.failed(error);
  tell({ kind: "gone" });
}

function put(mine, message, heard) {
  if (mine !== generation) return Promise.reject(new Stopped());
  begin();
  const id = ++count;
  return new Promise((answered, failed) => {
    question = { id, heard, answered, failed };
    worker.postMessage({ ...message, id });
  });
}

// Run `job(ask)` when all jobs before it are done; a stop ends the one that runs and those that wait.
// ask(message, heard) asks Python one thing; heard(message) gets what it shows meanwhile.
export function turn(job) {
  const mine = generation;
  const result = jobs.then(() => {
    if (mine !== generation) throw new Stopped();
    return job((message, heard = () => {}) => put(mine, message, heard));
  });
  jobs = result.catch(() => {});
  return result;
}

export function stop() { end(new Stopped()); }

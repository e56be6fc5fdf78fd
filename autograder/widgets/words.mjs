// What a step did, in one line of plain English; for a state, what its picture shows.
import { blocksNeeded, changes, layout } from "./model.mjs";

export const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

export function list(numbers, most = 8) {
  const shown = numbers.slice(0, most).map((n) => `#${n}`), more = numbers.length - most;
  return more > 0 ? `${shown.join(", ")} and ${more.toLocaleString("en")} more` : shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

const quoted = (value) => (typeof value === "string" ? `"${value}"` : String(value));

export const call = ([verb, ...args]) => (verb === "new" ? "a new pool" : `${verb}(${args.map(quoted).join(", ")})`);

// In a transcript from Python True and False are 1 and 0.
export function result({ op, value, error, message }) {
  if (error) return `raised ${error}${message ? ` (${message})` : ""}`;
  const answer = op[0] === "append" && (value === 0 || value === 1) ? Boolean(value) : value;
  return `returned ${answer === null ? "None" : answer === true ? "True" : answer === false ? "False" : answer?.shown ?? answer}`;
}

const answered = (step) => (step.op[0] === "append" || step.error || step.value !== null ? ` ${result(step)}.` : ":");

// Why a right manager does what it does; `before` is the state that the operation found.
export function explain(step, before, blockSize) {
  const [verb, name, more] = step.op;
  if (verb === "new") return `A new pool: ${plural(step.state.free.length, "block")} of ${plural(blockSize, "slot")}, all free.`;
  const change = changes(before, step.state);
  if (step.error) return `${call(step.op)}${answered(step)} ${refusal(step, before, blockSize)} Nothing has changed.`;
  const told = { allocate: () => allocated(change, more, blockSize), fork: () => forked(name, more, step.state), append: () => appended(name, change, before, blockSize), release: () => released(name, change, before), _take: () => `#${step.value} is taken by hand.` };
  return `${call(step.op)}${answered(step)} ${told[verb]()}`;
}

function refusal({ error, op: [verb, name, tokens] }, before, blockSize) {
  if (error === "KeyError") return "There is no such sequence.";
  if (verb !== "allocate") return "It needs a block and none is free.";
  return `${plural(tokens, "token")} need ${plural(blocksNeeded(tokens, blockSize), "block")}, ${before.free.length} ${before.free.length === 1 ? "is" : "are"} free.`;
}

function allocated({ taken }, tokens, blockSize) {
  const slack = taken.length * blockSize - tokens;
  return taken.length ? `${plural(tokens, "token")} took ${list(taken)}; ${plural(slack, "slot")} of slack.` : "No token, so no block yet.";
}

function forked(parent, child, state) {
  const blocks = state.seqs.find(([name]) => name === child)[1];
  if (!blocks.length) return `${child} is as empty as ${parent}.`;
  return `${child}'s table lists ${parent}'s ${plural(blocks.length, "block")}: each count rose by 1. Nothing was taken, nothing copied.`;
}

function appended(name, { taken, copied, counts }, before, blockSize) {
  const [, blocks, len] = before.seqs.find((seq) => seq[0] === name);
  if (copied) {
    const count = counts.find(([block]) => block === copied[0]);
    return `#${copied[0]} was shared (×${count[1]}): ${name} took #${copied[1]}, ${plural(len % blockSize, "token")} were copied into it, and #${copied[0]} is down to ×${count[2]}.`;
  }
  if (taken.length) return `${len ? `All ${plural(blocks.length, "block")} were full` : "It had no block"}, so ${name} took ${list(taken)}.`;
  return `The token went into #${blocks.at(-1)}, ${name}'s own: now ${(len % blockSize) + 1} of ${blockSize} slots hold one.`;
}

function released(name, { freed, counts }, before) {
  const kept = counts.filter(([, , count]) => count > 0).map(([block]) => block);
  if (!before.seqs.find((seq) => seq[0] === name)[1].length) return `${name} had no block.`;
  const parts = [freed.length ? `${list(freed)} ${freed.length === 1 ? "is" : "are"} free again` : "No block became free"];
  if (kept.length) parts.push(`${list(kept)} ${kept.length === 1 ? "stays: its count" : "stay: their counts"} fell by 1`);
  return `${parts.join("; ")}.`;
}

// What a manager of the reader's did, without any word on whether it is right.
export function report(step, before) {
  if (step.op[0] === "new") return "A new manager.";
  const { counts, taken, freed, names, gone } = changes(before, step.state);
  const table = (name) => { const [, blocks, len] = step.state.seqs.find((seq) => seq[0] === name); return `${name} has [${blocks.slice(0, 8).join(", ")}${blocks.length > 8 ? ", …" : ""}] and ${plural(len, "token")}`; };
  const moved = counts.filter(([, was, is]) => was && is).slice(0, 6).map(([block, was, is]) => `#${block} ×${was} → ×${is}`);
  const parts = [taken.length && `taken: ${list(taken)}`, freed.length && `free again: ${list(freed)}`, moved.length && moved.join(", "), ...names.slice(0, 3).map(table), gone.length && `gone: ${gone.join(", ")}`].filter(Boolean);
  return `${call(step.op)} ${result(step)}. ${parts.length ? `Now: ${parts.join("; ")}.` : "Nothing has changed."}`;
}

// The picture in words: how many blocks are in use, shared and free, then each block in use (of a small pool).
export function summary(blocks) {
  const of = (...kinds) => blocks.filter(({ kind }) => kinds.includes(kind)).length;
  const used = of("owned", "shared", "torn"), shared = of("shared");
  return `${used} of ${plural(blocks.length, "block")} in use, ${shared ? `${shared} of them shared, ` : ""}${of("free")} free`;
}

export function spoken(blocks, most = 24) {
  const used = blocks.filter(({ kind }) => kind !== "free"), told = used.slice(0, most).map(one);
  return `${summary(blocks)}${told.length ? `: ${told.join("; ")}` : ""}${used.length > most ? `; and ${used.length - most} more` : ""}.`;
}

function one({ number, kind, owners, count, filled }) {
  if (kind === "lost") return `#${number} in no list and no table`;
  const who = owners.length > 6 ? plural(owners.length, "sequence") : owners.join(", ") || "nobody";
  const alarm = kind === "torn" ? `, count ${count} but ${plural(owners.length, "table entry").replace("entrys", "entries")}` : "";
  return `#${number} ${kind === "shared" ? `shared by ${who}, ×${count}` : who}${alarm}, ${plural(filled, "token")}`;
}

export const picture = (state, numBlocks, blockSize) => spoken(layout(state, numBlocks, blockSize));

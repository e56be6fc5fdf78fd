// What the simulators know about memory: a pool of blocks, a contiguous pool, prefix sums. Plain data in and out; nothing is drawn here.
//
// A state is { free, ref, seqs, problem }: free block numbers ascending; [block, count] pairs ascending; [name, blocks, length]
// in the order of their making. Python's `State.to_json` has `free` as runs, and counts beside their blocks instead of in pairs:
// `unpack` and `pack` go between the two.

export const blocksNeeded = (tokens, blockSize) => Math.ceil(tokens / blockSize);

const done = (value = null) => ({ value, error: null });
const refused = (error) => ({ value: null, error });

// The block manager of the contract. Errors are results, and whatever is refused has changed nothing.
export class BlockPool {
  constructor(numBlocks, blockSize) {
    Object.assign(this, { numBlocks, blockSize, free: Array.from({ length: numBlocks }, (_, n) => n), ref: new Map(), seqs: new Map() });
  }

  static of(state, numBlocks, blockSize) {
    const seqs = new Map(state.seqs.map(([name, blocks, len]) => [name, { blocks: [...blocks], len }]));
    return Object.assign(new BlockPool(0, blockSize), { numBlocks, free: [...state.free], ref: new Map(state.ref), seqs });
  }

  apply([verb, ...args]) {
    if (verb === "new") return done();
    if (verb === "_take") return this.free.length ? done(this.#take()) : refused("MemoryError");
    return this[verb](...args);
  }

  #take() {
    const block = this.free.shift();
    this.ref.set(block, 1);
    return block;
  }

  allocate(name, tokens) {
    const need = blocksNeeded(tokens, this.blockSize);
    if (need > this.free.length) return refused("MemoryError");
    this.seqs.set(name, { blocks: Array.from({ length: need }, () => this.#take()), len: tokens });
    return done();
  }

  fork(parent, child) {
    const source = this.seqs.get(parent);
    if (!source) return refused("KeyError");
    for (const block of source.blocks) this.ref.set(block, this.ref.get(block) + 1);
    this.seqs.set(child, { blocks: [...source.blocks], len: source.len });
    return done();
  }

  append(name) {
    const seq = this.seqs.get(name);
    if (!seq) return refused("KeyError");
    const boundary = seq.len % this.blockSize === 0;
    const last = seq.blocks.at(-1);
    const copies = !boundary && this.ref.get(last) > 1;
    if ((boundary || copies) && !this.free.length) return refused("MemoryError");
    if (boundary) seq.blocks.push(this.#take());
    if (copies) {
      seq.blocks[seq.blocks.length - 1] = this.#take();
      this.ref.set(last, this.ref.get(last) - 1);
    }
    seq.len += 1;
    return done(copies);
  }

  release(name) {
    const seq = this.seqs.get(name);
    if (!seq) return refused("KeyError");
    this.seqs.delete(name);
    for (const block of seq.blocks) this.#giveBack(block);
    this.free.sort((a, b) => a - b);
    return done();
  }

  #giveBack(block) {
    const count = this.ref.get(block) - 1;
    if (count) return void this.ref.set(block, count);
    this.ref.delete(block);
    this.free.push(block);
  }

  used() { return this.numBlocks - this.free.length; }

  state() {
    const ref = [...this.ref].sort(([a], [b]) => a - b);
    return { free: [...this.free], ref, seqs: [...this.seqs].map(([name, { blocks, len }]) => [name, [...blocks], len]), problem: null };
  }
}

// A history of operations as steps { op, value, error, state }; step 0 is the new pool.
export function play(numBlocks, blockSize, ops) {
  const pool = new BlockPool(numBlocks, blockSize);
  return [["new"], ...ops].map((op) => ({ op, ...pool.apply(op), state: pool.state() }));
}

export const next = (step, op, numBlocks, blockSize) => {
  const pool = BlockPool.of(step.state, numBlocks, blockSize);
  return { op, ...pool.apply(op), state: pool.state() };
};

export function unpack([runs, counted, counts, seqs, problem]) {
  const free = runs.flatMap(([low, high]) => Array.from({ length: high - low + 1 }, (_, n) => low + n));
  return { free, ref: counted.map((block, n) => [block, counts[n]]), seqs, problem };
}

export function pack({ free, ref, seqs, problem }) {
  const runs = [];
  for (const block of free) {
    if (runs.length && block === runs.at(-1)[1] + 1) runs.at(-1)[1] = block;
    else runs.push([block, block]);
  }
  return [runs, ref.map(([block]) => block), ref.map(([, count]) => count), seqs, problem];
}

// --- what a picture of a state shows ---

// One entry per block: { number, kind, owners, count, filled }; kind is free, owned, shared, lost (nobody knows it) or torn (records disagree).
// None at all for a state that could not be read.
export function layout(state, numBlocks, blockSize) {
  if (state.problem) return [];
  const free = new Set(state.free), counts = new Map(state.ref), pointed = pointers(state.seqs);
  return Array.from({ length: numBlocks }, (_, number) => {
    const entries = pointed.get(number) ?? [], count = counts.get(number) ?? 0;
    const filled = Math.max(0, ...entries.map(({ index, len }) => Math.min(blockSize, len - index * blockSize)));
    return { number, kind: kindOf(free.has(number), count, entries.length), owners: entries.map(({ name }) => name), count, filled };
  });
}

function pointers(seqs) {
  const pointed = new Map();
  for (const [name, blocks, len] of seqs) {
    blocks.forEach((number, index) => pointed.set(number, [...(pointed.get(number) ?? []), { name, index, len }]));
  }
  return pointed;
}

function kindOf(free, count, entries) {
  if (!free && !count && !entries) return "lost";
  if (count !== entries || free === entries > 0) return "torn";
  return free ? "free" : entries === 1 ? "owned" : "shared";
}

// What one step changed: blocks taken and given back, counts as [block, before, after], the copy as [from, to], names whose table or length moved.
export function changes(before, after) {
  const was = new Map(before.ref), is = new Map(after.ref), table = new Map(before.seqs.map((seq) => [seq[0], seq]));
  const wasFree = new Set(before.free), isFree = new Set(after.free), live = new Set(after.seqs.map(([name]) => name));
  const counts = [...new Set([...was.keys(), ...is.keys()])].filter((b) => was.get(b) !== is.get(b)).map((b) => [b, was.get(b) ?? 0, is.get(b) ?? 0]);
  const moved = after.seqs.filter(([name, blocks, len]) => {
    const old = table.get(name);
    return !old || old[2] !== len || String(old[1]) !== String(blocks);
  });
  return {
    counts: counts.sort(([a], [b]) => a - b),
    taken: before.free.filter((b) => !isFree.has(b)),
    freed: after.free.filter((b) => !wasFree.has(b)),
    copied: moved.map(([name, blocks]) => copyIn(table.get(name)?.[1], blocks)).find(Boolean) ?? null,
    names: moved.map(([name]) => name),
    gone: [...table.keys()].filter((name) => !live.has(name)),
  };
}

function copyIn(old, now) {
  if (!old || old.length !== now.length) return null;
  const at = old.findIndex((block, index) => block !== now[index]);
  return at < 0 ? null : [old[at], now[at]];
}

const HUES = 7;     // owners after the seventh are told apart by their letter alone

// Every sequence name's letter and hue (0 … 6, or null): A to G keep their own, so that releasing A does not recolour B.
export function marks(names) {
  const found = new Map([...new Set(names)].filter((n) => /^[A-G]$/.test(n)).map((n) => [n, { letter: n, hue: n.charCodeAt(0) - 65 }]));
  const held = new Set([...found.values()].map(({ hue }) => hue));
  const hues = Array.from({ length: HUES }, (_, n) => n).filter((n) => !held.has(n));
  const letters = new Set(found.keys());
  for (const name of names) {
    if (found.has(name)) continue;
    const letter = letterFor(name, letters);
    letters.add(letter);
    found.set(name, { letter, hue: hues.shift() ?? null });
  }
  return found;
}

function letterFor(name, taken) {
  const first = ([...name][0] ?? "").toUpperCase();
  const wanted = [/^[A-Za-z0-9]{1,2}$/.test(name) ? name : null, /^[A-Za-z0-9]+$/.test(first) ? first : null];
  for (let code = 65; code <= 90; code += 1) wanted.push(String.fromCharCode(code));
  for (let n = 1; n <= taken.size + 1; n += 1) wanted.push(String(n));
  return wanted.find((letter) => letter !== null && !taken.has(letter));
}

// --- prefix sums ---

// Requests with the same prefix and equally many tokens of their own: blocks with and without sharing the prefix's full blocks.
export function prefixSums({ prefix, requests, own, block }) {
  const full = Math.floor(prefix / block), total = prefix + own;
  const each = blocksNeeded(total, block), rest = total - full * block, eachRest = blocksNeeded(rest, block);
  const without = requests * each, withSharing = full + requests * eachRest;
  return { full, tail: prefix - full * block, total, each, rest, eachRest, without, withSharing, saved: without - withSharing };
}

// --- an arrival stream into two pools ---

export const KINDS = ["tokens", "reserved", "internal", "external", "free"];

export function countSlots(spans) {
  const counts = Object.fromEntries(KINDS.map((kind) => [kind, 0]));
  for (const { kind, length } of spans) counts[kind] += length;
  return counts;
}

// Every request gets one stretch of `longest` slots, at the lowest start where it fits (first fit).
export class ContiguousPool {
  constructor(slots, longest) { Object.assign(this, { slots, longest, stretches: [] }); }

  holes() {
    const ends = [0, ...this.stretches.map(({ start }) => start + this.longest)];
    const starts = [...this.stretches.map(({ start }) => start), this.slots];
    return ends.map((start, n) => ({ start, length: starts[n] - start })).filter(({ length }) => length > 0);
  }

  admit(request) {
    const hole = this.holes().find(({ length }) => length >= this.longest);
    if (!hole) return null;
    this.stretches.push({ request, start: hole.start });
    this.stretches.sort((a, b) => a.start - b.start);
    return `slots ${hole.start} to ${hole.start + this.longest - 1}`;
  }

  grow(request, tokens) { request.now += tokens; return true; }

  leave(request) { this.stretches = this.stretches.filter((stretch) => stretch.request !== request); }

  why() { return `it reserves ${this.longest} slots and the longest hole has ${Math.max(0, ...this.holes().map(({ length }) => length))}`; }

  spans() {
    const held = this.stretches.flatMap(({ request: { name, now, done: end }, start }) => [
      { start, length: now, kind: "tokens", owner: name },
      { start: start + now, length: end - now, kind: "reserved", owner: name },
      { start: start + end, length: this.longest - end, kind: "internal", owner: name },
    ]);
    const free = this.holes().map((hole) => ({ ...hole, kind: hole.length < this.longest ? "external" : "free", owner: null }));
    return [...held, ...free].filter(({ length }) => length > 0).sort((a, b) => a.start - b.start);
  }
}

// The same slots as blocks that are taken when a token needs one.
export class PagedPool {
  constructor(slots, block) {
    this.block = block;
    this.pool = new BlockPool(Math.floor(slots / block), block);
  }

  admit({ name, now }) {
    if (this.pool.allocate(name, now).error) return null;
    const { blocks } = this.pool.seqs.get(name);
    return `block${blocks.length === 1 ? "" : "s"} ${blocks.join(", ")}`;
  }

  grow(request, tokens) {
    for (let n = 0; n < tokens; n += 1) {
      if (this.pool.append(request.name).error) return false;
      request.now += 1;
    }
    return true;
  }

  leave({ name }) { this.pool.release(name); }

  why(request) {
    const need = blocksNeeded(request.now, this.block), free = this.pool.free.length;
    return `it needs ${need} block${need === 1 ? "" : "s"} and ${free} ${free === 1 ? "is" : "are"} free`;
  }

  spans() {
    const spans = [];
    for (const { number, kind, owners, filled } of layout(this.pool.state(), this.pool.numBlocks, this.block)) {
      const start = number * this.block;
      if (kind === "free") { spans.push({ start, length: this.block, kind, owner: null }); continue; }
      spans.push({ start, length: filled, kind: "tokens", owner: owners[0] });
      if (filled < this.block) spans.push({ start: start + filled, length: this.block - filled, kind: "internal", owner: owners[0] });
    }
    return spans;
  }
}

// One pool with its queue, first come first served: who does not fit waits, and so does everybody behind.
class Server {
  constructor(pool) { Object.assign(this, { pool, running: [], waiting: [], said: [] }); }

  arrive(request) { this.waiting.push({ ...request }); this.enter(); this.tellWaiting(); }

  enter() {
    while (this.waiting.length) {
      const got = this.pool.admit(this.waiting[0]);
      if (got === null) return;
      const request = this.waiting.shift();
      this.running.push(request);
      this.said.push(`${request.name} comes in and gets ${got}.`);
    }
  }

  // A block is needed and none is free: who came in last gives its blocks back, waits in front, and is computed again later.
  preempt() {
    const last = this.running.pop();
    this.pool.leave(last);
    this.waiting.unshift(last);
    this.said.push(`No block is free: ${last.name} is preempted and waits, to be recomputed.`);
    return last;
  }

  grow(tokens) {
    for (const request of [...this.running]) {
      const goal = Math.min(request.done, request.now + tokens);
      while (this.running.includes(request) && request.now < goal && !this.pool.grow(request, goal - request.now)) {
        if (this.running.length === 1) break;     // nobody else could make room
        this.preempt();
      }
    }
    for (const request of this.running.filter(({ now, done: end }) => now >= end)) this.leave(request.name, "is done and leaves");
    this.enter();
    this.tellWaiting();
  }

  leave(name, how = "leaves early") {
    const request = this.running.find((running) => running.name === name);
    if (request) this.pool.leave(request);
    this.running = this.running.filter((running) => running !== request);
    this.waiting = this.waiting.filter((waiting) => waiting.name !== name);
    this.said.push(`${name} ${how}.`);
  }

  goes(name) { this.leave(name); this.enter(); this.tellWaiting(); }

  tellWaiting() {
    const [first] = this.waiting;
    if (first) this.said.push(`${first.name} waits: ${this.pool.why(first)}.`);
  }

  moment() {
    const spans = this.pool.spans();
    const said = this.said.splice(0);
    return { spans, counts: countSlots(spans), running: this.running.map(({ name }) => name), waiting: this.waiting.map(({ name }) => name), said };
  }
}

// events: ["arrive", name, tokens now, tokens when done], ["grow", tokens], ["leave", name]. One moment per event, and one before the first.
export function arrivals({ slots, longest, block, events }) {
  const servers = { contiguous: new Server(new ContiguousPool(slots, longest)), paged: new Server(new PagedPool(slots, block)) };
  const moment = (event) => ({ event, contiguous: servers.contiguous.moment(), paged: servers.paged.moment() });
  return [moment(null), ...events.map((event) => {
    const [verb, name, now, end] = event;
    for (const server of Object.values(servers)) {
      if (verb === "arrive") server.arrive({ name, now, done: end });
      else if (verb === "grow") server.grow(name);
      else server.goes(name);
    }
    return moment(event);
  })];
}

// --- a beam search over a pool ---

// steps: { fork: [[parent, child], …], release: [name, …] }, then every live beam appends one token. The operations of each step, in
// order: releases first, so that a child may be called what a lost beam was.
export function beamOps(prompt, steps) {
  let live = ["A"];
  return [[["allocate", "A", prompt]], ...steps.map(({ fork, release }) => {
    live = [...live.filter((name) => !release.includes(name)), ...fork.map(([, child]) => child)];
    return [...release.map((name) => ["release", name]), ...fork.map((pair) => ["fork", ...pair]), ...live.map((name) => ["append", name])];
  })];
}

// A made-up search: at every step each of `width` places goes to one of the live beams, by a small generator that the seed starts.
// A child takes the lowest letter that nobody has.
export function madeUpBeams(width, length, seed) {
  let random = seed >>> 0 || 1, live = ["A"];
  const pick = (n) => { random = (Math.imul(random, 1664525) + 1013904223) >>> 0; return Math.floor((random / 2 ** 32) * n); };
  const child = () => { const name = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"].find((letter) => !live.includes(letter)); live.push(name); return name; };
  return Array.from({ length }, () => {
    const heirs = Array.from({ length: width }, () => live[pick(live.length)]);
    const release = live.filter((name) => !heirs.includes(name));
    live = live.filter((name) => !release.includes(name));
    return { fork: heirs.filter((name, n) => heirs.indexOf(name) !== n).map((parent) => [parent, child()]), release };
  });
}

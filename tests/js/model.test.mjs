// The simulators' model against numbers worked out by hand, engine traces, and histories that the Python reference has played.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { arrivals, beamOps, BlockPool, changes, ContiguousPool, countSlots, layout, madeUpBeams, marks, next, pack, play, prefixSums, unpack } from "../../autograder/widgets/model.mjs";

const last = (steps) => steps.at(-1);
const walk = [["allocate", "A", 20], ["fork", "A", "B"], ["append", "B"]];

test("the walk of lesson 03 copies the shared block and no other", () => {
  const step = last(play(10, 16, walk));
  assert.equal(step.value, true);
  assert.deepEqual(step.state.seqs, [["A", [0, 1], 20], ["B", [0, 2], 21]]);
  assert.deepEqual(step.state.ref, [[0, 2], [1, 1], [2, 1]]);
  assert.deepEqual(step.state.free, [3, 4, 5, 6, 7, 8, 9]);
});

test("20 tokens in blocks of 16 take a third block with the 13th more token", () => {
  const held = play(4, 16, [["allocate", "A", 20], ...Array(13).fill(["append", "A"])]).map(({ state }) => state.seqs[0]?.[1].length ?? 0);
  assert.deepEqual([held[1], held[13], held[14]], [2, 2, 3]);
});

test("what is refused changes nothing", () => {
  const before = [["allocate", "A", 5], ["fork", "A", "B"]];
  for (const [op, error] of [[["append", "B"], "MemoryError"], [["allocate", "C", 1], "MemoryError"], [["append", "X"], "KeyError"], [["fork", "X", "Y"], "KeyError"], [["release", "X"], "KeyError"]]) {
    const steps = play(2, 4, [...before, op]);
    assert.equal(last(steps).error, error);
    assert.deepEqual(last(steps).state, steps.at(-2).state);
  }
});

test("a sequence of no tokens holds no block until its first append", () => {
  const steps = play(2, 4, [["allocate", "A", 0], ["append", "A"]]);
  assert.deepEqual(steps[1].state.seqs, [["A", [], 0]]);
  assert.deepEqual(steps[2].state.seqs, [["A", [0], 1]]);
});

test("the lowest free block is handed out, also after a release", () => {
  const steps = play(6, 1, [["allocate", "A", 2], ["allocate", "B", 2], ["release", "A"], ["allocate", "C", 3]]);
  assert.deepEqual(last(steps).state.seqs, [["B", [2, 3], 2], ["C", [0, 1, 4], 3]]);
});

test("a step from a state is the step of the whole history", () => {
  const steps = play(10, 16, walk);
  assert.deepEqual(next(steps[2], walk[2], 10, 16), steps[3]);
});

test("states survive packing", () => {
  for (const { state } of play(10, 16, [...walk, ["release", "A"]])) assert.deepEqual(unpack(pack(state)), state);
});

test("the model agrees with 150 histories of vLLM's own block manager", () => {
  const traces = readFileSync(new URL("../data/vllm_v0_traces.jsonl", import.meta.url), "utf8").trim().split("\n").map(JSON.parse);
  assert.equal(traces.length, 150);
  for (const { num_blocks: blocks, block_size: size, ops, expect } of traces) {
    const pool = new BlockPool(blocks, size);
    ops.forEach((op, n) => assert.deepEqual(observed(pool, op), expect[n]));
  }
});

// Block numbers differ between engines, so tables are renamed by first appearance.
function observed(pool, op) {
  const { value, error } = pool.apply(op), state = pool.state(), renamed = new Map();
  const names = state.seqs.map(([name]) => name).sort();
  const table = (name) => state.seqs.find((seq) => seq[0] === name)[1];
  const structure = names.map((name) => [name, table(name).map((b) => renamed.get(b) ?? renamed.set(b, renamed.size).get(b))]);
  return [error ?? value, pool.used(), state.ref.map(([, count]) => count).sort((a, b) => a - b), Object.fromEntries(names.map((name) => [name, table(name).length])), Object.fromEntries(structure)];
}

test("the model agrees with the Python reference, state for state", { skip: !process.env.KV_HISTORIES && "run by pytest, which writes the histories" }, () => {
  const plays = JSON.parse(readFileSync(process.env.KV_HISTORIES, "utf8"));
  assert.ok(plays.length > 20);
  for (const { num_blocks: blocks, block_size: size, ops, steps } of plays) {
    const mine = play(blocks, size, ops);
    assert.equal(mine.length, steps.length);
    mine.forEach(({ value, error, state }, n) => assert.deepEqual([value, error, pack(state)], steps[n], `step ${n} of ${JSON.stringify(ops.slice(0, n))}`));
  }
});

test("letters and hues are those of the course's figures", { skip: !process.env.KV_MARKS && "run by pytest, which writes them" }, () => {
  const cases = JSON.parse(readFileSync(process.env.KV_MARKS, "utf8"));
  assert.ok(cases.length > 5);
  for (const [names, expected] of cases) assert.deepEqual([...marks(names)].map(([name, { letter, hue }]) => [name, letter, hue]).sort(), expected.sort());
});

test("blocks are drawn as the course's figures draw them", { skip: !process.env.KV_LAYOUTS && "run by pytest, which writes them" }, () => {
  const cases = JSON.parse(readFileSync(process.env.KV_LAYOUTS, "utf8"));
  assert.ok(cases.length > 5);
  for (const { state, num_blocks: blocks, block_size: size, expected } of cases) {
    assert.deepEqual(layout(unpack(state), blocks, size).map(({ number, kind, owners, count, filled }) => [number, kind, owners, count, filled]), expected);
  }
});

test("a change says what was copied, taken, counted and forgotten", () => {
  const steps = play(10, 16, [...walk, ["release", "A"]]);
  assert.deepEqual(changes(steps[2].state, steps[3].state), { counts: [[1, 2, 1], [2, 0, 1]], taken: [2], freed: [], copied: [1, 2], names: ["B"], gone: [] });
  assert.deepEqual(changes(steps[3].state, steps[4].state), { counts: [[0, 2, 1], [1, 1, 0]], taken: [], freed: [1], copied: null, names: [], gone: ["A"] });
});

test("three requests of 32 + 20 tokens take 12 blocks, or 8 with their prefix shared", () => {
  const sums = prefixSums({ prefix: 32, requests: 3, own: 20, block: 16 });
  assert.deepEqual([sums.without, sums.withSharing, sums.saved, sums.full, sums.each, sums.eachRest], [12, 8, 4, 2, 4, 2]);
});

test("of a 40-token prefix the 8 tokens behind the full blocks stay with each request", () => {
  const sums = prefixSums({ prefix: 40, requests: 3, own: 20, block: 16 });
  assert.deepEqual([sums.without, sums.withSharing, sums.saved, sums.tail], [12, 8, 4, 8]);
});

test("a single request saves nothing", () => assert.equal(prefixSums({ prefix: 40, requests: 1, own: 20, block: 16 }).saved, 0));

test("first fit takes the lowest hole that is long enough", () => {
  const pool = new ContiguousPool(10, 3), request = (name) => ({ name, now: 1, done: 2 });
  const [a, b, c] = ["a", "b", "c"].map(request);
  for (const each of [a, b, c]) pool.admit(each);
  pool.leave(b);
  pool.leave(a);
  assert.deepEqual(pool.holes(), [{ start: 0, length: 6 }, { start: 9, length: 1 }]);
  pool.admit(request("d"));
  assert.deepEqual(pool.stretches.map(({ request: { name }, start }) => [name, start]), [["d", 0], ["c", 6]]);
});

const lesson = { slots: 160, longest: 64, block: 16, events: [["arrive", "A", 20, 36], ["arrive", "B", 33, 60], ["arrive", "C", 40, 44], ["arrive", "D", 50, 58], ["leave", "A"]] };

test("the stream of lesson 01 wastes what the lesson says", () => {
  const moments = arrivals(lesson), four = moments[4], after = moments[5];
  assert.deepEqual(four.contiguous.counts, { tokens: 53, reserved: 43, internal: 32, external: 32, free: 0 });
  assert.deepEqual(four.paged.counts, { tokens: 93, reserved: 0, internal: 35, external: 0, free: 32 });
  assert.deepEqual([four.contiguous.running, four.contiguous.waiting], [["A", "B"], ["C", "D"]]);
  assert.deepEqual([four.paged.running, four.paged.waiting], [["A", "B", "C"], ["D"]]);
  assert.deepEqual([after.contiguous.counts.tokens, after.paged.counts.tokens, after.paged.counts.internal], [73, 123, 37]);
  assert.ok(after.paged.said.includes("D comes in and gets blocks 0, 1, 8, 9."));
});

test("the picture for readers without scripts shows the stream as it is", { skip: !process.env.KV_STILL && "run by pytest, which writes it" }, () => {
  const { stream, at, ...still } = JSON.parse(readFileSync(process.env.KV_STILL, "utf8")), moments = arrivals(stream);
  for (const side of ["contiguous", "paged"]) assert.deepEqual(moments[at][side].spans.map(({ start, length, kind, owner }) => [start, length, kind, owner]), still[side]);
  assert.deepEqual([last(moments).contiguous.counts.free, last(moments).paged.counts.free], [160, 160]);
});

test("every slot is counted once in every moment, and everybody is done in the end", () => {
  const moments = arrivals({ ...lesson, events: [...lesson.events, ...Array(40).fill(["grow", 4])] });
  for (const { contiguous, paged } of moments) {
    for (const { spans } of [contiguous, paged]) {
      let at = 0;
      for (const { start, length } of spans) { assert.equal(start, at); at += length; }
      assert.equal(at, 160);
    }
  }
  assert.deepEqual([last(moments).contiguous.counts.free, last(moments).paged.counts.free], [160, 160]);
});

test("a hole is external waste only if it is too short for a reservation", () => {
  const counts = (slots) => arrivals({ slots, longest: 64, block: 16, events: [["arrive", "A", 20, 36]] })[1].contiguous.counts;
  assert.deepEqual([counts(128).free, counts(128).external], [64, 0]);
  assert.deepEqual([counts(127).free, counts(127).external], [0, 63]);
});

test("when no block is left, who came last gives way and comes back", () => {
  const moments = arrivals({ slots: 32, longest: 24, block: 8, events: [["arrive", "A", 15, 24], ["arrive", "B", 14, 20], ...Array(8).fill(["grow", 3])] });
  const said = moments.flatMap(({ paged }) => paged.said).join(" ");
  assert.match(said, /No block is free: B is preempted.*A is done and leaves.*B comes in and gets blocks 0, 1.*B is done and leaves/);
});

test("a request that fits no pool stands still instead of looping", () => {
  const moments = arrivals({ slots: 16, longest: 16, block: 8, events: [["arrive", "A", 8, 24], ["grow", 40], ["grow", 40]] });
  assert.equal(last(moments).paged.counts.tokens, 16);
});

test("the beam search of lesson 03 copies six blocks", () => {
  const steps = [
    { fork: [["A", "B"], ["A", "C"]], release: [] }, { fork: [["A", "D"]], release: ["B"] }, { fork: [], release: [] },
    { fork: [["D", "E"], ["D", "F"]], release: ["A", "C"] }, { fork: [], release: [] }, { fork: [["F", "G"]], release: ["E"] },
  ];
  const played = play(12, 4, beamOps(6, steps).flat());
  assert.equal(played.filter(({ value }) => value === true).length, 6);
  assert.deepEqual(last(played).state.seqs.map(([name]) => name), ["D", "F", "G"]);
});

test("a made-up beam search keeps its width and its room, and the same seed makes the same tree", () => {
  assert.notDeepEqual(madeUpBeams(3, 8, 7), madeUpBeams(3, 8, 8));
  for (let seed = 1; seed <= 200; seed += 1) {
    const width = 2 + (seed % 4), steps = madeUpBeams(width, 8, seed), played = play(24, 4, beamOps(6, steps).flat());
    assert.deepEqual(steps, madeUpBeams(width, 8, seed));
    for (const { state, error } of played) assert.ok(!error && state.seqs.length <= width);
    assert.equal(last(played).state.seqs.length, width);
    assert.ok(last(played).state.seqs.every(([, , len]) => len === 6 + 8));
  }
});

test("slots are counted by kind", () => assert.deepEqual(countSlots([{ kind: "tokens", length: 3 }, { kind: "tokens", length: 2 }, { kind: "free", length: 1 }]), { tokens: 5, reserved: 0, internal: 0, external: 0, free: 1 }));

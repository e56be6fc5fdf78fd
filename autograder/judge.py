"""Promises against a transcript: a verdict for each. Works on plain data alone and never sees the learner's object."""

from __future__ import annotations

import random
from dataclasses import replace

from autograder.drive import Calls, Rows, Transcript
from autograder.exercises import Exercise
from autograder.histories import Play
from autograder.promises.base import Broken, Promise
from autograder.promises.functions import Case
from autograder.promises.manager import EVERY_ROW, HOW, Step
from autograder.record import Outcome, State, show
from autograder.verdict import Breach, PromiseVerdict, Verdict

UNWRITTEN = "NotImplementedError"
SEPARATE = "managers-are-separate"
EVIDENCE = 200  # broken steps kept for naming the mistake
HELD = 200  # first and last held steps of a verb, to see where a mistake was not made
HEAVY = 400  # numbers; calls with more in their arguments are judged, and tell nothing new of the mistake


# ---- managers --------------------------------------------------------------------------------------------------


def call_text(op: tuple, who: str = "m") -> str:
    """An operation as the learner would write it."""
    verb, *args = op
    if verb == "twin":
        return 'other = BlockManager(…); other.allocate("z", 1)'
    return f"{who}.{verb}({', '.join(show(a) for a in args)})"


def history_text(play: Play, row: int) -> list[str]:
    """The calls that lead to a row. Where there are two managers the second is called `other`."""
    lines = [f"m = BlockManager({play.num_blocks}, {play.block_size})"]
    for r in play.path(row):
        op, who = play.ops[r], "other" if play.roots[r] else "m"
        if op[0] == "new":
            lines.append(f"other = BlockManager({', '.join(map(str, play.shape(r)))})")
        else:
            lines += _lines(op, who)
    return lines


def _lines(op: tuple, who: str) -> list[str]:
    """One operation as lines; of a burst the first calls and the last."""
    calls = op[1] if op[0] == "burst" else (op,)
    texts = [call_text(call, who) for call in calls[:6]]
    if len(calls) <= 7:
        return [*texts, *(call_text(call, who) for call in calls[6:])]
    return [*texts, f"…  {len(calls) - 7} more calls like these", call_text(calls[-1], who)]


def _step(play: Play, row: int, rows: Rows) -> Step:
    outcome, used, state = rows.rows[row]
    parent = play.parents[row]
    before = None if parent is None else rows.states[rows.rows[parent][2]]
    return Step(*play.shape(row), play.ops[row], rows.outcomes[outcome], rows.outcomes[used], before, rows.states[state])


KNOWN = ("MemoryError", "KeyError", UNWRITTEN, "changed")


def _raised(step: Step, id: str, history: list[str]) -> str:
    """What raised, if it is no exception that the contract knows."""
    if id == "used-counts-once":
        outcome, call = step.used, "m.used()"
    else:
        at = len(step.answers) if step.verb == "burst" else 0
        outcome, call = step.outcome, call_text(step.op[1][at]) if step.verb == "burst" and at < len(step.op[1]) else history[-1].removeprefix("m = ")
    return f"{call} raises {outcome.exception}" if outcome.error and outcome.error not in KNOWN else ""


class _ManagerJudge:
    def __init__(self, exercise: Exercise):
        self.exercise = exercise
        self.breaches: dict[str, Breach] = {}
        self.held_on: dict[str, set[str]] = {p.id: set() for p, _ in exercise.graded()}
        self.stubs: dict[str, list[tuple]] = {}  # operation → where it raised NotImplementedError
        self.seen: set[str] = set()
        self.evidence: list[Step] = []
        self._memo: dict[tuple, tuple | bool] = {}
        self._concerned: dict[tuple[str, str], list[Promise]] = {
            (verb, how): [p for p, _ in exercise.graded() if verb in p.verbs and how in p.when] for verb in EVERY_ROW for how in HOW
        }
        self._noted: set[tuple] = set()
        self._sound: list[tuple] = []  # where steps held, each once

    def play(self, play: Play, rows: Rows) -> None:
        """Rows behind a broken or unwritten one are left out: their state before is already wrong."""
        spoilt: set[int] = set()
        self._memo.clear()
        for row, (outcome, used, state) in enumerate(rows.rows):
            parent = play.parents[row]
            if parent in spoilt:
                spoilt.add(row)
                continue
            before = None if parent is None else rows.rows[parent][2]
            key = (play.ops[row], outcome, used, before, state, play.second and play.roots[row])
            verb = play.ops[row][0]
            if rows.outcomes[outcome].error == UNWRITTEN:
                stub = _step(play, row, rows)
                self.stubs.setdefault(stub.op[1][len(stub.answers)][0] if verb == "burst" and len(stub.answers) < len(stub.op[1]) else verb, []).append((play, row, rows))
                spoilt.add(row)
                continue
            if rows.outcomes[used].error == UNWRITTEN:
                self.stubs.setdefault("used", []).append((play, row, rows))
            results = self._memo.get(key)
            if results is True:
                continue  # judged before, in another history, and in order
            if results is None:
                step = _step(play, row, rows)
                results = self._memo[key] = self._judge(step)
                if not play.second:
                    self._keep(step, results[1])
            if not self._note(results, play, row, rows):
                spoilt.add(row)
            elif not results[1]:
                self._memo[key] = True
                self._sound.append((play, row, rows))

    def _keep(self, step: Step, broken: list[tuple[Promise, Broken]]) -> None:
        """A step that broke a promise is evidence of a mistake."""
        if broken and step.verb != "burst" and len(self.evidence) < EVIDENCE:
            self.evidence.append(replace(step, broken=frozenset(promise.id for promise, _ in broken)))

    def _judge(self, step: Step, stub: bool = True) -> tuple[tuple[str, ...], list[tuple[Promise, Broken]]]:
        """The promises that held in this step, by id, and those that broke. stub: an unwritten `used` is not judged."""
        if step.after.problem is not None and "readable" in self.exercise.weights:
            promise = self.exercise.promises["readable"]
            if step.verb == "new" and step.outcome.error:
                promise = self.exercise.promises["succeeds"]    # what was not made cannot be read
            return (), [(promise, promise.test(step))]
        held, broken = [], []
        for promise in self._concerned[step.verb, step.how]:
            if promise.id == "used-counts-once" and stub and step.used.error == UNWRITTEN:
                continue
            result = promise.test(step)
            if result is True:
                held.append(promise.id)
            elif result is not None:
                broken.append((promise, result))
        return tuple(held), broken

    def held(self) -> list[Step]:
        """Steps that held, of the verbs in which something broke: the first and the last of each."""
        places: dict[str, list[tuple]] = {step.verb: [] for step in self.evidence}
        for place in self._sound:
            verb = place[0].ops[place[1]][0]
            if verb in places:
                places[verb].append(place)
        return [_step(*place) for found in places.values() for place in (*found[:HELD], *found[HELD:][-HELD:])]

    @property
    def unwritten(self) -> list[str]:
        """Operations that never did anything but raise NotImplementedError."""
        order = ["new", "allocate", "fork", "append", "release", "used", "_take", "twin"]
        return [verb for verb in order if verb in self.stubs and verb not in self.seen and not (verb == "used" and self.held_on.get("used-counts-once"))]

    def finish(self) -> None:
        """What works on some histories and raises NotImplementedError on others is no stub: those histories break promises."""
        unwritten = self.unwritten
        for verb, places in self.stubs.items():
            if verb not in unwritten:
                for play, row, rows in places[:EVIDENCE]:
                    step = _step(play, row, rows)
                    results = self._judge(step, stub=False)
                    self._keep(step, results[1])
                    self._note(results, play, row, rows)

    def _note(self, results: tuple, play: Play, row: int, rows: Rows) -> bool:
        held, broken = results
        good = True
        verb = play.ops[row][0]
        for promise, result in broken:
            good = good and not promise.spoils
            self._breach(promise.id, result, play, row, rows)
        if (verb, held, good) not in self._noted:
            self._noted.add((verb, held, good))
            for id in held:
                self.held_on[id].add(verb)
            if good:
                self.seen.add(verb)
        return good

    def _breach(self, id: str, result: Broken, play: Play, row: int, rows: Rows) -> None:
        """The shortest history that breaks a promise is kept. What breaks only beside a second manager is that manager's doing."""
        if play.second:
            if self.breaches and id != SEPARATE or SEPARATE in self.breaches:
                return
            result = Broken(f"with a second manager beside it as without: {result.due}", result.actual)
            id = SEPARATE
        known = self.breaches.get(id)
        if known is None or play.calls(row) < known.length:
            step = _step(play, row, rows)
            history = history_text(play, row)
            self.breaches[id] = Breach(history, result.due, result.actual, step.before, step.after, play.calls(row), _raised(step, id, history), result.hint)

    def promise(self, promise: Promise, points: float) -> PromiseVerdict:
        breach = self.breaches.get(promise.id)
        if breach:
            return PromiseVerdict(promise, points, False, breach)
        needs = promise.needs & (self.exercise.verbs | {"_take"})
        missing = sorted(needs - self.seen)
        if missing or not self.held_on[promise.id]:
            what = ", ".join(f"`{m}`" for m in missing) or "the operation it speaks of"
            return PromiseVerdict(promise, points, False, why_not=f"not seen yet: {what} does not work")
        return PromiseVerdict(promise, points, True)


def judge_manager(exercise: Exercise, plays: list[Play], transcript: Transcript) -> Verdict:
    """The verdict on a block manager's transcript of these plays."""
    judge = _ManagerJudge(exercise)
    for play, rows in zip(plays, transcript.plays, strict=False):
        judge.play(play, rows)
    judge.finish()
    stopped = []
    if transcript.stopped:
        number, row = transcript.stopped
        stopped = history_text(plays[number], row)
    asked = sum(len(play.ops) for play in plays)
    unasked = 1 - sum(len(rows.rows) for rows in transcript.plays) / asked if stopped else 0.0
    verdicts = [judge.promise(p, w) for p, w in exercise.graded()]
    unwritten = judge.unwritten
    if "allocate" in unwritten:
        # Before anything can be allocated nothing else can be seen working.
        verdicts = [v if v.breach else PromiseVerdict(v.promise, v.points, False, why_not="not seen yet: `allocate` is not written") for v in verdicts]
    return Verdict(exercise, verdicts, unwritten=unwritten, stopped=stopped, unasked=unasked, evidence=judge.evidence, held=judge.held)


# ---- functions and answers -------------------------------------------------------------------------------------


def cases_of(exercise: Exercise, thorough: bool, seed: str) -> list:
    """The cases of one check, simplest first; the thorough check's random part follows the seed."""
    rng = random.Random(f"{exercise.id} {seed}" if thorough else "the check that everyone sees")
    return list(exercise.function.cases(thorough, rng))


def _weight(args: object) -> int:
    """Roughly how many numbers and names the arguments are."""
    if isinstance(args, State):
        return len(args.free) + len(args.ref)
    return sum(map(_weight, args)) if isinstance(args, (list, tuple, set, dict)) else 1


def judge_calls(exercise: Exercise, cases: list, calls: Calls) -> Verdict:
    """The verdict on what a function gave for these cases."""
    function = exercise.function
    breaches: dict[str, Breach] = {}
    held: set[str] = set()
    unwritten = bool(calls.outcomes) and all(outcome.error == UNWRITTEN for outcome in calls.outcomes)
    evidence: list[Case] = []
    sound: list[Case] = []
    for args, outcome in zip(cases, calls.outcomes, strict=False):
        if unwritten:
            break
        case = Case(args, outcome)
        broken = set()
        for promise, _ in exercise.graded():
            result = promise.test(case)
            if isinstance(result, Broken):
                broken.add(promise.id)
                if promise.id not in breaches:
                    lines = function.written(exercise.name, args)
                    raised = f"{lines[-1]} raises {outcome.exception}" if outcome.error and outcome.error != UNWRITTEN else ""
                    breaches[promise.id] = Breach(lines, result.due, result.actual, raised=raised, hint=result.hint)
            elif result is not None:
                held.add(promise.id)
        if broken and len(evidence) < EVIDENCE and _weight(args) <= HEAVY:
            evidence.append(replace(case, broken=frozenset(broken)))
        if not broken and len(sound) < EVIDENCE:
            sound.append(case)
    stopped = [] if calls.stopped is None else function.written(exercise.name, cases[calls.stopped])
    unasked = 1 - len(calls.outcomes) / len(cases) if stopped else 0.0
    why = "not written yet" if unwritten else "not seen working"
    verdicts = [
        PromiseVerdict(p, w, p.id in held and p.id not in breaches and not unwritten, breaches.get(p.id), "" if p.id in held and not unwritten else why)
        for p, w in exercise.graded()
    ]
    return Verdict(exercise, verdicts, unwritten=[exercise.name] if unwritten else [], stopped=stopped, unasked=unasked, evidence=evidence, held=lambda: [case for case in sound if _weight(case.args) <= HEAVY])


def judge_answers(exercise: Exercise, outcomes: list[Outcome]) -> Verdict:
    """The verdict on answers to the exercise's questions, given in the questions' order."""
    verdicts, open_questions, evidence = [], [], []
    for (promise, points), outcome in zip(exercise.graded(), outcomes, strict=True):
        result = promise.test(Case(promise.id, outcome))
        if result is None:
            open_questions.append(promise.id)
            verdicts.append(PromiseVerdict(promise, points, False, why_not="not answered yet"))
        elif isinstance(result, Broken):
            verdicts.append(PromiseVerdict(promise, points, False, Breach([promise.id], result.due, result.actual, hint=result.hint)))
            evidence.append(Case(promise.id, outcome, frozenset({promise.id})))
        else:
            verdicts.append(PromiseVerdict(promise, points, True))
    return Verdict(exercise, verdicts, unwritten=open_questions, evidence=evidence)

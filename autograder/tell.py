"""A verdict as the learner reads it: one sentence first, then the shortest history, then how many others."""

from __future__ import annotations

from autograder.verdict import Breach, PromiseVerdict, Verdict


def sentence(verdict: Verdict) -> str:
    """What to know about a verdict, in one sentence."""
    name = verdict.exercise.name
    if not verdict.answered:
        return f"{name} did not answer its checks: {verdict.trouble}."
    if verdict.passed:
        return f"{name}: every promise holds."
    if verdict.stopped:
        return f"{name}: the call {verdict.stopped[-1]} did not return in time."
    if verdict.broken:
        first = verdict.broken[0]
        if first.breach.raised and not verdict.mistake:
            return f"{name}: {first.breach.raised.rstrip('.')}."
        return f"{name} breaks a promise: {first.promise.statement}"
    return f"{name}: {unwritten(verdict)}."


def unwritten(verdict: Verdict) -> str:
    """What is still to be written or answered."""
    parts = verdict.unwritten or [p.promise.id for p in verdict.promises if not p.held]
    if verdict.exercise.kind == "answers":
        return f"not answered yet: {', '.join(parts)}"
    if verdict.exercise.kind == "function" or not verdict.unwritten:
        return "not written yet"
    return f"not written yet: {', '.join('`__init__`' if p == 'new' else f'`{p}`' for p in parts)}"


def text(verdict: Verdict) -> str:
    """The whole message as plain text."""
    lines = [sentence(verdict)]
    if verdict.stopped:
        lines += ["", *_history(verdict.stopped), "", "A loop that never ends, or one that goes through far too much, is the usual cause. What comes after it was not asked, so at most half of the points can count."]
    elif verdict.broken:
        first, *others = verdict.broken
        lines += ["", *_breach(first.breach, verdict), *_help(verdict)]
        if others:
            lines += ["", f"{len(others)} more {'promise breaks' if len(others) == 1 else 'promises break'}: {', '.join(o.promise.id for o in others)}. Mend the first; the others often go with it."]
    if verdict.broken and verdict.unwritten:
        lines += [f"Also {unwritten(verdict)}."]
    return "\n".join(line for n, line in enumerate(lines) if line or n == 1 or lines[n - 1])


def _history(calls: list[str]) -> list[str]:
    return [f"    {c}{'      ← here' if n == len(calls) - 1 and n else ''}" for n, c in enumerate(calls)]


def _breach(breach: Breach, verdict: Verdict) -> list[str]:
    if verdict.exercise.kind == "answers":
        return [f"  asked:    {breach.expected}", f"  found:    {breach.actual}"]
    return [*_history(breach.history), "", f"  expected: {breach.expected}", f"  actual:   {breach.actual}"]


def advice(verdict: Verdict) -> str:
    """What helps with the first broken promise: the known mistake's refutation and where to reread, otherwise the promise's hint."""
    mistake = verdict.mistake
    if mistake:
        return f"{mistake.names}. {mistake.refutes} Reread: {mistake.reread(verdict.exercise.id)}."
    return verdict.broken[0].hint if verdict.broken else ""


def _help(verdict: Verdict) -> list[str]:
    mistake, hint = verdict.mistake, verdict.broken[0].hint
    if mistake:
        return [f"  mistake:  {mistake.names}. {mistake.refutes}", f"  reread:   {mistake.reread(verdict.exercise.id)}"]
    return [f"  hint:     {hint}"] if hint else []


def first_broken(verdict: Verdict) -> PromiseVerdict | None:
    return verdict.broken[0] if verdict.broken else None

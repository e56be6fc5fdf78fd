"""`autograder lessons`: bring notebooks and pages up to date with the lessons' text, and lose nobody's edits."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from autograder.staff import course_root, derive, launch, prompts

RECORD = Path("_build", "lessons.json")
KEPT = Path("_build", "kept")
# What shapes a release besides the lesson itself.
INFLUENCES = ("nbgrader_config.py", "_config.yml", "requirements.txt", "autograder/staff/launch.py", "autograder/staff/derive.py", "autograder/staff/plugin.py", "autograder/staff/prompts.py", "autograder/prompts/seal.py")
LEFTOVERS = {".ipynb_checkpoints", "__pycache__"}


class Refused(Exception):
    """The lesson cannot be derived; the message has one sentence a line, each with its cure."""


@dataclass
class Outcome:
    """What became of one lesson: `stale` are the files that were, `said` what its author should read."""

    stale: list[Path] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    failed: bool = False


@dataclass(frozen=True)
class Lesson:
    root: Path
    name: str

    @property
    def text(self) -> Path:
        return self.root / derive.SOURCE / self.name / f"{self.name}.py"

    @property
    def twin(self) -> Path:
        return self.text.with_suffix(".ipynb")

    @property
    def release(self) -> Path:
        return self.root / derive.RELEASE / self.name

    @property
    def prompts(self) -> Path:
        """The covered prompts that the package carries for this lesson."""
        return self.root / prompts.FOLDER / f"{self.name}.json"

    def says(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def inputs(self) -> str:
        """One hash over everything that the twin and the release are made from."""
        folder = self.text.parent
        mine = [p for p in _files_in(folder) if p != self.twin]
        shared = [p for p in map(self.root.joinpath, INFLUENCES) if p.exists()]
        parts = [f"{p.relative_to(self.root)}={_digest(p.read_bytes())}" for p in mine + shared]
        return _digest("\n".join(parts + [_version("jupytext"), _version("nbgrader")]).encode())

    def released(self) -> dict[str, Path]:
        return {str(p.relative_to(self.release)): p for p in _files_in(self.release)}

    def outputs(self) -> dict[str, str]:
        """The hash of every derived file that is there."""
        found = [p for p in (self.twin, self.prompts, *self.released().values()) if p.exists()]
        return {self.says(p): _digest(p.read_bytes()) for p in found}


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    root = course_root()
    if not (root / derive.SOURCE).is_dir():
        print(f"lessons: this copy has no {derive.SOURCE}/, so there is nothing to derive")
        return 0
    try:
        lessons = [_find(root, name) for name in options.lessons] or all_lessons(root)
        if options.from_notebook:
            lessons = [_find(root, options.from_notebook)]
            _take_over(lessons[0])
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    try:
        if not options.check:
            _renew_prompts(lessons)
        failed = not _run(root, lessons, check=options.check)
    except ModuleNotFoundError as missing:
        print(f"{missing.name} is not installed: `make setup` installs it", file=sys.stderr)
        return 2
    if not options.lessons and not options.from_notebook:
        failed |= not _generated_pages(root, check=options.check)
    return int(failed)


def _renew_prompts(lessons: list[Lesson]) -> None:
    """Write what can be written of the covered prompts before anything reads them; faults are told by each lesson's own run."""
    for lesson in lessons:
        try:
            questions = prompts.read(prompts.source_of(lesson.root, lesson.name))
        except ValueError:
            continue
        if questions and _content(lesson.prompts) != prompts.covered(questions):
            _write(lesson.root, lesson.prompts, prompts.covered(questions))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder lessons", description=__doc__)
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="a lesson's name or its number; default: all")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name what is stale")
    parser.add_argument("--from-notebook", metavar="LESSON", help="take edits made in the notebook over into the text")
    return parser


def all_lessons(root: Path) -> list[Lesson]:
    """Every lesson, in order; a folder is a lesson if it holds a text of its own name."""
    folders = sorted(p for p in (root / derive.SOURCE).iterdir() if p.is_dir() and p.name[0] not in "._")
    return [Lesson(root, p.name) for p in folders if (p / f"{p.name}.py").exists() or (p / f"{p.name}.ipynb").exists()]


def _find(root: Path, wanted: str) -> Lesson:
    """The lesson of that name, or the only one whose name begins so."""
    lessons = all_lessons(root)
    wanted = wanted.rstrip("/").removesuffix(".py").removesuffix(".ipynb").rsplit("/", 1)[-1]
    found = [x for x in lessons if x.name == wanted] or [x for x in lessons if x.name.startswith(wanted)]
    if len(found) != 1:
        names = ", ".join(x.name for x in lessons)
        raise Refused(f"{wanted!r} names {len(found)} lessons; there are: {names}")
    return found[0]


def _run(root: Path, lessons: list[Lesson], check: bool) -> bool:
    """Bring each lesson up to date (or only look); one lesson's fault does not stop the others."""
    records = _read_record(root)
    states: Counter[str] = Counter()
    for place, lesson in enumerate(lessons, start=1):
        begun = time.monotonic()
        try:
            outcome = refresh(lesson, records, check)
        except Refused as refused:
            outcome = Outcome(said=str(refused).splitlines(), failed=True)
        state = _state(outcome, check)
        states[state] += 1
        if state != "up to date":
            names = ": " + ", ".join(map(lesson.says, outcome.stale)) if state == "stale" else ""
            print(f"lessons {place}/{len(lessons)}  {lesson.name}  {state}{names}  ({time.monotonic() - begun:.1f} s)", flush=True)
        for sentence in outcome.said:
            print(f"  {sentence}", file=sys.stderr, flush=True)
    _write(root, root / RECORD, json.dumps(records, indent=1, sort_keys=True).encode())
    print("lessons: " + ", ".join(f"{count} {state}" for state, count in states.items()), flush=True)
    if states["stale"]:
        print("`autograder lessons` (or `make lessons`) renews what is stale", file=sys.stderr)
    return not states["stale"] and not states["refused"]


def _state(outcome: Outcome, check: bool) -> str:
    if outcome.failed:
        return "refused"
    if outcome.stale:
        return "stale" if check else "renewed"
    return "up to date"


def refresh(lesson: Lesson, records: dict, check: bool = False) -> Outcome:
    """Make the twin and the release what the text says; with `check`, only compare."""
    known = records.get(lesson.name, {})
    inputs = lesson.inputs() if lesson.text.exists() else ""
    if inputs and known.get("inputs") == inputs and known.get("outputs") == lesson.outputs():
        return Outcome()
    wanted = _derive(lesson, known.get("outputs", {}))
    outcome = Outcome([path for path, content in wanted.items() if _content(path) != content])
    foreign = [p for p in lesson.released().values() if p not in wanted]
    if not check:
        for path in outcome.stale:
            _replace(lesson, path, wanted[path], known, outcome)
        for path in [p for p in foreign if lesson.says(p) in known.get("outputs", {})]:
            path.unlink()
            foreign.remove(path)
    if foreign:
        outcome.said += [f"{lesson.says(p)} comes from no lesson: move it away" for p in foreign]
        outcome.failed = check
    elif not (check and outcome.stale):
        records[lesson.name] = {"inputs": inputs, "outputs": lesson.outputs()}
    return outcome


def _derive(lesson: Lesson, known: dict[str, str]) -> dict[Path, bytes]:
    """Path → content of the twin and of every released file."""
    if not lesson.text.exists():
        raise Refused(
            f"{lesson.says(lesson.text)} is missing, its notebook is there: "
            f"`autograder lessons --from-notebook {lesson.name}` writes it"
        )
    # Here, because it knows each exercise's points, and those of `predictions` follow from the prompts.
    from autograder.staff.faults import find_faults

    text = lesson.text.read_text(encoding="utf-8")
    if faults := find_faults(text, lesson.name):
        raise Refused("\n".join(f"{lesson.says(lesson.text)}:{x.line}: {x.sentence}" for x in faults))
    if others := [p for p in lesson.text.parent.glob("*.ipynb") if p != lesson.twin]:
        raise Refused("\n".join(f"{lesson.says(p)} would be released too: move it out of the lesson's folder" for p in others))
    covered = _covered_prompts(lesson, text)
    try:
        install = launch.install_cell(launch.home_in(lesson.root), lesson.root)
    except launch.Unusable as unusable:
        raise Refused(str(unusable)) from None
    twin = derive.notebook_bytes(derive.text_to_notebook(text, lesson.name, install))
    if _edited(lesson, twin, known):
        raise Refused(
            f"{lesson.says(lesson.twin)} was edited after its text: `autograder lessons --from-notebook {lesson.name}` "
            f"takes the edits over (`touch {lesson.says(lesson.text)}` drops them)"
        )
    try:
        files = derive.release_files(lesson.root, lesson.name, twin)
    except derive.ReleaseFailed as failure:
        raise Refused(f"{lesson.says(lesson.text)}: nbgrader makes no release of it: {failure}") from failure
    return {lesson.twin: twin} | covered | {lesson.release / name: content for name, content in files.items()}


def _covered_prompts(lesson: Lesson, text: str) -> dict[Path, bytes]:
    source = prompts.source_of(lesson.root, lesson.name)
    try:
        questions = prompts.read(source)
    except ValueError as error:
        raise Refused(f"{lesson.says(source)}: {error}") from None
    if faults := prompts.usage_faults(source, questions, text):
        raise Refused("\n".join(f"{lesson.says(lesson.text)}: {fault}" for fault in faults))
    return {lesson.prompts: prompts.covered(questions)} if questions else {}


def _edited(lesson: Lesson, twin: bytes, known: dict[str, str]) -> bool:
    """Whether the notebook holds edits that its text lacks: other content, not written by us, and newer."""
    there = _content(lesson.twin)
    if there is None or _digest(there) == known.get(lesson.says(lesson.twin)) or _same_content(lesson, there, twin):
        return False
    return lesson.twin.stat().st_mtime_ns > lesson.text.stat().st_mtime_ns


def _same_content(lesson: Lesson, one: bytes, other: bytes) -> bool:
    """Whether two notebooks differ in nothing but outputs, ids and the like."""
    try:
        return derive.notebook_to_text(one, lesson.name) == derive.notebook_to_text(other, lesson.name)
    except Exception:       # a notebook cut short or with a merge conflict in it has many ways to be unreadable
        return False


def _replace(lesson: Lesson, path: Path, content: bytes, known: dict, outcome: Outcome) -> None:
    """Write a derived file; a copy of what somebody else wrote there is kept."""
    there = _content(path)
    ours = there is None or _digest(there) == known.get("outputs", {}).get(lesson.says(path))
    if not ours and not (path == lesson.twin and _same_content(lesson, there, content)):
        outcome.said.append(f"{lesson.says(path)} was not as derived: a copy is in {keep(lesson.root, path)}")
    _write(lesson.root, path, content)


def keep(root: Path, path: Path) -> str:
    """Copy a file into `_build/kept/`, which `make clean` leaves alone, and say where."""
    copy = KEPT / time.strftime("%Y%m%d-%H%M%S") / path.relative_to(root)
    (root / copy).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, root / copy)
    return copy.as_posix()


def _take_over(lesson: Lesson) -> None:
    """Write the text from the notebook."""
    there = _content(lesson.twin)
    if there is None:
        raise Refused(f"{lesson.says(lesson.twin)} is missing: `autograder lessons {lesson.name}` writes it")
    try:
        old = lesson.text.read_text(encoding="utf-8") if lesson.text.exists() else ""
        text = derive.notebook_to_text(there, lesson.name, like=old).encode("utf-8")
    except ModuleNotFoundError as missing:
        raise Refused(f"{missing.name} is not installed: `make setup` installs it") from missing
    except Exception as error:
        raise Refused(f"{lesson.says(lesson.twin)} cannot be read as a notebook ({error}); its text is unchanged") from error
    if text == _content(lesson.text):
        print(f"{lesson.says(lesson.text)} has these edits already")
        return
    if lesson.text.exists():
        print(f"{lesson.says(lesson.text)} written; the text as it was is in {keep(lesson.root, lesson.text)}")
    _write(lesson.root, lesson.text, text)


def _generated_pages(root: Path, check: bool) -> bool:
    """Write the book's pages that other sources hold; False if one is stale and may only be looked at."""
    from autograder import misconceptions, promises

    pages = {"promises": promises.page(), "misconceptions": misconceptions.page(), "outcomes": prompts.outcomes_page(root, [lesson.name for lesson in all_lessons(root)])}
    current = [_generated_page(root, Path("book", f"{name}.md"), text, check) for name, text in pages.items()]
    return all(current)


def _generated_page(root: Path, path: Path, text: str, check: bool) -> bool:
    page = text.rstrip("\n").encode("utf-8") + b"\n"
    if _content(root / path) == page:
        return True
    if check:
        print(f"{path.as_posix()} is stale: `autograder lessons` (or `make lessons`) renews it", file=sys.stderr)
        return False
    _write(root, root / path, page)
    print(f"{path.as_posix()} renewed")
    return True


def _read_record(root: Path) -> dict:
    """What was derived last; an unreadable record only costs time."""
    try:
        record = json.loads((root / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _files_in(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and not LEFTOVERS & set(p.relative_to(folder).parts)]


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _write(root: Path, path: Path, content: bytes) -> None:
    """Write whole or not at all; an interrupted run leaves its draft where nbgrader releases nothing from."""
    draft = root / "_build" / f"{path.name}.draft"
    for folder in (draft.parent, path.parent):
        folder.mkdir(parents=True, exist_ok=True)
    draft.write_bytes(content)
    os.replace(draft, path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _version(package: str) -> str:
    try:
        return f"{package}={version(package)}"
    except PackageNotFoundError:
        return f"{package}=none"


if __name__ == "__main__":
    sys.exit(main())

"""The command `autograder`: one verb for each chore, each loaded on use."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

STAFF = {
    "lessons": "derive notebooks and pages from the lessons' texts",
    "prose": "spelling and prose of all that people read",
    "sample-class": "write a class of sample submissions",
    "course": "make the sample course, collect, grade, write feedback and print the marks",
    "grade": "grade the collected submissions, each in a sandbox",
    "feedback": "a page for each graded submission, to be released by nbgrader",
    "report": "the graded class at a glance: promises missed, mistakes, who needs a person",
    "export": "marks as a table for a spreadsheet, Canvas or Moodle",
    "doctor": "say what this machine has, what is missing, and the command that cures it",
}
MODULES = {"lessons": "lessons", "prose": "prose", "sample-class": "sample", "course": "course", "grade": "grade", "feedback": "feedback", "report": "report", "export": "export", "doctor": "doctor"}


def main(argv: list[str] | None = None) -> int:
    """Run one verb; the exit status is 0 for success, 1 for a failed check, 2 for something that cannot be done."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")    # a terminal may know fewer characters than a name has
    try:
        status = _main(argv)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())    # nobody reads on; Python flushes once more at its end
        return 1
    except KeyboardInterrupt:
        return 130


def _main(argv: list[str] | None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in STAFF:
        return _staff(argv[0], argv[1:])
    parser = argparse.ArgumentParser(prog="autograder", description="Checks for the course on paged KV caches.", epilog=_verbs(), formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    judge = verbs.add_parser("judge", help="judge a Python file by an exercise's promises")
    judge.add_argument("file", type=Path, metavar="FILE", help="a Python file that defines the class or function")
    judge.add_argument("--exercise", required=True, metavar="LESSON/NAME", help="for example 03_copy_on_write/BlockManager")
    judge.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    judge.add_argument("--quick", action="store_true", help="the check that a lesson's cell runs, without the long random histories")
    judge.add_argument("--seed", default="", help="another seed, other random histories")
    exercises = verbs.add_parser("exercises", help="list the exercises and their points")
    exercises.set_defaults(verb="exercises")
    args = parser.parse_args(argv)
    return _judge(args) if args.verb == "judge" else _exercises()


def _verbs() -> str:
    return "instructors' verbs (from a checkout of the course):\n" + "\n".join(f"  {verb:<14}{text}" for verb, text in STAFF.items())


def _staff(verb: str, argv: list[str]) -> int:
    try:
        module = importlib.import_module(f"autograder.staff.{MODULES[verb]}")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("autograder"):
            cure = "It belongs to the instructors' part, which is in the course's repository: clone it and run `make setup`."
        else:
            cure = f"The package {error.name} is missing: run `make setup` in the course's repository."
        print(f"autograder {verb} cannot run. {cure}", file=sys.stderr)
        return 2
    return module.main(argv)


def _exercises() -> int:
    from autograder.exercises import EXERCISES

    for exercise in EXERCISES.values():
        print(f"{exercise.id:<45}{exercise.points:5g} points  {len(exercise.weights)} promises")
    return 0


def _judge(args: argparse.Namespace) -> int:
    from autograder.checks import exercise_named
    from autograder.child import CannotJudge, run_file
    from autograder.tell import text

    try:
        exercise = exercise_named(args.exercise)
    except KeyError as error:
        return _cannot(args, str(error.args[0]))
    try:
        verdict = run_file(args.file, exercise, not args.quick, args.seed.encode("utf-8", "backslashreplace").decode())
    except CannotJudge as error:
        return _cannot(args, str(error))
    if args.json:
        print(json.dumps(verdict.to_dict(), ensure_ascii=False, indent=2))
    else:
        print(text(verdict))
    return 0 if verdict.passed else 1


def _cannot(args: argparse.Namespace, why: str) -> int:
    if args.json:
        print(json.dumps({"passed": False, "promises": [], "error": why}, ensure_ascii=False))
    else:
        print(why, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

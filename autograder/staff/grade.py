"""`autograder grade`: every submission of a lesson through intake, sandbox and judge into nbgrader's gradebook.

The warm process starts before anything else is imported: the two take about as long, and go side by side.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from pathlib import Path

from autograder.staff import course_root
from autograder.staff.engine import client

MOST_WORKERS = 128  # more need more descriptors than a fork leaves room for


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    if options.cluster:
        return _grade(options, None)
    try:
        warm = client.Warm(min(max(1, options.workers), MOST_WORKERS))
    except client.NoSandbox as problem:
        print(f"autograder grade: {problem}", file=sys.stderr)
        return 1
    try:
        return _grade(options, warm)
    finally:
        warm.close()


def _grade(options: argparse.Namespace, warm: client.Warm | None) -> int:
    """Grade, and say in one sentence what keeps us from it."""
    _leave_out("rfc3987_syntax")
    from sqlalchemy.exc import SQLAlchemyError

    from autograder.staff import grading, records
    from autograder.staff.cluster import NoCluster
    from autograder.staff.courses import Busy, Course
    from autograder.staff.keep import NotReleased

    told = sys.stderr if options.json else sys.stdout
    try:
        course = Course(options.course or course_root(), options.db)
        work = grading.chosen(course, options.lesson, options.student)
        if options.undo:
            for record in (back := grading.undo(course.root, work, options.db)):
                print(f"{record.student} {record.lesson}: {record.state if record.score is None else f'{record.score:g}'} again", file=told)
            print(f"{len(back)} put back. Marks given by hand were left as they are.", file=told)
            return 0
        graded = grading.grade_all(
            course.root, work, options.workers, options.again, grading.Progress(told), options.no_sandbox, lambda line: print(line, file=sys.stderr), warm, options.db, options.cluster
        )
    except (NotReleased, Busy, NoCluster, client.NoSandbox, client.EngineFailed, OSError) as problem:
        full = isinstance(problem, OSError) and problem.errno == errno.ENOSPC
        print(f"autograder grade: {'the disk is full: make room, and the same command goes on from here.' if full else problem}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as problem:
        if problem.name not in ("psycopg", "distributed"):
            raise
        what = "the gradebook is in PostgreSQL" if problem.name == "psycopg" else "a cluster was asked for"
        print(f"autograder grade: {what}, and the package {problem.name} is not installed: `make setup` installs it.", file=sys.stderr)
        return 1
    except SQLAlchemyError as problem:
        first = str(problem.__cause__ or problem).splitlines()[0]
        print(f"autograder grade: the gradebook cannot be used ({first}): see that it is there, writable, and held by no other program.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What is graded is kept; the same command goes on from here.", file=sys.stderr)
        return 130
    for record in graded:
        if record.state in (records.NOT_GRADABLE, records.FAILED):
            print(f"{record.student} {record.lesson}: {record.reasons()[0]}", file=told)
    if options.json:
        print(json.dumps([records.summary(record) for record in graded], indent=1, ensure_ascii=False))
    return grading.exit_code(graded)


def _leave_out(module: str) -> None:
    """Keep jsonschema from importing a module that it can do without and that takes a second: it parses web addresses,
    which the schema of notebooks has none of."""
    sys.modules.setdefault(module, None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder grade", description=__doc__.splitlines()[0])
    parser.add_argument("lesson", nargs="*", metavar="LESSON", help="lessons to grade (default: all)")
    parser.add_argument("--course", type=Path, help="the course folder (default: the one around here)")
    parser.add_argument("--student", action="append", metavar="ID", help="only this student; may be given several times")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="submissions at once (default: %(default)s)")
    parser.add_argument("--cluster", metavar="ADDRESS", help="let the workers of a Dask cluster assess, for example tcp://host:8786; they need this version of the course and no file of it")
    parser.add_argument("--again", action="store_true", help="grade again what is already graded")
    parser.add_argument("--db", metavar="ADDRESS", help="another gradebook than the configuration's, for example postgresql://course@host/gradebook")
    parser.add_argument("--undo", action="store_true", help="put back the marks that the last run replaced")
    parser.add_argument("--no-sandbox", action="store_true", help="where the machine gives no sandbox, run submissions with all your rights")
    parser.add_argument("--json", action="store_true", help="print one JSON document; progress goes to stderr")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A record as a file: JSON, checked against `record.schema.json` on the way in and out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from autograder.beside import COPY_COSTS, LARGEST
from autograder.copycost import measure
from autograder.needs import need

HERE = Path(__file__).resolve().parent
PUBLISHED = HERE.parents[1] / "book" / "_data"


class BadRecord(ValueError):
    """A file is no record; the text names the file, what is wrong and the cure."""


class NotMeasured(RuntimeError):
    """There is no record, and here none is made."""


def check(record: object, where: str) -> dict:
    """The record, if it is one."""
    jsonschema = need("jsonschema", "Reading a record")
    schema = json.loads((HERE / "record.schema.json").read_text("utf-8"))
    wrong = next(iter(sorted(jsonschema.Draft202012Validator(schema).iter_errors(record), key=lambda e: len(e.path))), None)
    if wrong is not None:
        place = "/".join(map(str, wrong.path)) or "as a whole"
        raise BadRecord(f"{where} is no record of copy costs ({place}: {wrong.message[:120]}); remove it and measure again.")
    return record


def load(path: Path) -> dict:
    """A record from a file; BadRecord says what is wrong with it."""
    try:
        if path.stat().st_size > LARGEST:
            raise BadRecord(f"{path.name} is larger than any record; remove it and measure again.")
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        if isinstance(problem, BadRecord):
            raise
        raise BadRecord(f"{path.name} cannot be read as a record ({type(problem).__name__}); remove it and measure again.") from None
    return check(found, path.name)


def save(record: dict, path: Path) -> None:
    """Write a record; nothing is written if it is none."""
    text = json.dumps(check(record, path.name), indent=1) + "\n"
    partial = path.with_name(path.name + ".part")
    partial.write_text(text, "utf-8")
    partial.replace(path)


def own(again: bool = False, say: Callable[[str], None] = print, **how: object) -> dict:
    """The record of this machine that lies beside the notebook; measured now if there is none, or `again`.

    It is handed in with the notebook, so that whoever marks it sees the same pictures. A grader measures nothing: its
    machine is not the learner's. Raises NotMeasured there if no record was handed in.
    """
    path = Path(COPY_COSTS)
    if not again and path.is_file():
        try:
            record = load(path)
        except BadRecord as problem:
            say(f"{problem} Measuring anew.".replace("; remove it and measure again", ""))
        else:
            say(f"from {COPY_COSTS}: measured {record['date'][:10]} on {device_words(record)}; own(again=True) measures anew")
            return record
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        raise NotMeasured(f"No {COPY_COSTS} was handed in, and a grader's machine is not the learner's: nothing is measured here.")
    record = measure.take(say=say, **how)
    save(record, path)
    say(f"measured on {device_words(record)}, kept in {COPY_COSTS}")
    return record


def device_words(record: dict) -> str:
    """The device, as every caption names it."""
    device = record["device"]
    if device["kind"] == "cpu":
        return f"CPU: {device['name']}"
    return f"GPU: {device['name']}"


def published(folder: Path = PUBLISHED) -> list[dict]:
    """The records of GPUs that come with the book, in order of their files' names."""
    return [record for path in sorted(folder.glob("copycost-*.json")) if (record := load(path))["device"]["kind"] == "cuda"]


def about_published(folder: Path = PUBLISHED) -> str:
    """A sentence on the GPU records that come with the book."""
    if not folder.parent.is_dir():
        return "The book's page of this lesson shows records of GPUs, if any have been taken."
    known = published(folder)
    if not known:
        return "No record of a GPU has been taken yet; this page shows no number of one."
    return "Records of GPUs: " + "; ".join(f"{record['device']['name']}, {record['date'][:10]}, torch {record['versions']['torch']}" for record in known) + "."

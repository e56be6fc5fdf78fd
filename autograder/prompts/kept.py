"""`predictions.json` beside the notebook: every prediction with its time. It is handed in with the notebook."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

from autograder.beside import LARGEST
from autograder.beside import PREDICTIONS as FILE


def answers_to(id: str) -> list[dict]:
    """The answers given to a prompt, the first one first."""
    return [entry["answer"] for entry in _read().get(id, [])]


def commit(id: str, answer: dict) -> None:
    """Add an answer, with the time and its zone; the same answer given again is not added."""
    everything = _read()
    entries = everything.setdefault(id, [])
    if entries and entries[-1]["answer"] == answer:
        return
    entries.append({"answer": answer, "at": datetime.datetime.now().astimezone().isoformat(timespec="seconds")})
    _write(everything)


def _read() -> dict[str, list[dict]]:
    """What the file holds; a file that cannot be read is put aside under another name, never overwritten."""
    path = Path(FILE)
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError
        return _checked(json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        _put_aside(path)
        return {}


def _checked(data: object) -> dict[str, list[dict]]:
    if not isinstance(data, dict):
        raise ValueError
    for entries in data.values():
        if not (isinstance(entries, list) and all(isinstance(e, dict) and isinstance(e.get("answer"), dict) and isinstance(e.get("at"), str) for e in entries)):
            raise ValueError
    return data


def _put_aside(path: Path) -> None:
    aside = path.with_name(f"{path.stem}.damaged{path.suffix}")
    try:
        os.replace(path, aside)
        print(f"{FILE} could not be read; it is kept as {aside.name}, and a new one is begun.")
    except OSError:
        pass  # a folder that cannot be written to: what follows says so


def _write(everything: dict) -> None:
    """In one step, so that a kernel that dies leaves the old file whole."""
    fresh = Path(f".{FILE}.new")
    try:
        fresh.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n", "utf-8")
        os.replace(fresh, FILE)
    except OSError as error:
        raise OSError(f"Your prediction could not be kept in {Path(FILE).absolute()} ({error.strerror}): save the notebook in a folder that you may write to.") from None

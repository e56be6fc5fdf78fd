"""A submission's folder as it was at one moment: read once, so that what is hashed, graded and kept is the same.

Nothing in it is followed or opened that is not a plain file, and nothing is read beyond the limits.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.staff.intake import KEPT_BESIDE, MAX_BYTES, NotGradable

MOST_ENTRIES = 2000


@dataclass(frozen=True)
class Entry:
    """One file. content: its bytes, or None for a link, for what is too large, and for what grading does not read."""

    size: int
    content: bytes | None = None
    link: bool = False


Snapshot = dict[str, Entry]


def take(folder: Path) -> Snapshot:
    """What lies in the folder, by path from it. Raises NotGradable if it is no place that can be read."""
    found: Snapshot = {}
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(place, name)
            if (entry := _entry(path, name)) is not None:
                found[os.path.relpath(path, folder)] = entry
            if len(found) > MOST_ENTRIES:
                raise NotGradable(f"it has more than {MOST_ENTRIES} files", "Hand in the notebook alone.")
    return dict(sorted(found.items()))


def _entry(path: str, name: str) -> Entry | None:
    """The file as it is now; None for what is no plain file."""
    with contextlib.suppress(OSError):
        about = os.lstat(path)
        if stat.S_ISLNK(about.st_mode):
            return Entry(0, link=True)
        if not stat.S_ISREG(about.st_mode):
            return None
        wanted = name.lower().endswith(".ipynb") or name in KEPT_BESIDE
        if not wanted or about.st_size > MAX_BYTES:
            return Entry(about.st_size)
        # Not followed and not waited for, should it have become a link or a pipe meanwhile.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            content = file.read(MAX_BYTES + 1)
        return Entry(len(content), content)
    raise NotGradable(f"{name} cannot be read", "Give the grader the right to read it, or hand it in again.")


def digest(snapshot: Snapshot) -> str:
    """A hash of all that can matter."""
    made = hashlib.sha256()
    for name, entry in snapshot.items():
        made.update(f"\0{name}\0{entry.size} {entry.link}\0".encode("utf-8", "surrogateescape"))
        made.update(hashlib.sha256(entry.content or b"").digest())
    return made.hexdigest()


@contextlib.contextmanager
def laid_out(snapshot: Snapshot) -> Iterator[Path]:
    """The snapshot as a folder for the time of the block. What was too large is there with its size and without its bytes."""
    with tempfile.TemporaryDirectory(prefix="intake-") as folder:
        for name, entry in snapshot.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry.link:
                path.symlink_to("nowhere")
                continue
            path.write_bytes(entry.content or b"")
            if entry.content is None:
                os.truncate(path, entry.size)
        yield Path(folder)

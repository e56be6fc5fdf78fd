"""IPython in the fork: runs one cell at a time and collects its outputs as a notebook holds them.

Runs beside the learner's code, which can change every part of it. So nothing here decides anything; it only keeps
honest output within bounds, and the client keeps the rest.
"""

from __future__ import annotations

import io
import os
import sys

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

KIB = 1024


class Outputs:
    """The outputs of the cell that is running, up to the limits."""

    def __init__(self) -> None:
        self.begin(1, 0, 0)

    def begin(self, count: int, printable: int, displayable: int) -> None:
        """Start a cell. count: its number; printable, displayable: characters that it may put out."""
        self.list: list[dict] = []
        self.count = count
        self.printable, self.limit, self.displayable = printable, printable, displayable
        self.clear_next = False

    def stream(self, name: str, text: str) -> None:
        if self.printable <= 0 or not text:
            return
        self._clear_if_asked()
        self.printable -= len(text)
        if self.printable <= 0:
            text = text[: len(text) + self.printable] + f"\n… cut off after {self.limit // KIB} KiB\n"
        last = self.list[-1] if self.list else None
        if last and last["output_type"] == "stream" and last["name"] == name:
            last["text"] += text
        else:
            self.list.append({"output_type": "stream", "name": name, "text": text})

    def add(self, output: dict) -> None:
        self._clear_if_asked()
        self.displayable -= sum(len(str(value)) for value in output.get("data", output).values())
        if self.displayable > 0 and len(self.list) < 1000:
            self.list.append(output)

    def update(self, display_id: str, data: dict, metadata: dict) -> None:
        for output in self.list:
            if output.get("display_id") == display_id:
                output.update(data=data, metadata=metadata)

    def clear(self, wait: bool) -> None:
        self.clear_next = wait
        if not wait:
            self.list.clear()

    def _clear_if_asked(self) -> None:
        if self.clear_next:
            self.clear_next = False
            self.list.clear()

    def take(self) -> list[dict]:
        for output in self.list:
            output.pop("display_id", None)
        return self.list


OUTPUTS = Outputs()


class Stream(io.TextIOBase):
    """sys.stdout or sys.stderr of a cell."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, name: str):
        self.name = f"<{name}>"
        self.kind = name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        OUTPUTS.stream(self.kind, text)
        return len(text)


class _Hook(DisplayHook):
    def start_displayhook(self) -> None:
        pass

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict, md_dict: dict | None = None) -> None:
        OUTPUTS.add({"output_type": "execute_result", "execution_count": OUTPUTS.count, "data": format_dict, "metadata": md_dict or {}})

    def finish_displayhook(self) -> None:
        pass


class _Publisher(DisplayPublisher):
    def publish(self, data: dict, metadata: dict | None = None, source: object = None, *, transient: dict | None = None, update: bool = False, **more: object) -> None:
        display_id = (transient or {}).get("display_id")
        if update:
            OUTPUTS.update(display_id, data, metadata or {})
        else:
            OUTPUTS.add({"output_type": "display_data", "data": data, "metadata": metadata or {}, **({"display_id": display_id} if display_id else {})})

    def clear_output(self, wait: bool = False) -> None:
        OUTPUTS.clear(wait)


class Shell(InteractiveShell):
    """IPython without a terminal, a kernel or a history."""

    displayhook_class = Type(_Hook)
    display_pub_class = Type(_Publisher)
    kernel = None  # by its presence the course's checks know that a notebook shows what they display

    def _showtraceback(self, etype: type, evalue: BaseException, stb: list) -> None:
        OUTPUTS.add({"output_type": "error", "ename": etype.__name__, "evalue": _text_of(evalue), "traceback": [str(line) for line in stb]})

    # `!command` without a terminal: what it writes lands in the file that `Cells` reads.
    system = InteractiveShell.system_raw

    def enable_gui(self, gui: str | None = None) -> None:
        pass

    def ask_exit(self) -> None:
        """`exit` in a cell ends no run."""

    def init_virtualenv(self) -> None:
        """The warm process runs in the right environment; nothing is to be looked for."""


def _text_of(value: BaseException) -> str:
    try:
        return str(value)
    except BaseException:
        return "an exception that cannot be shown"


def make_shell() -> Shell:
    """The one shell, warm: what a first cell, a first figure and a first traceback load is loaded."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.xmode = "Plain"
    Shell.clear_instance()
    shell = Shell.instance(config=config)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
    for source in ("1 + 1", "1 / 0"):
        shell.run_cell(source, store_history=True)
    sys.stdout, sys.stderr = before
    shell.reset(new_session=True)
    shell.execution_count = 1
    OUTPUTS.begin(1, 0, 0)
    return shell


class Cells:
    """Runs cells one by one. What is written past Python's own streams lands in a file and is shown after the cell's own."""

    def __init__(self, shell: Shell, printable_kb: int, displayable_kb: int, scratch: str):
        self.shell, self.printable, self.displayable = shell, printable_kb * KIB, displayable_kb * KIB
        self.raw = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.unlink(scratch)
        for fd in (1, 2):
            os.dup2(self.raw, fd)
        sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")

    def run(self, source: str) -> dict:
        """Run one cell; what it put out, and its number."""
        count = self.shell.execution_count
        OUTPUTS.begin(count, self.printable, self.displayable)
        try:
            self.shell.run_cell(source, store_history=True)
        except BaseException as problem:  # an interrupt that came between two parts of IPython
            OUTPUTS.add({"output_type": "error", "ename": type(problem).__name__, "evalue": _text_of(problem), "traceback": []})
        self._take_raw()
        return {"outputs": OUTPUTS.take(), "count": count}

    def _take_raw(self) -> None:
        size = os.lseek(self.raw, 0, os.SEEK_END)
        if size:
            OUTPUTS.stream("stdout", os.pread(self.raw, min(size, self.printable + 4), 0).decode("utf-8", "replace"))
            os.ftruncate(self.raw, 0)

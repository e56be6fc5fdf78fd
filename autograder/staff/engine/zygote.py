"""The warm process: imports what lessons import, moves into the jail, and forks when a grader asks.

    python -m autograder.staff.engine.zygote PARENT FD…

It never sees a submission: a fork gets two pipes and reads its cells from there. It holds no file of the course, and
its environment is an empty one, so that a fork inherits nothing worth reading. Each FD is a socket to one grader; the
first brings the configuration as a message, then on each:

    b"f" with two descriptors   fork; answers the process's number
    b"i" + number               interrupt it
    b"k" + number               end it, wait until it has gone, answer

It ends when the first socket closes, and with it all its forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator

from autograder.staff.engine import sandbox, wire
from autograder.staff.engine.shell import Cells, Shell, make_shell

NUMBER = struct.Struct(">i")
COMMANDS, ANSWERS = 200, 201  # a fork's two pipes; above the sockets of every grader


def preload() -> Shell:
    """Import what lessons import and make IPython do everything once."""
    import pkgutil

    import autograder

    for module in pkgutil.walk_packages(autograder.__path__, "autograder."):
        if not module.name.startswith("autograder.staff") and not module.name.endswith("__main__"):
            with contextlib.suppress(ModuleNotFoundError):  # one may be for a package that is not installed
                importlib.import_module(module.name)
    shell = make_shell()
    with contextlib.suppress(ImportError):
        from IPython.core.pylabtools import activate_matplotlib
        from matplotlib_inline.backend_inline import configure_inline_support

        activate_matplotlib("module://matplotlib_inline.backend_inline")
        import matplotlib.pyplot as plt

        configure_inline_support(shell, "inline")
        figure, axes = plt.subplots()
        figure.colorbar(axes.imshow([[0, 1], [1, 0]]))
        axes.set_title("$x$")
        figure.canvas.draw()
        plt.close(figure)
    gc.collect()
    gc.freeze()  # a fork that never touches these objects shares their memory
    return shell


class Zygote:
    def __init__(self, shell: Shell, forks: sandbox.Forks, config: dict, graders: list[socket.socket]):
        self.shell, self.forks, self.graders, self.first = shell, forks, list(graders), graders[0]
        self.limits = sandbox.Limits(**config["limits"])
        self.printable, self.displayable = config["printable_kb"], config["displayable_kb"]
        self.alive: dict[int, socket.socket] = {}  # process → who asked for it

    def serve(self) -> None:
        """Answer until the first grader has gone."""
        while True:
            for grader in select.select(self.graders, [], [])[0]:
                if not self._answer(grader):
                    return

    def _answer(self, grader: socket.socket) -> bool:
        """Answer one request; False when there is nobody left to serve."""
        request, fds, _, _ = socket.recv_fds(grader, 1, 2)
        if not request:
            self.graders.remove(grader)
            return grader is not self.first
        if request == b"f":
            for pid in [pid for pid, asked in self.alive.items() if asked is grader]:
                self._end(pid)  # of a worker that was killed; a living one ends its fork before it asks for the next
            pid = self._fork(fds, grader)
            for fd in fds:
                os.close(fd)
            grader.sendall(NUMBER.pack(pid))
            return True
        number = grader.recv(NUMBER.size, socket.MSG_WAITALL)
        pid = NUMBER.unpack(number)[0] if len(number) == NUMBER.size else 0
        if request == b"i" and pid in self.alive:
            os.kill(pid, signal.SIGINT)
        if request == b"k":
            grader.sendall(NUMBER.pack(self._end(pid)))
        return True

    def _fork(self, fds: list[int], grader: socket.socket) -> int:
        user = self.forks.pick_user() if self.forks.kind == sandbox.ROOT else 0
        pid = self.forks.fork()
        if pid == 0:
            try:
                self._be_sandbox(*fds, user)
            finally:
                os._exit(1)
        self.alive[pid] = grader
        return pid

    def _end(self, pid: int) -> int:
        """End one fork and wait for it; its exit code, negative for a signal. In a sandbox all it started has then ended too."""
        if pid not in self.alive:
            return 0
        if self.forks.kind == sandbox.NONE:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        del self.alive[pid]
        return self.forks.wait(pid)

    def end_all(self) -> None:
        for pid in list(self.alive):
            self._end(pid)

    def _be_sandbox(self, commands: int, answers: int, user: int) -> None:
        """In the fork, to its end: keep the two pipes and nothing else, give everything up, run cells."""
        os.dup2(commands, COMMANDS)
        os.dup2(answers, ANSWERS)
        os.closerange(3, COMMANDS)
        os.closerange(ANSWERS + 1, 1024)
        os.setsid()
        try:
            said = sandbox.confine(self.forks.kind, user, self.limits)
            home = sandbox.make_home(self.forks.kind)
        except OSError as problem:
            wire.send(ANSWERS, {"trouble": str(problem)})
            return
        _run_cells(self.shell, home, said, self.printable, self.displayable)


def _run_cells(shell: Shell, home: str, said: list[str], printable: int, displayable: int) -> None:
    """Answer each {"source", "files"} with the cell's outputs. The first message brings environment and files."""
    reader = wire.Reader(COMMANDS, 1 << 30)
    start = reader.receive(60)
    os.environ.update(start["env"], HOME=home, TMPDIR=os.path.join(os.path.dirname(home), "tmp") if home.startswith(sandbox.HOME) else home)
    tempfile.tempdir = None    # it was found before the jail, where it may have been another one
    os.chdir(home)
    with _laid(start["files"], home):
        pass
    sys.path.insert(0, "")
    cells = Cells(shell, printable, displayable, os.path.join(os.environ["TMPDIR"], ".raw"))
    shell.user_ns["__name__"] = "__main__"
    send, receive, me, number, leave, lay = wire.send, reader.receive, os.getpid(), os.getpid, os._exit, _laid
    send(ANSWERS, {"ready": said, "home": home})
    while True:
        message = receive(1e6)
        # An interrupt is for a cell: one that comes late must not hit the answer.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with lay(message["files"], home):
                answer = cells.run(message["source"])
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            answer = {"outputs": [], "count": None}
        if number() != me:
            leave(0)  # a cell has forked, and its child has come back from the cell as well
        send(ANSWERS, answer)


@contextlib.contextmanager
def _laid(files: dict[str, str], home: str) -> Iterator[None]:
    """Write the files, given as hexadecimal text, below the sandbox's home and be there meanwhile; no files: nothing.

    What cannot be written is the loss of whoever is in the way. An earlier cell may have removed the folder itself.
    """
    if not files:
        yield
        return
    before = home
    with contextlib.suppress(OSError):
        before = os.getcwd()
    for name, text in files.items():
        path = os.path.join(home, name)
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(bytes.fromhex(text))
    with contextlib.suppress(OSError):
        os.chdir(home)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(before)


def main() -> None:
    parent, *fds = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    graders = [socket.socket(fileno=fd) for fd in fds]
    if sandbox.libc is not None:
        sandbox.libc("prctl", sandbox.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    shell = preload()
    try:
        config = wire.Reader(fds[0], 1 << 20).receive(3600)
    except wire.Ended:
        return  # the grader had nothing to run
    for package in config["packages"]:
        with contextlib.suppress(ImportError):
            importlib.import_module(package)
    gc.freeze()
    try:
        forks = sandbox.Forks(None if config["no_sandbox"] else [sandbox.Path(path) for path in config["hide"]])
    except sandbox.Unavailable as problem:
        wire.send(fds[0], {"unavailable": str(problem)})
        return
    zygote = Zygote(shell, forks, config, graders)
    wire.send(fds[0], {"kind": forks.kind})
    try:
        zygote.serve()
    finally:
        zygote.end_all()


if __name__ == "__main__":
    main()

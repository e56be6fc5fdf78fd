"""The sandbox: a jail that the warm process builds once, and what each fork gives up before it runs a learner's cell.

What it is for. A submission is code of a stranger. It must not read the course (answers, hidden tests), the gradebook,
other submissions or the grader's home; not write anywhere; not reach a network; not see, signal or trace any process
but its own; not take the machine's memory, processes or disk; and leave nothing behind.

How. The jail is a root of its own, read-only, that holds Python, its packages and the system's libraries and nothing
else (`Jail`). A fork is process 1 of a process namespace of its own, so that all it has started ends with it; it has
its own mounts, network (none), System V objects and host name, one small writable folder in memory, another user id or
none of its user's rights, limits, and no way to get rights back (`confine`).

Needs Linux 5.12, and root or user namespaces. Which of the two is found out at start (`Jail.enter`).
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import shutil
import signal
import site
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from autograder.staff.engine import seccomp

NEW_MOUNTS, NEW_HOST_NAME, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
MOUNT_SETATTR, AT_RECURSIVE = 442, 0x8000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38

ROOT, USER, NONE = "root", "user", "none"
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Of /etc only what programs need to start and to draw: it may hold secrets.
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "fonts", "mime.types", "alternatives")
DEVICES = ("null", "zero", "full", "random", "urandom")
HOME = "/sandbox"


class Unavailable(Exception):
    """This machine has no sandbox; the message is why, in a few words."""


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use. cpu_seconds counts per process; memory_mb is address space, per process."""

    memory_mb: int = 4096
    file_mb: int = 64
    scratch_mb: int = 64
    processes: int = 64
    open_files: int = 256
    cpu_seconds: int = 600


class _Libc:
    """The C library's calls, with an error as OSError."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None, use_errno=True)

    def __call__(self, name: str, *args: object) -> int:
        result = getattr(self.library, name)(*args)
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, f"{name}: {os.strerror(error)}")
        return result

    def mount(self, source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
        coded = (text and text.encode() for text in (source, target, kind))
        self("mount", *coded, ctypes.c_ulong(flags), options.encode())


libc = _Libc() if sys.platform == "linux" else None


class Jail:
    """The root that forks live in. The warm process itself moves in, so that no fork ever sees another."""

    def __init__(self, hide: list[Path]):
        """hide: folders that must not be seen even where they lie inside Python's own."""
        self.hide = [path.resolve() for path in hide]

    def enter(self) -> str:
        """Build the jail and move in; returns ROOT or USER. Raises Unavailable."""
        if libc is None or os.uname().machine not in PIVOT_ROOT:
            raise Unavailable(f"there is none for {sys.platform} on {os.uname().machine if hasattr(os, 'uname') else 'this processor'}")
        try:
            kind = self._new_mounts()
            self._build(kind)
            self._move_in()
        except OSError as problem:
            raise Unavailable(str(problem)) from None
        return kind

    def _new_mounts(self) -> str:
        if os.geteuid() == 0 and _ids() >= 1000:
            try:
                libc("unshare", NEW_MOUNTS)
                return ROOT
            except PermissionError:
                pass  # root of a container without the right to mount: perhaps it may make user namespaces
        user, group = os.geteuid(), os.getegid()
        libc("unshare", NEW_USER | NEW_MOUNTS)
        _map_ids(user, group)
        return USER

    def _build(self, kind: str) -> None:
        libc.mount(None, "/", None, RECURSIVE | PRIVATE)
        # Opened before the new root covers whatever it is mounted on.
        held = {path: os.open(path, os.O_PATH) for path in self._shown()}
        covers = [path for path in self.hide if any(path.is_relative_to(shown) for shown in held)]
        proc = os.open("/proc", os.O_PATH)
        self.root = "/tmp"
        libc.mount("tmpfs", self.root, "tmpfs", NO_SUID | NO_DEVICES, "size=16m,mode=755")
        for path, fd in sorted(held.items()):
            self._bind(fd, path)
        for name in DEVICES:
            self._bind_device(name)
        for path in covers:
            libc.mount("tmpfs", f"{self.root}{path}", "tmpfs", READ_ONLY | NO_SUID | NO_DEVICES, "size=4k,mode=755")
        self._folders(kind, proc, list(held))
        for fd in (*held.values(), proc):
            os.close(fd)

    def _shown(self) -> list[Path]:
        """What of the machine a learner's code can see: the system's libraries and programs, and Python with its packages."""
        shown = [Path("/", name) for name in SYSTEM if Path("/", name).is_dir() and not Path("/", name).is_symlink()]
        shown += [path for name in ETC if (path := Path("/etc", name)).exists() and not path.is_symlink()]
        for prefix in {Path(p).resolve() for p in (sys.prefix, sys.base_prefix, sys.exec_prefix)} | {Path(sys.prefix)}:
            shown += [path for name in ("bin", "lib", "lib64", "share", "pyvenv.cfg") if (path := prefix / name).exists()]
        if (own := site.getusersitepackages()) in sys.path:
            shown.append(Path(own))
        shown.append(Path(__file__).resolve().parents[2])
        shown = [path for path in shown if not path.is_symlink()]
        # Below another one is seen through it.
        return [path for path in shown if not any(path != other and path.is_relative_to(other) for other in shown)]

    def _bind(self, fd: int, path: Path) -> None:
        target = f"{self.root}{path}"
        # Asked of the descriptor: the path may lie below the new root's own place, which is covered by now.
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            open(target, "w").close()
        libc.mount(f"/proc/self/fd/{fd}", target, None, BIND | RECURSIVE)
        attributes = (ctypes.c_uint64 * 4)(READ_ONLY | NO_SUID | NO_DEVICES, 0, 0, 0)
        libc("syscall", MOUNT_SETATTR, -100, target.encode(), AT_RECURSIVE, ctypes.byref(attributes), ctypes.sizeof(attributes))

    def _bind_device(self, name: str) -> None:
        target = f"{self.root}/dev/{name}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "w").close()
        libc.mount(f"/dev/{name}", target, None, BIND)

    def _folders(self, kind: str, proc: int, shown: list[Path]) -> None:
        for name in SYSTEM:
            if Path("/", name).is_symlink():
                os.symlink(os.readlink(f"/{name}"), f"{self.root}/{name}")
        for name in ("proc", HOME[1:], "etc", "old"):
            os.makedirs(f"{self.root}/{name}", exist_ok=True)
        if (link := Path("/etc/localtime")).is_symlink():
            os.symlink(os.readlink(link), f"{self.root}/etc/localtime")
        Path(self.root, "etc", "passwd").write_text(f"learner:x:{os.geteuid()}:{os.getegid()}::{HOME}/work:/bin/sh\n")
        if not any(path.is_relative_to("/tmp") for path in shown):
            os.symlink(f"{HOME}/tmp", f"{self.root}/tmp")
        os.symlink(f"{HOME}/shm", f"{self.root}/dev/shm")
        os.symlink("/proc/self/fd", f"{self.root}/dev/fd")
        if kind == USER:
            # Without root, Linux lets a fork mount its own /proc only while it can see a whole one; the fork covers this one.
            libc.mount(f"/proc/self/fd/{proc}", f"{self.root}/proc", None, BIND | RECURSIVE)

    def _move_in(self) -> None:
        os.chdir(self.root)
        libc("syscall", PIVOT_ROOT[os.uname().machine], b".", b"old")
        os.chroot(".")
        os.chdir("/")
        libc("umount2", b"/old", DETACH)
        os.rmdir("/old")
        libc.mount(None, "/", None, BIND | 32 | READ_ONLY | NO_SUID | NO_DEVICES)  # 32: MS_REMOUNT


def _ids() -> int:
    """How many user ids there are where we are (a container may have few)."""
    lines = Path("/proc/self/uid_map").read_text().split("\n")
    return max((int(inside) + int(count) for inside, _, count in map(str.split, filter(None, lines))), default=0)


def _map_ids(user: int, group: int) -> None:
    """In a new user namespace: be the same user and group as outside, and know no others."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(text)


class Forks:
    """Forks of the warm process, each the first of a process namespace of its own."""

    def __init__(self, hide: list[Path] | None):
        """Builds the jail and moves in; hide: as for Jail, or None for no sandbox at all. Raises Unavailable."""
        self.kind = NONE
        self.between: dict[int, int] = {}
        if hide is None:
            return
        # Both are read in the machine's own /proc, which the jail has not.
        if sys.platform == "linux":
            self.own_processes, self.user = os.open("/proc/self/ns/pid", os.O_RDONLY), min(_ids(), 1 << 31) // 2
        self.kind = Jail(hide).enter()

    def fork(self) -> int:
        """As os.fork, into a new process namespace if there is a sandbox."""
        if self.kind == NONE:
            return os.fork()
        if self.kind == USER:
            return self._fork_twice()
        # The namespace belongs to the next child alone, so each fork asks for another.
        libc("setns", self.own_processes, NEW_PROCESSES)
        libc("unshare", NEW_PROCESSES)
        return os.fork()

    def _fork_twice(self) -> int:
        """Without root one may not come back from a new namespace, so a process in the middle makes it and waits there."""
        read, write = os.pipe()
        middle = os.fork()
        if middle:
            os.close(write)
            told = os.read(read, 16)
            os.close(read)
            if not told:
                os.waitpid(middle, 0)
                raise OSError("a new process namespace was refused")
            self.between[int(told)] = middle
            return int(told)
        try:
            libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            libc("unshare", NEW_PROCESSES)
            if (pid := os.fork()) == 0:
                return 0
            os.write(write, str(pid).encode())
            os.closerange(0, 1024)  # the pipes are the fork's alone: their end is how its death is seen
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os._exit(code if code >= 0 else 128 - code)
        except OSError:
            os._exit(1)

    def wait(self, pid: int) -> int:
        """Wait until a fork has ended; its exit code, negative for a signal."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.between.pop(pid, pid), 0)[1])
        return 128 - code if code > 128 else code

    def pick_user(self) -> int:
        """A user id that nobody has: what counts per user (processes) is then counted per sandbox."""
        return self.user + random.SystemRandom().randrange(self.user // 2)


def confine(kind: str, user: int, limits: Limits) -> list[str]:
    """In the fork: give up all that a learner's code must not have. Returns what is in force, in words.

    The order matters: mounts need rights, rights go before the limits of what may be called, and the death signal is
    set after the change of user, which clears it.
    """
    if kind == NONE:
        if libc is not None:
            libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _set_limits(Limits(**{**vars(limits), "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0]}))
        return ["limits"]
    libc("unshare", NEW_MOUNTS | NEW_NETWORK | NEW_IPC | NEW_HOST_NAME)
    owner = f"uid={user},gid={user}," if kind == ROOT else ""
    libc.mount("tmpfs", HOME, "tmpfs", NO_SUID | NO_DEVICES, f"{owner}size={limits.scratch_mb}m,nr_inodes=8192,mode=700")
    try:
        libc.mount("proc", "/proc", "proc", NO_SUID | NO_DEVICES | NO_EXEC)
        has_proc = True
    except OSError:  # a container that hides parts of its own /proc
        libc.mount("tmpfs", "/proc", "tmpfs", READ_ONLY, "size=4k")
        has_proc = False
    if has_proc:
        # If memory runs out all the same, the kernel ends this one first and not the grader.
        Path("/proc/self/oom_score_adj").write_text("1000")
    _drop_user(kind, user, has_proc)
    libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc("capset", (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
    _set_limits(limits)
    filtered = seccomp.install(libc.library)
    own = "a user id of its own" if kind == ROOT else "a user namespace"
    return ["namespaces", own, "limits", *(["system call filter"] if filtered else []), *([] if has_proc else ["no /proc"])]


def _drop_user(kind: str, user: int, has_proc: bool) -> None:
    if kind == ROOT:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    elif has_proc:
        # Processes are counted per user and user namespace: one of its own keeps a fork bomb's count to itself.
        me, group = os.geteuid(), os.getegid()
        libc("unshare", NEW_USER)
        _map_ids(me, group)


def _set_limits(limits: Limits) -> None:
    wanted = {
        "RLIMIT_AS": limits.memory_mb << 20, "RLIMIT_FSIZE": limits.file_mb << 20, "RLIMIT_NPROC": limits.processes,
        "RLIMIT_NOFILE": limits.open_files, "RLIMIT_CPU": limits.cpu_seconds, "RLIMIT_CORE": 0, "RLIMIT_MEMLOCK": 0, "RLIMIT_MSGQUEUE": 0,
    }  # fmt: skip
    for name, value in wanted.items():
        kind = getattr(resource, name, None)
        if kind is None or value == resource.RLIM_INFINITY:
            continue
        _, hard = resource.getrlimit(kind)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


def make_home(kind: str) -> str:
    """The folder that cells start in. Without a sandbox it is a temporary one, and its maker removes it."""
    if kind == NONE:
        import tempfile

        return tempfile.mkdtemp(prefix="autograder-")
    for name in ("work", "tmp", "shm"):
        os.mkdir(f"{HOME}/{name}")
    return f"{HOME}/work"


def remove_home(home: str) -> None:
    shutil.rmtree(home, ignore_errors=True)

"""A filter that takes system calls away from a sandbox, written as the small programs that Linux runs per call.

It closes what file permissions and limits leave open: reading other processes (ptrace), memory that no limit counts
(memfd, System V shared memory), new namespaces (whose root could mount), and old or rarely tested parts of the kernel.
A refused call returns EPERM; clone3 returns ENOSYS, so that the C library takes clone, whose flags a filter can see.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

# Name → number, from the kernel's tables: x86-64, and the generic table that 64-bit ARM uses.
NUMBERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "unshare": (272, 97), "setns": (308, 268),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "personality": (135, 92),
    "acct": (163, 89), "quotactl": (179, 60), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "syslog": (103, 116),
    "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266), "vhangup": (153, 58),
}  # fmt: skip
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
CLONE, CLONE3, PRCTL, SOCKET = (56, 220), (435, 435), (157, 167), (41, 198)
NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW… flag
PR_SET_PDEATHSIG = 1
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, then, otherwise, value)


def _refuse(number: int, error: int = errno.EPERM) -> bytes:
    return _step(EQUAL, number, 0, 1) + _step(RETURN, REFUSE | error)


def _refuse_if(number: int, test: bytes) -> bytes:
    """Refuse a call whose first argument passes the test; else go on with the call's number loaded again."""
    return (
        _step(EQUAL, number, 0, 4) + _step(LOAD, FIRST_ARGUMENT_AT) + test + _step(RETURN, REFUSE | errno.EPERM) + _step(LOAD, NUMBER_AT)
    )


def program(machine: str) -> bytes | None:
    """The filter for this kind of processor, None if its numbers are not known here."""
    if machine not in ARCHITECTURES:
        return None
    column, architecture = ARCHITECTURES[machine]
    steps = _step(LOAD, ARCHITECTURE_AT) + _step(EQUAL, architecture, 1, 0) + _step(RETURN, KILL) + _step(LOAD, NUMBER_AT)
    if machine == "x86_64":  # the same calls under other numbers (x32)
        steps += _step(AT_LEAST, 0x40000000, 0, 1) + _step(RETURN, REFUSE | errno.ENOSYS)
    steps += _refuse(CLONE3[column], errno.ENOSYS)
    steps += b"".join(_refuse(numbers[column]) for numbers in NUMBERS.values())
    steps += _refuse_if(CLONE[column], _step(ANY_BIT, NEW_NAMESPACES, 0, 1))
    # Else a fork could outlive a grader that is killed.
    steps += _refuse_if(PRCTL[column], _step(EQUAL, PR_SET_PDEATHSIG, 0, 1))
    # Raw, netlink, packet, vsock … sockets: nothing to reach without a network, and much kernel behind them.
    steps += _step(EQUAL, SOCKET[column], 0, 5) + _step(LOAD, FIRST_ARGUMENT_AT)
    steps += _step(EQUAL, AF_UNIX, 3, 0) + _step(EQUAL, AF_INET, 2, 0) + _step(EQUAL, AF_INET6, 1, 0) + _step(RETURN, REFUSE | errno.EPERM)
    return steps + _step(RETURN, ALLOW)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def install(libc: ctypes.CDLL) -> bool:
    """Put the filter on this process and all that it starts; False if this machine has none. Needs no_new_privs."""
    steps = program(platform.machine())
    if steps is None:
        return False
    filter = _Program(len(steps) // 8, steps)
    return libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter), 0, 0) == 0

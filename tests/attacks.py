"""Cells that attack whoever grades them. Each prints HARM if it gets at something, and is part of otherwise right work.

`{course}`, `{outside}`, `{port}` stand for the course folder, a folder beside it and a port that somebody listens on.
"""

HEAD = """
import contextlib, ctypes, gc, os, shutil, signal, socket, subprocess, sys, threading, time
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
def harm(*what): print("HARM", *what)
"""

# Reading and reaching. Each of these does find something where there is no sandbox; a test makes sure.
REACHING = {
    "reads the answers": "for p in Path({course!r}, 'source').rglob('*.ipynb'): harm(p, p.read_text()[:20])",
    "reads the gradebook": "harm(Path({course!r}, 'gradebook.db').read_bytes()[:6])",
    "opens the gradebook with SQLite": "import sqlite3; harm(sqlite3.connect('file:' + {course!r} + '/gradebook.db?mode=ro', uri=True).execute('select count(*) from grade').fetchall())",
    "reads other submissions": "for p in Path({course!r}, 'submitted').rglob('*.ipynb'): harm(p, p.read_text()[:20])",
    "lists the course folder": "harm(os.listdir({course!r}))",
    "reads a file beside the course": "harm(open({outside!r} + '/secret.txt').read())",
    "follows a link that it makes": "os.symlink({outside!r}, 'way'); harm(open('way/secret.txt').read())",
    "makes a hard link to a file outside": "os.link({outside!r} + '/secret.txt', os.path.join(os.environ['TMPDIR'], 'mine')); harm('linked')",
    "writes beside the course": "Path({outside!r}, 'planted').write_text('x'); harm('wrote')",
    "connects to a port of this machine": "socket.create_connection(('127.0.0.1', {port}), 2); harm('connected')",
    "connects to a named socket": "s = socket.socket(socket.AF_UNIX); s.connect('\\0' + {name!r}); harm('connected')",
    "looks for other processes": "\nfor p in Path('/proc').glob('[0-9]*/cmdline'):\n    with contextlib.suppress(OSError):\n        if b'staff.grade' in p.read_bytes(): harm(p)",
    "reads the grader's environment": "\nfor p in Path('/proc').glob('[0-9]*/environ'):\n    with contextlib.suppress(OSError):\n        if b'SECRET_OF_THE_GRADER' in p.read_bytes(): harm(p)",
    "goes through /proc to other processes' root": "\nfor p in Path('/proc').glob('[0-9]*/root'):\n    with contextlib.suppress(OSError): harm(os.listdir(str(p) + {course!r}))",
    "looks at its parent's open files": "harm(os.listdir(f'/proc/{{os.getppid()}}/fd'))",
    "sees how the course is mounted": "harm(os.statvfs({course!r}))",
}

# Breaking out and breaking things.
BREAKING = {
    "a fork bomb": "while True: os.fork()",
    "a fork bomb whose children do not end": "\nwhile True:\n    with contextlib.suppress(OSError):\n        if os.fork() == 0: time.sleep(100)",
    "a fork that comes back": "os.fork(); os.fork()",
    "asks for memory until there is none": "a = []\nwhile True: a.append(bytearray(1 << 24))",
    "asks for memory in many processes": "\nfor _ in range(40):\n    if os.fork() == 0:\n        a = os.urandom(1 << 20) * 100; time.sleep(100)\ntime.sleep(100)",
    "hoards memory that no process has mapped": "\nfor _ in range(200):\n    fd = libc.memfd_create(b'x', 0)\n    if fd < 0: break\n    os.write(fd, bytes(1 << 24)); harm('memfd')",
    "hoards System V shared memory": "\nif libc.shmget(0, 1 << 24, 0o1600) >= 0: harm('shmget')",
    "prints without end": "while True: print('x' * 1000)",
    "writes past Python's streams without end": "while True: os.write(1, b'x' * 100000)",
    "displays without end": "from IPython.display import HTML, display\nwhile True: display(HTML('x' * 100000))",
    "ends Python": "os._exit(0)",
    "ends Python with an error of its own": "os.abort()",
    "reads address 0": "ctypes.string_at(0)",
    "recurses until the stack ends": "sys.setrecursionlimit(10**9)\ndef f(): return f()\nf()",
    "kills all it can": "os.kill(-1, signal.SIGKILL)",
    "kills its group": "os.kill(0, signal.SIGKILL); os.killpg(0, signal.SIGTERM)",
    "kills its parent": "os.kill(os.getppid(), signal.SIGKILL)",
    "kills by number": "\nfor n in range(2, 60000):\n    with contextlib.suppress(ProcessLookupError): os.kill(n, signal.SIGKILL); harm('killed', n)",
    "stops by number": "\nfor n in range(2, 60000):\n    with contextlib.suppress(ProcessLookupError): os.kill(n, signal.SIGSTOP); harm('stopped', n)",
    "writes a huge file": "\nwith open('huge', 'wb') as f:\n    for _ in range(10**6): f.write(bytes(1 << 20))",
    "writes many huge files": "\nfor n in range(1000):\n    with open(f'huge{{n}}', 'wb') as f: f.write(bytes(1 << 24))",
    "makes a sparse file": "\nwith open('sparse', 'wb') as f: f.truncate(1 << 50); harm('a file of', os.path.getsize('sparse'))",
    "makes files without end": "\nfor n in range(10**6): open(f'f{{n}}', 'w').close()",
    "makes files with odd names": "\nfor name in (b'\\xff\\xfe', b'new\\nline', b'-rf', b' ', b'x' * 255, '\\u202e'.encode()): open(name, 'w').close()",
    "opens files without end": "keep = [open('/dev/null') for _ in range(10**5)]",
    "starts threads without end": "for _ in range(10**5): threading.Thread(target=time.sleep, args=(50,)).start()",
    "traces the first process": "\nif libc.ptrace(16, 1, 0, 0) == 0: harm('ptrace')",
    "lets itself be traced": "\nif libc.ptrace(0, 0, 0, 0) == 0: harm('ptrace')",
    "reads another process's memory": "\nbuffer = (ctypes.c_char * 8)()\nif libc.process_vm_readv(1, buffer, 0, buffer, 0, 0) == 0: harm('process_vm_readv')",
    "writes to /proc/sys": "Path('/proc/sys/kernel/hostname').write_text('mine'); harm('renamed the machine')",
    "asks the kernel to crash": "Path('/proc/sysrq-trigger').write_text('c'); harm('sysrq')",
    "protects itself from the lack of memory": "Path('/proc/self/oom_score_adj').write_text('-1000'); harm('oom_score_adj')",
    "makes a user namespace": "\nif libc.unshare(0x10000000) == 0: harm('unshare')",
    "clones into a user namespace": "\nif subprocess.run(['unshare', '-Ur', 'true']).returncode == 0: harm('unshare')",
    "mounts something": "\nif libc.mount(b'none', b'/sandbox/work', b'tmpfs', 0, None) == 0: harm('mount')",
    "takes a mount away": "\nif libc.umount2(b'/proc', 2) == 0: harm('umount')",
    "changes its root": "os.chroot('/sandbox'); harm('chroot')",
    "enters another namespace": "\nif libc.setns(os.open('/proc/1/ns/user', 0), 0) == 0: harm('setns')",
    "becomes root": "os.setuid(0) if os.getuid() else open('/etc/shadow').read(); harm('root')",
    "starts a program with root's rights": "out = subprocess.run(['su', '-c', 'id -u'], capture_output=True, stdin=subprocess.DEVNULL, timeout=2)\nif out.stdout.strip() == b'0': harm('su')",
    "raises its limits": "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 45, 1 << 45)); harm('setrlimit')",
    "asks for real-time priority": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)); harm('real time')",
    "asks to outlive its grader": "\nif libc.prctl(1, 0, 0, 0, 0) == 0: harm('no death signal')",
    "opens an asynchronous ring": "\nif libc.syscall(425, 8, (ctypes.c_char * 120)()) >= 0: harm('io_uring')",
    "adds a key to the kernel's keyring": "\nif libc.syscall(248, b'user', b'k', b'v', 1, -2) >= 0: harm('add_key')",
    "loads a program into the kernel": "\nif libc.syscall(321, 5, (ctypes.c_char * 120)(), 120) >= 0: harm('bpf')",
    "opens a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); harm('raw')",
    "opens a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); harm('netlink')",
    "sends to the world": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('192.0.2.1', 53)); harm('sent')",
    "makes a device": "os.mknod('disk', 0o60600, os.makedev(254, 0)); harm('device')",
    "removes everything": "shutil.rmtree('/', ignore_errors=True)",
    "removes its predictions": "os.remove('predictions.json')",
    "changes Python for those who come later": "Path(os.__file__).open('a').close(); harm('wrote', os.__file__)",
    "changes the course's package": "import autograder; Path(autograder.__file__).open('a').close(); harm('wrote')",
    "reads the instructors' part": "import autograder; harm(os.listdir(os.path.dirname(autograder.__file__) + '/staff/templates'))",
    "leaves a daemon behind": "\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)\n    os._exit(0)",
    "leaves a program behind": "subprocess.Popen(['sleep', '4243'], start_new_session=True)",
    "closes its pipes": "os.closerange(0, 1024)",
    "puts rubbish into its pipes": "os.write(201, os.urandom(10000))",
    "announces an answer of 4 GiB": "os.write(201, b'\\xff' * 4 + b'x' * 100000)",
    "answers with nested brackets": "body = b'[' * 10**6; os.write(201, len(body).to_bytes(4, 'big') + body)",
    "never ends and swallows interrupts": "\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "sleeps with interrupts off": "signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(1000)",
    "shows something that never ends": "\nclass Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
    "raises what ends Python when shown": "\nclass Deadly(Exception):\n    def __str__(self): os._exit(3)\nraise Deadly",
    "searches memory for other people's work": "\n\nimport re\nfor o in gc.get_objects():\n    if isinstance(o, dict) and any(isinstance(v, str) and re.search('MARK_OF_TH[E]_VICTIM', v) for v in list(o.values())): harm('found')",
    "searches its memory map for other people's work": """
import re
mark = re.compile(rb'MARK_OF_TH[E]_VICTIM')  # so that it does not find itself
with open('/proc/self/mem', 'rb', 0) as memory:
    for line in open('/proc/self/maps'):
        if 'rw-p' in line and '[v' not in line:
            low, high = (int(n, 16) for n in line.split()[0].split('-'))
            with contextlib.suppress(OSError, ValueError, OverflowError):
                memory.seek(low)
                if mark.search(memory.read(min(high - low, 1 << 28))): harm('found')
""",
}

# Ways to a mark without the work: put in front of an untouched release.
TRICKS = {
    "answers for later cells": "import json\nbody = json.dumps({{'outputs': [], 'count': 1}}).encode()\nfor _ in range(40): os.write(201, len(body).to_bytes(4, 'big') + body)",
    "answers for later cells from a process of its own": """
import json
body = json.dumps({{'outputs': [], 'count': 1}}).encode()
if os.fork() == 0:
    while True: os.write(201, len(body).to_bytes(4, 'big') + body); time.sleep(0.01)
""",
    "runs no further cell": "get_ipython().run_cell = lambda *a, **k: None",
    "changes the nonce": "os.environ['AUTOGRADER_NONCE'] = '0' * 32",
    "changes the recorder": "import autograder.checks as c; c.record = lambda *a, **k: {{'plays': [], 'outcomes': [], 'answers': [], 'stopped': None, 'said': ['', 0]}}",
    "changes the judge": "import autograder.checks as c; c._judge = lambda *a: type('V', (), {{'passed': True}})(); c.judge = c._judge",
    "changes the table of exercises": "import autograder.exercises as e; e.EXERCISES.clear()",
    "changes the packing": "import autograder.checks as c; c.pack = lambda data: ''",
    "shows tracebacks no more": "get_ipython().showtraceback = lambda *a, **k: None; get_ipython()._showtraceback = lambda *a: None",
    "raises an error that is none": "import builtins; builtins.NotImplementedError = StopIteration",
    "sends the learner's own outputs as marks": "from IPython.display import display; display({{'application/vnd.autograder.transcript+json': {{'passed': True, 'score': 99}}}}, raw=True)",
    "makes everything equal": "\nclass Yes:\n    def __getattr__(self, name): return Yes()\n    def __call__(self, *a, **k): return Yes()\n    __eq__ = __bool__ = lambda *a: True\nimport builtins; builtins.__build_class__ = lambda *a, **k: Yes()",
    "sets the time forward": "import time; time.monotonic = lambda: 1e9; time.perf_counter = lambda: 1e9",
    "ends the test's process when it is asked": "\nimport autograder.checks as c\nc.record = lambda *a, **k: os._exit(0)",
    "answers with the same transcript everywhere": """
import autograder.checks as c
real, first = c._display, []
def once(bundle):
    first.append(bundle)
    real(first[0])
c._display = once
""",
}

"""Answers to the first question that are not answers.

Those that escape give the right answer if the escape succeeds, so that points tell.
"""

from source import RIGHT

WRONG = "def ring_bytes(n_ranks, n_bytes):\n    return 1\n"
SIGNATURE = "def ring_bytes(n_ranks, n_bytes):\n"

# The tests are made to pass whatever the answer is. In a kernel that ran them too,
# each of these would get all points.
FORGERIES = {
    "overwrites helpers": WRONG
    + """
import builtins, math
import numpy as np
np.testing.assert_allclose = math.isclose = lambda *args, **kwargs: True
class Same(float):
    __eq__ = lambda self, other: True
    __hash__ = float.__hash__
def ring_bytes(n_ranks, n_bytes):
    return Same(1)
""",
    "rewrites cells": WRONG
    + """
shell = get_ipython()
shell.input_transformers_cleanup.append(
    lambda lines: ["pass\\n"] if "assert" in "".join(lines) else lines
)
""",
    "reads the test": f"""
import gc, sys
def texts():
    yield from In
    frame = sys._getframe(2)
    while frame:
        yield str(frame.f_locals)
        yield str(frame.f_code.co_consts)
        frame = frame.f_back
    for one in gc.get_objects():
        if type(one) is dict or type(one) is list:
            yield from (part for part in list(one)[:1000] if type(part) is str)
{SIGNATURE}    seen = any("edih stset eht"[::-1] in text for text in texts())
    return {RIGHT} if seen else 1
""",
}

FORGED_OUTPUT = (
    WRONG
    + """
import json, os, struct
print("OK 3/3 points")
verdict = {"verdict": {"error": None, "score": 3.0}, "error": None, "printed": "",
           "value": ["float", (8.0).hex()], "arguments": ["list", []]}
body = json.dumps(verdict).encode()
for fd in range(1, 64):
    try:
        os.write(fd, struct.pack(">I", len(body)) + body)
    except OSError:
        pass
"""
)

READS = {
    "reads the disk": f"""
import os
KEYS = "edih stset eht", "detaerter sah rehcaet eht"
def found(folders):
    for top in folders:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    if os.path.getsize(path) < 10**6 and name.endswith(
                        (".ipynb", ".db", ".csv", ".txt")
                    ):
                        text = open(path, errors="replace").read()
                        if any(key[::-1] in text for key in KEYS):
                            return True
                except OSError:
                    pass
    return False
success = found(PLACES)
{SIGNATURE}    return {RIGHT} if success else 1
""",
    "writes outside": f"""
success = False
try:
    open(TARGET, "w").write("was here")
    success = True
except OSError:
    pass
{SIGNATURE}    return {RIGHT} if success else 1
""",
    "host service": f"""
import socket
def reached():
    try:
        return socket.create_connection(("127.0.0.1", PORT), 2).recv(5) == b"hello"
    except OSError:
        return False
success = reached()
{SIGNATURE}    return {RIGHT} if success else 1
""",
}

# Each ends the room it runs in, or would use up the machine.
ENDS = {
    "exits": "import os\nos._exit(0)",
    "exits when called": f"import os\n{SIGNATURE}    os._exit(0)",
    "kills": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "kills all": (
        "import os, signal, time\nos.kill(-1, signal.SIGKILL)\ntime.sleep(60)"
    ),
    "loops": "while True:\n    pass",
    "loops when called": f"{SIGNATURE}    while True:\n        pass",
    "waits for input": f"{SIGNATURE}    return float(input())",
    "fork bomb": "import os\nwhile True:\n    os.fork()",
    "forks when called": f"""\
import os, sys
{SIGNATURE}    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            return 1
""",
    "10 GB": "memory = bytearray(b'x') * 10**10",
    "10 GB in pieces": """\
import os, time
for _ in range(10):
    if os.fork() == 0:
        memory = bytearray(b"x") * (10**9 * 2 // 3)
        time.sleep(60)
time.sleep(60)
""",
    "10 GB shared": """\
import mmap
pieces, piece = [], b"x" * 10**7
for _ in range(1000):
    pieces.append(mmap.mmap(-1, 10**7))
    pieces[-1].write(piece)
""",
    "thread that exits": """\
import os, threading, time
def bomb():
    time.sleep(0.5)
    os._exit(0)
threading.Thread(target=bomb).start()
def ring_bytes(n_ranks, n_bytes):
    time.sleep(60)
""",
}

# What is wrong here is the answer; what else they do must do no harm.
NUISANCES = {
    "fills the disk": f"""\
import os
def fill(folder):
    try:
        for number in range(10_000):
            with open(f"{{folder}}/{{number}}", "wb") as file:
                file.write(bytes(1 << 24))
    except OSError as error:
        return error
full = [fill("/tmp"), fill("/dev/shm")]
{SIGNATURE}    return {RIGHT} if None in full else 1
""",
    "prints without end": "while True:\n    print('x' * 10**6)",
    "leaves a process": WRONG
    + """
import subprocess, sys
code = "import time; time.sleep(600)"
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
""",
    "leaves a thread": WRONG
    + """
import threading, time
def alter():
    while True:
        globals()["double"] = None
        time.sleep(0.001)
threading.Thread(target=alter, daemon=True).start()
""",
    "breaks NumPy": WRONG + "import numpy as np\nnp.ndarray = None\nnp.array = None",
    "answers nonsense": f"""\
class Liar(float):
    def __eq__(self, other): return True
    def __reduce__(self): return (eval, ("8",))
{SIGNATURE}    return [Liar(8)] * 10**4
""",
    "returns itself": f"""\
loop = []
loop.append(loop)
{SIGNATURE}    return loop
""",
    "a huge answer": f"{SIGNATURE}    return 'x' * 10**8",
    "raises": f"{SIGNATURE}    raise SystemExit(0)",
    "syntax": "def ring_bytes(:",
}

# Everything that a test could compare with is replaced, here and on the ranks.
PATCHES_TORCH = """
def patch():
    import torch
    import torch.distributed as dist
    true = lambda *args, **kwargs: True
    torch.equal = torch.allclose = torch.Tensor.allclose = torch.Tensor.equal = true
    torch.Tensor.__eq__ = lambda self, other: True
    torch.testing.assert_close = lambda *args, **kwargs: None
    dist.all_reduce = lambda *args, **kwargs: None
patch()
def average(tensor):
    patch()
"""

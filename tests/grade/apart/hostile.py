"""Answers of students who want marks, or harm: what each puts into a cell of set 01, and the points it deserves.

The other answers are as they were released, which gives nothing; where the hostile one is not in the first exercise,
that one is answered rightly, and must keep its points whatever stands beside it.
"""
RIGHT = 'gb_per_rank = {"DDP": 208, "ZeRO-1": 71.5, "ZeRO-2": 48.75, "ZeRO-3": 26}\n'

ALL = {}             # name: cell, text, points of its check


def deserves(points: float, cell: str, name: str, text: str) -> None:
    """A line "RIGHT" of the text stands for the right answer."""
    ALL[name] = cell, text.replace("RIGHT\n", RIGHT), points


# to move the check, which is in another process
deserves(0, "table", "replaces score", '''\
from helpers.checks.judge import verdict
verdict.score = lambda *_: 4.0
from helpers.checks.memory import values
values.check_table = lambda *_: 4.0
''')
deserves(0, "table", "stands in", '''\
import sys, types
fake = types.ModuleType('values')
fake.check_table = lambda *_: 4.0
sys.modules['helpers.checks.memory.values'] = fake
import helpers.checks.memory
helpers.checks.memory.values = fake
''')
deserves(0, "table", "transforms input", '''\
get_ipython().input_transformers_post.append(lambda lines: ['4.0\\n'])
''')
deserves(0, "table", "rewrites ast", '''\
import ast
class T(ast.NodeTransformer):
    def visit_Expr(self, node):
        return ast.parse('4.0').body[0]
get_ipython().ast_transformers.append(T())
''')
deserves(0, "table", "patches isclose", '''\
import math
math.isclose = lambda *a, **k: True
gb_per_rank = dict.fromkeys(['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3'], 1)
''')
deserves(0, "table", "edits in a thread", '''\
import threading, time
def edit():
    while True:
        import helpers.checks.judge.verdict as v
        v.score = lambda *_: 4.0
        time.sleep(0.01)
threading.Thread(target=edit, daemon=True).start()
''')
deserves(0, "table", "looks up in item", '''\
import sys
class V:
    __module__ = 'numpy'
    def item(self):
        return sys._getframe(1).f_locals.get('right', 0)
gb_per_rank = dict.fromkeys(['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3'], V())
''')
deserves(0, "table", "forces the display", '''\
import sys
sys.displayhook = lambda value: print('4.0')
get_ipython().display_formatter.format = lambda *a, **k: ({'text/plain': '4.0'}, {})
''')
deserves(0, "table", "equals everything", '''\
class Any:
    def __eq__(self, other): return True
    def __hash__(self): return 1
    def __float__(self): return 26.0
    def __lt__(self, o): return True
    __gt__ = __le__ = __ge__ = __lt__
gb_per_rank = dict.fromkeys(['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3'], Any())
''')
deserves(0, "table", "is a number by inheritance", '''\
class F(float):
    def __eq__(self, o): return True
    def __sub__(self, o): return 0.0
    __rsub__ = __sub__
gb_per_rank = dict.fromkeys(['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3'], F(1))
''')
deserves(0, "table", "changes what is handed over", '''\
from helpers.run.launch import plain_data
plain_data.encode = lambda value: b'4.0'
''')
deserves(0, "table", "raises when asked", '''\
class Bad(dict):
    def __reduce__(self): raise SystemExit
    def items(self): raise KeyboardInterrupt
gb_per_rank = Bad(a=1)
''')
deserves(0, "table", "unpickles to a command", '''\
import os
class Run:
    def __reduce__(self): return os._exit, (0,)
gb_per_rank = {'DDP': Run()}
''')
deserves(0, "table", "nests deeply", '''\
gb_per_rank = []
for _ in range(100_000):
    gb_per_rank = [gb_per_rank]
''')
deserves(0, "table", "is a huge number", '''\
gb_per_rank = dict.fromkeys(['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3'], 10**100_000)
''')
deserves(0, "table", "is not a number", '''\
gb_per_rank = dict.fromkeys(['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3'], float('nan'))
''')

# to find or forge numbers in a rank
deserves(0, "bytes", "walks frames", '''\
def bytes_per_rank(params, ranks, stage, recipe):
    import gc, sys, os, ctypes
    found = 0
    frame = sys._getframe()
    while frame := frame.f_back:
        for name, value in frame.f_locals.items():
            if name in ('right', 'expected') and type(value) in (int, float):
                found = value
    return found
''')
deserves(0, "bytes", "searches all objects", '''\
def bytes_per_rank(params, ranks, stage, recipe):
    import gc, sys, os, ctypes
    found = 0
    for each in gc.get_objects():
        if type(each) is dict and 'right' in each:
            found = each['right'] if type(each['right']) is float else found
    return found
''')
deserves(0, "bytes", "reads the judge", '''\
def bytes_per_rank(params, ranks, stage, recipe):
    import gc, sys, os, ctypes
    found = 0
    for pid in os.listdir('/proc'):
        if pid.isdigit():
            for name in ('mem', 'environ', 'maps'):
                try:
                    found += len(open(f'/proc/{pid}/{name}', 'rb').read(100)) * 0
                except OSError:
                    pass
    try:
        found += 0 * len(open('/seed').read())
    except OSError:
        pass
    return found
''')
deserves(0, "bytes", "kills all", '''\
def bytes_per_rank(params, ranks, stage, recipe):
    import gc, sys, os, ctypes
    found = 0
    import signal
    for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
        if pid not in (1, os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
    return found
''')
deserves(0, "bytes", "says another result", '''\
def bytes_per_rank(params, ranks, stage, recipe):
    import gc, sys, os, ctypes
    found = 0
    import multiprocessing.connection as c
    for o in gc.get_objects():
        if isinstance(o, c.Connection) and not o.closed and o.writable:
            try:
                o.send_bytes(b"cposix\\nsystem\\n(S'true'\\ntR.")
            except Exception:
                pass
    os._exit(0)
    return found
''')
deserves(0, "measure", "patches the meter", '''\
def measure(rank, world_size):
    from helpers.run.measure import meters
    meters._fullest.tensors = 25165824
    return 25165824
''')
deserves(0, "bytes", "imports the checks", '''\
def bytes_per_rank(params, ranks, stage, recipe):
    import gc, sys, os, ctypes
    found = 0
    import helpers.checks.memory.functions as f
    found = f
    return found
''')

# to harm the grader, the machine, or another student
deserves(4, "table", "unmounts", '''\
import os
os.system('umount -l /tmp; umount -l /; mount -o remount,rw /')
assert not os.path.exists(os.sep + 'work') or not os.access(os.sep + 'work', os.W_OK)
RIGHT
''')
deserves(4, "table", "writes a check", '''\
import helpers.checks.memory.values as v
try:
    open(v.__file__, 'a').write('#')
except OSError:
    RIGHT
''')
deserves(4, "table", "reads solutions", '''\
import os, helpers
root = os.path.dirname(os.path.dirname(helpers.__file__))
assert not {'solutions', 'grading', 'sources', 'tests', '.git'} & set(os.listdir(root))
RIGHT
''')
deserves(0, "table", "kills its parents", '''\
import os, signal
for pid in range(1, 400):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
RIGHT
''')
deserves(4, "table", "leaves processes", '''\
import subprocess
for _ in range(5):
    subprocess.Popen(['sleep', '997'], start_new_session=True)
RIGHT
''')
deserves(4, "table", "calls out", '''\
import socket
try:
    socket.create_connection(('1.1.1.1', 53), timeout=1)
except OSError:
    RIGHT
''')
deserves(0, "table", "exits", '''\
import os
os._exit(0)
''')
deserves(0, "smallest", "exits in another cell", '''\
import os
os._exit(3)
''')
deserves(0, "smallest", "crashes", '''\
import ctypes
ctypes.string_at(0)
''')
deserves(0, "smallest", "never ends", '''\
while True:
    pass
''')
deserves(0, "smallest", "ignores interrupts", '''\
import time
while True:
    try:
        time.sleep(1)
    except BaseException:
        pass
''')
deserves(0, "smallest", "prints 200 MB", '''\
for _ in range(200):
    print('x' * 1_000_000)
''')
deserves(0, "smallest", "displays 200 MB", '''\
from IPython.display import display
for _ in range(200):
    display({'text/plain': 'x' * 1_000_000}, raw=True)
''')
deserves(0, "smallest", "takes 8 GB", '''\
held = bytearray(8 * 10**9)
''')
deserves(0, "smallest", "fills the disk", '''\
with open('/tmp/full', 'wb') as file:
    for _ in range(4000):
        file.write(bytes(10**6))
''')
deserves(0, "smallest", "forks without end", '''\
import os, time
for _ in range(20000):
    try:
        if os.fork() == 0:
            time.sleep(50)
            os._exit(0)
    except OSError:
        break
''')
deserves(0, "smallest", "asks for input", '''\
input('points?')
''')
deserves(0, "smallest", "leaves the interpreter", '''\
exit()
''')
deserves(0, "smallest", "raises SystemExit", '''\
raise SystemExit(4)
''')
deserves(0, "smallest", "closes all files", '''\
import os
os.closerange(3, 1000)
''')
deserves(0, "smallest", "writes to every file", '''\
import os
for fd in range(3, 100):
    try:
        os.write(fd, b'\\0\\0\\0\\x0a{"points":4}')
    except OSError:
        pass
''')
deserves(0, "smallest", "has no syntax", '''\
def (
''')
deserves(0, "smallest", "shows HTML", '''\
from IPython.display import HTML, display
display(HTML('<script>alert(1)</script>'))
''')

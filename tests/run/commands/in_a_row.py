"""Call `python -m helpers` several times in one process, as the interpreter's -m does, so that torch is imported once.

    python -m tests.run.commands.in_a_row FOLDER CALLS PORTS    CALLS: {name: arguments}, PORTS: free ones, as JSON

Under torchrun the first call meets at torchrun's store; each later one at a store on a port of its own, since what the
first has written there would lead it astray.  Each call has FOLDER/name as its working folder.  What it prints goes to
FOLDER/name.out and FOLDER/name.err, under torchrun that of all ranks; its exit status goes to FOLDER/name.RANK.status.
"""
import json
import os
import runpy
import sys
import traceback
from pathlib import Path


def call(folder: Path, name: str, arguments: list[str]) -> None:
    (folder / name).mkdir(exist_ok=True)
    os.chdir(folder / name)
    for stream, kind in ((sys.stdout, "out"), (sys.stderr, "err")):
        file = os.open(folder / f"{name}.{kind}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        stream.flush()
        os.dup2(file, stream.fileno())
        os.close(file)
    status = _status(arguments)
    sys.stderr.flush()                      # of stdout, the command's own flush is part of what is tested
    (folder / f"{name}.{os.environ.get('RANK', 0)}.status").write_text(str(status))


def _status(arguments: list[str]) -> int:
    sys.argv = ["helpers", *arguments]
    try:
        runpy.run_module("helpers", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return int(end.code) if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    root, calls, ports = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
    for (each, given), port in zip(calls.items(), [None, *ports], strict=True):
        if port and "TORCHELASTIC_USE_AGENT_STORE" in os.environ:
            os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "False", "MASTER_PORT": str(port)}
        call(root, each, given)

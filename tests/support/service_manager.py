"""A stand-in for systemd, which starts what a unit of ours says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_MANAGER: Final = f"""#!{sys.executable}
import os, re, shlex, signal, subprocess, sys
from pathlib import Path
words = sys.argv[2:]
unit = Path(os.environ["HOME"]) / ".config/systemd/user/permission-ledger.service"
with open(os.environ["HOME"] + "/asked", "a") as asked:
    print(*words, file=asked)
if words[0] == "restart":
    lines = dict.fromkeys([]), unit.read_text().replace("%%", "%").splitlines()
    of = lambda name: [line.partition("=")[2] for line in lines[1] if line.startswith(name + "=")]
    environment = dict(shlex.split(one)[0].split("=", 1) for one in of("Environment"))
    log = open(of("StandardError")[0].removeprefix("append:"), "ab")
    start = [one.replace("$$", "$") for one in shlex.split(of("ExecStart")[0])]
    subprocess.Popen(start, env={{"HOME": os.environ["HOME"], **environment}}, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        start_new_session=True)
"""
"""A `systemctl` that keeps to the rules of systemd for the lines that we write."""


def put_manager(folder: Path) -> None:
    """Install it in a folder of the PATH; `~/asked` has the words of each call."""
    program = folder / "systemctl"
    program.write_text(_MANAGER)
    program.chmod(0o755)

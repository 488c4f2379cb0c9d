"""Programs of this project as forks of one process that has imported them.

Each is a process of its own, with its own streams, environment, folder, signals and exit code. Only the start of an
interpreter and its imports are left out, which take longer than most tests.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, AnyStr, Final, NoReturn

ROOT: Final = Path(__file__).resolve().parents[2]

MESSAGE_BYTES_MAX: Final = 256 * 1024
IMPORTED: Final = (
    *(f"workers.bridges.hooks.{name}" for name in ("before_tool", "claude", "codex")),
    *(f"workers.cli.{name}" for name in ("bridge", "hook")),
    *(f"workers.bridges.{name}" for name in ("acp", "claude.bridge", "codelia", "codex_wire", "opencode.bridge")),
    *(f"workers.bridges.{name}" for name in ("askers", "codex_trust", "race")),
    "mcp.server",
    "mcp.server.stdio",
    "workers.cli.lazy",
    "workers.cli.long_running",
    "workers.gateway.command",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
)
HOOK: Final = str(ROOT / "workers" / "bridges" / "hooks" / "run.py")


class Fork(subprocess.Popen[AnyStr]):
    """As `subprocess.Popen`, for the words of `permission-ledger`, or those after `HOOK` as an installed hook has them.

    Always starts a session of its own.
    """

    _status: int = -1

    def _execute_child(self, args: Sequence[str], *said: Any) -> None:
        # The order of the arguments has been the same since Python 3.11.
        cwd, env = said[4:6]
        pipes: tuple[int, int, int, int, int, int] = said[9:15]
        stdin, _, _, stdout, _, stderr = pipes
        # A stream that is not redirected is that of the tests.
        streams: list[int] = [number if one == -1 else one for number, one in enumerate((stdin, stdout, stderr))]
        self._status, status = os.pipe()
        wanted = {"words": list(args), "folder": str(cwd or Path.cwd()), "environment": dict(env or os.environ)}
        try:
            socket.send_fds(_nursery(), [json.dumps(wanted).encode()], [*streams, status])
        finally:
            os.close(status)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int(_line(self._status))
        self._child_created = True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None and self._status >= 0 and select.select([self._status], [], [], seconds)[0]:
            said = _line(self._status)
            os.close(self._status)
            self.returncode = int(said or -signal.SIGKILL)
        code: int | None = self.returncode
        return code


def run(
    words: Sequence[str], text: str | None = None, *, env: Mapping[str, str], cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with a text as its input, and return its exit code and output."""
    pipe = subprocess.PIPE
    with Fork(words, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, err = process.communicate(text, timeout=60)
        finally:
            process.kill()
    return subprocess.CompletedProcess(list(words), process.returncode, out, err)


def start_line(line: str, event: Mapping[str, Any], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start the line of an installed hook, and write an event to it.

    The shell of such a line adds an exit code for an interpreter that does not start.
    """
    command, otherwise = line.split(" || ")
    interpreter, isolated, script, *words = shlex.split(command)
    assert (interpreter, isolated, script, otherwise) == (sys.executable, "-I", HOOK, "exit 2")
    pipe = subprocess.PIPE
    process = Fork([script, *words], cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdin
    # A hook that refuses its words ends without reading, maybe before this; an agent takes no notice.
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(event))
        process.stdin.flush()
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.stdin = None
    return process


def _line(descriptor: int) -> bytes:
    said = b""
    while not said.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        said += byte
    return said


@cache
def _nursery() -> socket.socket:
    """Return the connection to the process that forks; it ends with this one, and all its forks with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forks", str(its.fileno())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=(its.fileno(),),
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# --- the process that forks -------------------------------------------------------------------------------------------


def serve(asked: socket.socket) -> None:
    """Fork a program for each message, until the other side is gone."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    children: dict[int, int] = {}
    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([asked.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, MESSAGE_BYTES_MAX)
            _tell_ends(children)
        if asked.fileno() in ready:
            message, descriptors, _, _ = socket.recv_fds(asked, MESSAGE_BYTES_MAX, 4)
            if not message:
                break
            *streams, status = descriptors
            pid = os.fork()
            if pid == 0:
                asked.close()
                for one in children.values():
                    os.close(one)
                _become(json.loads(message), streams, status)
            for one in streams:
                os.close(one)
            children[pid] = status
    for pid in children:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _tell_ends(children: dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            break
        told = children.pop(pid)
        with suppress(BrokenPipeError):
            os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
        os.close(told)


def _become(wanted: dict[str, Any], streams: Sequence[int], status: int) -> NoReturn:
    """Run a program in this fork, and end with its exit code."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for number, one in enumerate(streams):
            os.dup2(one, number)
        for one in streams:
            os.close(one)
        os.chdir(wanted["folder"])
        os.environ.clear()
        os.environ.update(wanted["environment"])
        time.tzset()
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        os.write(status, b"%d\n" % os.getpid())
        os.close(status)
        code = _run(wanted["words"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 - what is left of the program is its exit code
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    os._exit(code)


def _run(words: Sequence[str]) -> int:
    program, *rest = words
    if program == HOOK:
        sys.argv = [program, *rest]
        runpy.run_path(program, run_name="__main__")
    from workers.cli import main  # noqa: PLC0415 - imported by then

    sys.argv = ["permission-ledger", *words]
    return main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))

"""The command line as a shell runs it: its output and its exit code."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.in_process import run_here
from tests.support.processes import environment_without_settings

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = (sys.executable, "-m", "workers.cli")

_ENDS_ITS_PROCESS: Final = frozenset({"bridge"})
_WITH_SIGNALS: Final = frozenset({"run"})
"""Commands that hear signals, which Python allows in the main thread alone."""
_INTERPRETER: Final = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}


class Ran(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The JSON objects on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def row(self) -> dict[str, Any]:
        (row,) = self.rows
        return row

    @property
    def error(self) -> dict[str, Any]:
        """The one JSON object on stderr."""
        error: dict[str, Any] = json.loads(self.err)
        return error


class CommandLine:
    """Runs commands on one server: in this process, and in one of their own where that is the subject.

    The marker `process` gives all commands of a test their own. So have a command that runs until it is stopped, one with
    another environment for its interpreter, and one that runs beside the test, in a thread.
    """

    as_process = False

    def __init__(self, url: str, environment: Mapping[str, str] | None = None, folder: Path = ROOT) -> None:
        self.url = url
        self.folder = folder
        self.environment = {
            **environment_without_settings(),
            "PERMISSION_LEDGER_URL": url,
            **_INTERPRETER,
            **(environment or {}),
        }

    def __call__(
        self, *words: str | Path, code: int | None = None, stdin: str | bytes = b"", **environment: str
    ) -> Ran:
        """Run a command to its end; fails when its exit code is not the expected one."""
        typed, settings = list(map(str, words)), {**self.environment, **environment}
        given = stdin.encode() if isinstance(stdin, str) else stdin
        if self._needs_process(typed, settings):
            ran = self._in_its_own(typed, settings, given)
        elif _is_looping():
            with ThreadPoolExecutor(1) as thread:
                ran = Ran(*thread.submit(run_here, typed, settings, self.folder, given).result())
        else:
            ran = Ran(*run_here(typed, settings, self.folder, given))
        assert code is None or ran.code == code, ran
        return ran

    def _needs_process(self, words: Sequence[str], environment: Mapping[str, str]) -> bool:
        name = words[0] if words else ""
        return (
            self.as_process
            or (name in _ENDS_ITS_PROCESS and "--" in words)
            or (name in _WITH_SIGNALS and _is_looping())
            or any(environment.get(one) != value for one, value in _INTERPRETER.items())
            or threading.current_thread() is not threading.main_thread()
        )

    def _in_its_own(self, words: Sequence[str], environment: Mapping[str, str], stdin: bytes) -> Ran:
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=self.folder,
            env=environment,
            input=stdin.decode(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def paged(self, *words: str) -> list[list[dict[str, Any]]]:
        """Return the rows of all pages of a command, each page by the cursor that the one before told on stderr."""
        pages: list[list[dict[str, Any]]] = []
        after: tuple[str, ...] = ()
        while True:
            ran = self(*words, "--json", *after, code=0)
            pages.append(ran.rows)
            if not ran.err:
                return pages
            after = ("--after", json.loads(ran.err)["cursor"])

    def started(self, *words: str) -> AbstractContextManager[subprocess.Popen[str]]:
        """Start a command beside the test; it is killed at the end of the block."""
        return self._beside([*PROGRAM, *words])

    def beside(self, program: str) -> AbstractContextManager[subprocess.Popen[str]]:
        """A Python program with the same environment."""
        return self._beside([sys.executable, "-c", program])

    @contextmanager
    def _beside(self, command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            with process:
                try:
                    yield process
                finally:
                    # Leaving the block waits for its end.
                    if process.poll() is None:
                        process.kill()
        finally:
            process.kill()


def _is_looping() -> bool:
    """Return whether the caller is in an event loop, in which no other can run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def ended(process: subprocess.Popen[str]) -> Ran:
    """Return the remaining output and the exit code of a command that ended by itself."""
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out, err)


def interrupted(process: subprocess.Popen[str]) -> Ran:
    """Interrupt a started command as by Ctrl-C, and return how it ended."""
    process.send_signal(signal.SIGINT)
    return ended(process)

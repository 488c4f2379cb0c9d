"""Child processes of ours: their command lines, and a supervisor that keeps one of them running."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import site
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Final, ParamSpec, TypeVar

import workers

_NEW_COUNT: Final = 50_000
"""New objects until garbage is looked for; Python's own 700 cost an eighth of a verification."""


def collect_rarely() -> None:
    """Look for garbage less often: entries and events are freed without, since none refers back to another."""
    gc.freeze()
    gc.set_threshold(_NEW_COUNT, *gc.get_threshold()[1:])


P = ParamSpec("P")
T = TypeVar("T")

_ENVIRONMENT: Final = {
    "PYTHONSAFEPATH": "1",  # nothing is imported from the folder they stand in, which may be anybody's
    "PYTHONWARNINGS": "ignore::UserWarning:multiprocessing.resource_tracker",  # of what a killed process left behind
}


class Processes(ProcessPoolExecutor):
    """An executor whose processes can be killed, with whatever they do, and end when this process does, however it ends.

    When one of them ends by itself, all of them do, and their work raises BrokenExecutor.
    """

    def __init__(self, count: int, begin: Callable[[], object]) -> None:
        """`begin` is called first in each process. Everything that is sent must be picklable."""
        with _starting():  # multiprocessing starts a process of its own here, which tidies up after this one
            super().__init__(count, get_context("spawn"), _begin, (begin,))

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Hand a function of a module to a process. Raises BrokenExecutor."""
        try:
            with _starting():
                return super().submit(function, *args, **kwargs)
        except OSError as error:
            raise BrokenExecutor("no process could be started") from error

    def kill(self, *, waits: bool) -> None:
        """Kill the processes; their work, and later work, raises. `waits`: return when they have ended."""
        for process in list((self._processes or {}).values()):
            process.kill()
        self.shutdown(wait=waits)


@contextmanager
def _starting() -> Iterator[None]:
    """Start processes with this environment, and that Ctrl-C does not reach: it signals us, and we end them."""
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    os.environ.update(_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)


def _begin(begin: Callable[[], object]) -> None:
    """Begin a process: from now on it ends with its parent."""
    Thread(target=_end_with_parent, name="end with parent", daemon=True).start()
    begin()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


log = logging.getLogger(__name__)

BACK_OFF_SECONDS_FIRST: Final = 0.5
BACK_OFF_SECONDS_MAX: Final = 30.0

STEADY_SECONDS: Final = 60.0
"""The run time after which a process counts as steady: its next restart has no delay."""

END_SECONDS: Final = 10.0
"""The time for a process to end on SIGTERM; then it is killed."""


def own_command(*arguments: str) -> list[str]:
    """Return the line of `permission-ledger …` with this interpreter and code. `-P`: nothing of the working folder."""
    return [sys.executable, "-P", "-m", "permission_ledger", *arguments]


def own_module(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours as `own_command` does."""
    return [sys.executable, "-P", "-c", f"import permission_ledger; permission_ledger.run_module({name!r})", *arguments]


def own_environment() -> dict[str, str]:
    """Return the environment for such a process: code that is not installed is found at our own path.

    The process has its settings from the one that starts it, and reads no configuration file.
    """
    settings = {**os.environ, "PERMISSION_LEDGER_CONFIG": "none"}
    place = str(Path(workers.__file__).resolve().parents[1])
    if place in (*site.getsitepackages(), site.getusersitepackages()):
        return settings
    path = [place, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**settings, "PYTHONPATH": os.pathsep.join(path)}


async def end(process: asyncio.subprocess.Process) -> None:
    """Terminate a process, and kill it if it does not end."""
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def surely_end(process: asyncio.subprocess.Process) -> None:
    """End a process, however often the caller is cancelled meanwhile; then raise CancelledError."""
    ending = asyncio.create_task(end(process))
    is_cancelled = False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            is_cancelled = True
    ending.result()
    if is_cancelled:
        raise asyncio.CancelledError


class Kept:
    """A process that is restarted whenever it ends, with growing delays while it keeps failing."""

    def __init__(
        self,
        name: str,
        command: list[str],
        environment: dict[str, str],
        started: Callable[[str, int], None],
        *,
        handed_down: Sequence[int] = (),
    ) -> None:
        """`handed_down` are the numbers of open files that each of the processes gets."""
        self.name = name
        self._command = command
        self._environment = environment
        self._started = started
        self._handed_down = tuple(handed_down)
        self._ended = False

    async def run(self) -> None:
        """Run until cancelled; then end the process."""
        loop = asyncio.get_running_loop()
        pause = BACK_OFF_SECONDS_FIRST
        while True:
            began = loop.time()
            code = await self._run_once()
            if loop.time() - began > STEADY_SECONDS:
                pause = BACK_OFF_SECONDS_FIRST
            self._ended = True
            log.warning("%s ended (%s); starting again in %g s", self.name, _how(code), pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, BACK_OFF_SECONDS_MAX)

    async def _run_once(self) -> int:
        # In a session of its own: a Ctrl-C at the terminal reaches us alone, and we end it.
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self._handed_down,
        )
        self._started(self.name, process.pid)
        if self._ended:
            log.warning("%s was started again, process %d", self.name, process.pid)
        try:
            return await process.wait()
        finally:
            await surely_end(process)


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

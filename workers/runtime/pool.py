"""Processes of our own for work, on `concurrent.futures`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Final, ParamSpec, TypeVar

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

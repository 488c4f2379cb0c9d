r"""A child process in the place of this one: its streams, terminal, signals and exit code pass through.

The child stays in the process group of this process, as under `env`, `nohup` and `sudo`. So the terminal sends Ctrl-C,
Ctrl-\ and Ctrl-Z to both, a pipeline keeps its foreground, and a kill of the group reaches both. A signal that a process
sends to this process is forwarded; one of the terminal is not, since the child has received it already.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Sequence
from contextlib import chdir, suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

FORWARDED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGWINCH,
)
ENDING: Final = FORWARDED[:4]
"""Signals that ask a process to end."""

_OF_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGWINCH})
_IGNORED_BY_PYTHON: Final = tuple(
    getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ", "SIGXFZ") if hasattr(signal, name)
)
"""Signals that the interpreter ignores; a program expects their default."""

SIGNAL_CODE: Final = 128
"""Added to the number of a signal for the exit code, as shells do."""

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


class ChildEnd(NamedTuple):
    """The exit code as in shells, and a text that says how the process ended. `is_missing`: it was never started."""

    code: int
    text: str
    is_missing: bool = False

    @property
    def ok(self) -> bool:
        return self.code == 0


class SignalHold:
    """Signals kept from ending this process, from the claim of a call to the record of its end.

    A signal that was ignored when this process started, as under `nohup`, stays ignored here and in the child.
    """

    def __init__(self) -> None:
        self.stopped_by: signal.Signals | None = None
        """The first signal that asked this process to end while no child ran."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        held = [one for one in FORWARDED if signal.getsignal(one) is not signal.SIG_IGN]
        # A signal with a handler is queued while it is blocked, on every system.
        self._before = {one: signal.signal(one, self._note) for one in (*held, signal.SIGCHLD)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, _frame: object) -> None:
        if number in ENDING and self.stopped_by is None:
            self.stopped_by = signal.Signals(number)

    def run(self, words: Sequence[str], folder: str) -> ChildEnd | None:
        """Run a program in a folder to its end; None if a signal asked this process to end before the start.

        It inherits all inheritable descriptors and the environment. Raises OSError when it cannot be started.
        """
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._before)
        try:
            pending = signal.sigpending()
            self.stopped_by = self.stopped_by or next((one for one in ENDING if one in pending), None)
            if self.stopped_by is not None:
                return None
            ignored = [one for one in _IGNORED_BY_PYTHON if signal.getsignal(one) is signal.SIG_IGN]
            with chdir(folder):
                child = os.posix_spawnp(words[0], tuple(words), os.environ, setsigmask=mask, setsigdef=ignored)
            return self._passed_on(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _passed_on(self, child: int) -> ChildEnd:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return _end_of(status)
            number = _next_to_forward(self._before, child)
            if number is not None:
                with suppress(ProcessLookupError):
                    os.kill(child, number)


def not_started(error: OSError) -> ChildEnd:
    """Return the end of a program that could not be started, with the exit code that shells give it."""
    code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    return ChildEnd(code, f"not started: {(error.strerror or str(error)).lower()}", is_missing=True)


def _end_of(status: int) -> ChildEnd:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return ChildEnd(code, f"exit code {code}")
    return ChildEnd(SIGNAL_CODE - code, f"ended by {_name(-code)}")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal


def _next_to_forward(waited: Collection[signal.Signals], child: int) -> int | None:
    """Wait for a signal, and return it if the child has not received it; None for the end of a child too."""
    if not hasattr(signal, "sigwaitinfo"):
        number = signal.sigwait(waited)
        return None if number == signal.SIGCHLD or (number in _OF_TERMINAL and _in_foreground()) else number
    found = signal.sigwaitinfo(waited)
    is_sent_by_process = found.si_code <= 0 and found.si_pid != child
    return found.si_signo if is_sent_by_process and found.si_signo != signal.SIGCHLD else None


def _in_foreground() -> bool:
    """Return whether the terminal sends the signals of its keys to this process's group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)

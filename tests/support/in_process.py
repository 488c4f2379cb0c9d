"""A command of ours in this process, as if it had one of its own: its words, environment, folder and streams."""

from __future__ import annotations

import contextvars
import gc
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

import permission_ledger
from tests.support.processes import ROOT

ARGV_0: Final = str(ROOT / "workers/cli/__main__.py")
"""The name under which `python -m workers.cli` runs."""


def run_here(words: Sequence[str], environment: Mapping[str, str], folder: Path, stdin: bytes) -> tuple[int, str, str]:
    """Run a command and return its exit code, output and errors; fails when it leaves something of the process changed.

    Its streams are files at the descriptors 0, 1 and 2, which it may write to and hand to programs that it starts.
    """
    with ExitStack() as held:
        given, out, err = (held.enter_context(TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        with _at(0, given), _at(1, out), _at(2, err), _logging_of_its_own(), warnings.catch_warnings():
            warnings.simplefilter("error")
            with _environment(environment), _folder(folder), _usual_interrupt():
                before = _state()
                code = contextvars.Context().run(_run, [ARGV_0, *words])
                after = _state()
        changed = {name: (value, after[name]) for name, value in before.items() if value != after[name]}
        assert not changed, f"the command left this changed: {changed}"
        return code, _text(out), _text(err)


def _run(argv: list[str]) -> int:
    argv_before, stdin_before = sys.argv, sys.stdin
    # As an interpreter makes them for what is no terminal.
    with (
        open(0, encoding="utf-8", closefd=False) as stdin,
        open(1, "w", encoding="utf-8", closefd=False) as stdout,
        open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False) as stderr,
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        sys.argv, sys.stdin = argv, stdin
        try:
            return _code()
        finally:
            sys.argv, sys.stdin = argv_before, stdin_before


def _code() -> int:
    """Return the exit code that the interpreter would end with."""
    try:
        return permission_ledger.main()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
    return 1


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def _state() -> dict[str, Any]:
    """Return the state of the process that a command must leave as it is: the program that calls it goes on."""
    return {
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "folder": Path.cwd(),
        "path": list(sys.path),
        "collector": gc.isenabled(),
        "disabled log levels": logging.root.manager.disable,
    }


@contextmanager
def _at(descriptor: int, file: IO[bytes]) -> Iterator[None]:
    """Put a file where the process has another one."""
    kept = os.dup(descriptor)
    os.dup2(file.fileno(), descriptor)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


@contextmanager
def _usual_interrupt() -> Iterator[None]:
    """Begin with Python's own handler of Ctrl-C: that of a test's event loop is not restored by another loop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _environment(environment: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    _set_environment(environment)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(wanted: Mapping[str, str]) -> None:
    """Change what differs, and nothing else: other threads may read."""
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


@contextmanager
def _logging_of_its_own() -> Iterator[None]:
    """Begin without handlers, and take down what the command sets up: a program sets up the log of its process."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    levels = {one: one.level for one in _loggers()}
    root.handlers[:] = []
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:] = handlers
        for logger in _loggers():
            # Each setting of a level clears a cache of every logger.
            if logger.level != (level := levels.get(logger, logging.NOTSET)):
                logger.setLevel(level)


def _loggers() -> list[logging.Logger]:
    root = logging.getLogger()
    return [root, *(one for one in root.manager.loggerDict.values() if isinstance(one, logging.Logger))]

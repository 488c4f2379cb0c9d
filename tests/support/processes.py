"""Python programs that a test starts beside itself, and may kill."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from ledger.stores.embedded.launch import BINARY_VARIABLE
from workers.runtime.children import own_command

ROOT: Final = Path(__file__).resolve().parents[2]


def environment_without_settings() -> dict[str, str]:
    """Return this process's environment without the ledger's settings; the choice of the server program stays."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PERMISSION_LEDGER_")}
    named = os.environ.get(BINARY_VARIABLE)
    return ours if named is None else {**ours, BINARY_VARIABLE: named}


@asynccontextmanager
async def worker_process(*words: str, **more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker by the words of its command, without settings but `more`; killed after the block."""
    process = await asyncio.create_subprocess_exec(
        *own_command("worker", *words),
        env={**environment_without_settings(), **more},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@contextmanager
def python(
    program: str, *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a program's text in a session of its own with its three streams piped; it is killed after the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        with process:
            try:
                yield process
            except BaseException:
                # A program that tries for ever would be waited for.
                process.kill()
                raise
    finally:
        process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    """Return the next line that the program prints; fails with its error output when it ended instead."""
    assert process.stdout
    assert process.stderr
    line = process.stdout.readline()
    assert line, f"the program ended without a word:\n{process.stderr.read()}"
    return line.strip()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port

"""Lines between a host, ourselves and a client process: read as they come, written whole, passed on or held back."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final, TypeVar

Message = dict[str, Any]
K = TypeVar("K")
V = TypeVar("V")


def parse(line: bytes) -> Message | None:
    """Return a line as an object; None for anything else."""
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def text_in(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a member that is a text, and not an empty one; else None."""
    value = fields.get(name)
    return value if isinstance(value, str) and value else None


def keep(kept: dict[K, V], key: K, value: V, most: int) -> None:
    """Remember a value, and drop the oldest of more than `most`: an agent may never tell the end of a call."""
    kept[key] = value
    while len(kept) > most:
        del kept[next(iter(kept))]


def line_of(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


LINE_BYTES_MAX: Final = 64 * 1024 * 1024

_READ_BYTES: Final = 64 * 1024

_host: Final = threading.Lock()


class LongLineError(Exception):
    """A line over the size limit; no part of it is passed on."""


class ClientProcess:
    """The agent's program, whose stdin and stdout are ours; its stderr is the host's."""

    def __init__(self, command: Sequence[str]) -> None:
        """Raise OSError when the program cannot be started."""
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        self._writing = threading.Lock()

    def lines(self) -> Iterator[bytes]:
        assert self._process.stdout
        return lines_of(self._process.stdout)

    def write(self, line: bytes) -> None:
        """Write a line; do nothing if the client has ended."""
        assert self._process.stdin
        with self._writing, suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def write_at_once(self, line: bytes) -> bool:
        """Write a line if that cannot block; return whether it was written, whole or not at all."""
        assert self._process.stdin
        if len(line) > select.PIPE_BUF or not self._writing.acquire(blocking=False):
            return False
        try:
            # A pipe that is writable takes this much at once. After `flush` no data of ours is queued before it.
            ready = select.select((), (self._process.stdin,), (), 0)[1]
            if ready:
                os.write(self._process.stdin.fileno(), line)
            return bool(ready)
        except (BrokenPipeError, ValueError):
            return True
        finally:
            self._writing.release()

    def close_stdin(self) -> None:
        assert self._process.stdin
        with self._writing, suppress(BrokenPipeError, ValueError):
            self._process.stdin.close()

    def close_stdout(self) -> None:
        """Close the client's stdout: its next write fails."""
        assert self._process.stdout
        self._process.stdout.close()

    def wait(self) -> int:
        """Return the exit code as in shells: 128 plus the number of a signal that ended it."""
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def send(self, number: signal.Signals) -> None:
        # On a terminal Ctrl-C reaches the client directly, as it reaches us.
        if number is not signal.SIGINT or not sys.stdin.isatty():
            self._process.send_signal(number)


def lines_of(source: IO[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends; the last one may have none. Raises LongLineError."""
    while line := source.readline(LINE_BYTES_MAX + 1):
        if len(line) > LINE_BYTES_MAX:
            raise LongLineError(f"a line takes more than {LINE_BYTES_MAX} bytes")
        yield line


def host_lines() -> Iterator[bytes]:
    """As `lines_of`, from our stdin. Raises LongLineError.

    Unbuffered: a thread that still reads `sys.stdin` at exit makes the interpreter abort.
    """
    pieces: list[bytes] = []
    while piece := os.read(0, _READ_BYTES):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join((*pieces, end, b"\n"))
            pieces.clear()
        pieces += [rest] if rest else []
        if len(pieces) > LINE_BYTES_MAX // _READ_BYTES and sum(map(len, pieces)) > LINE_BYTES_MAX:
            raise LongLineError(f"a line takes more than {LINE_BYTES_MAX} bytes")
    if pieces:
        yield b"".join(pieces)


def write_to_host(line: bytes) -> None:
    """Write all of it, at once. Raises BrokenPipeError when the host reads no more."""
    with _host:
        left = memoryview(line)
        while left:
            left = left[os.write(1, left) :]


def tell(text: str) -> None:
    """Write a line for the person to stderr."""
    sys.stderr.write(f"permission-ledger: {text}\n")
    sys.stderr.flush()


_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LAST_WORDS_SECONDS: Final = 5.0

HearLine = Callable[[bytes], None]


class Carrier:
    """One client process, from its start to its end. Create it on a running event loop."""

    def __init__(self, command: Sequence[str]) -> None:
        """Raise OSError when the program cannot be started."""
        self._loop = asyncio.get_running_loop()
        self._client = ClientProcess(command)
        self.to_client, self.close_stdin, self.to_host = self._client.write, self._client.close_stdin, write_to_host
        self._tasks: set[asyncio.Task[None]] = set()
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self._client.send, number)

    async def carry(
        self, hear_host: HearLine, hear_client: HearLine, host_ended: Callable[[], None] | None = None
    ) -> None:
        """Carry lines until the client's stdout ends.

        The callbacks run in the threads, line by line. `host_ended` is called when the host's stream ends, which closes
        the client's stdin by default.
        """
        ended = asyncio.Event()

        def from_host() -> None:
            _each(host_lines(), hear_host)
            (host_ended or self.close_stdin)()

        def from_client() -> None:
            try:
                if not _each(self._client.lines(), hear_client):
                    self._client.close_stdout()
            except BrokenPipeError:
                self._client.close_stdout()
            self.on_loop(ended.set)

        for carrying in (from_host, from_client):
            threading.Thread(target=carrying, daemon=True).start()
        await ended.wait()

    async def run(
        self,
        hear_host: HearLine,
        hear_client: HearLine,
        end: Callable[[], Coroutine[Any, Any, None]],
        host_ended: Callable[[], None] | None = None,
    ) -> int:
        """Carry lines until the client has ended; return its exit code. `end` begins when all started work is done.

        Finished calls are noted before the rest of the claims end.
        """
        await self.carry(hear_host, hear_client, host_ended)
        code = await self.ended()
        await self.last_words()
        self.start(end())
        await self.last_words()
        return code

    async def ended(self) -> int:
        """Return the client's exit code, after it has ended."""
        return await asyncio.to_thread(self._client.wait)

    async def last_words(self) -> None:
        """Wait a short time for started work to finish."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_WORDS_SECONDS)

    # --- also called from the threads

    def on_loop(self, function: Callable[..., object], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the bridge with it
            self._loop.call_soon_threadsafe(function, *arguments)

    # --- on the loop

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.hold(self._loop.create_task(work))

    def hold(self, task: asyncio.Task[None]) -> None:
        """Keep a reference to a task until it is done: the event loop itself holds none."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def tell_client(self, line: bytes) -> None:
        """As `to_client`, which blocks: through a thread only if the write would block."""
        if not self._client.write_at_once(line):
            await asyncio.to_thread(self.to_client, line)

    async def tell_host(self, line: bytes) -> None:
        """As `to_host`, which blocks. Raises BrokenPipeError."""
        await asyncio.to_thread(self.to_host, line)


def _each(lines: Iterator[bytes], hear: HearLine) -> bool:
    """Pass each line on; return False if a line was too long to be passed on."""
    try:
        for line in lines:
            hear(line)
    except LongLineError as error:
        tell(str(error))
        return False
    return True

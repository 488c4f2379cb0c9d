"""A client process between its host and a bridge: two threads carry lines, the event loop asks and waits.

Pipes and files block, so each direction has a thread. The bridge decides which lines pass.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from workers.bridges.stdio import ClientProcess, LongLineError, host_lines, tell, write_to_host

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LAST_WORDS_SECONDS: Final = 5.0

Hear = Callable[[bytes], None]


class Carrier:
    """One client process, from its start to its end. Create it on a running event loop."""

    def __init__(self, command: Sequence[str]) -> None:
        """Raise OSError when the program cannot be started."""
        self._loop = asyncio.get_running_loop()
        self._client = ClientProcess(command)
        self._tasks: set[asyncio.Task[None]] = set()
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self._client.send, number)

    async def carry(self, hear_host: Hear, hear_client: Hear, host_ended: Callable[[], None] | None = None) -> None:
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

    async def ended(self) -> int:
        """Return the client's exit code, after it has ended."""
        return await asyncio.to_thread(self._client.wait)

    async def last_words(self) -> None:
        """Wait a short time for started work to finish."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_WORDS_SECONDS)

    # --- also called from the threads

    def to_client(self, line: bytes) -> None:
        """Write a line to the client; do nothing if it has ended."""
        self._client.write(line)

    def to_host(self, line: bytes) -> None:
        """Write a line to the host. Raises BrokenPipeError when the host reads no more."""
        write_to_host(line)

    def close_stdin(self) -> None:
        self._client.close_stdin()

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


def _each(lines: Iterator[bytes], hear: Hear) -> bool:
    """Pass each line on; return False if a line was too long to be passed on."""
    try:
        for line in lines:
            hear(line)
    except LongLineError as error:
        tell(str(error))
        return False
    return True

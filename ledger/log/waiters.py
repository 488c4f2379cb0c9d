"""The tasks of this process that wait for requests of one session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ledger.core.grants import Recorded
from ledger.log.stream import Stream
from ledger.log.streams import Streams


class Waiters:
    """The tasks that wait for requests of a stream, which is observed while there are any."""

    def __init__(self, streams: Streams, stream: Stream[Any]) -> None:
        self._streams = streams
        self._stream = stream
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._stop_observing: Callable[[], None] | None = None

    async def until_changed(self, request_id: str, deadline_ms: int | None) -> None:
        """Return after the next event that may concern the request, at the latest at its deadline."""
        if self._stop_observing is None:
            self._stop_observing = self._stream.observe(self._changed)
        future: asyncio.Future[None] = asyncio.Future()
        self._waiting.setdefault(request_id, []).append(future)
        alarm = None if deadline_ms is None else self._streams.set_alarm(deadline_ms, self._stream)
        try:
            await future
        finally:
            if alarm is not None:
                self._streams.alarms.drop(alarm)  # a deadline may be a week away
            waiting = self._waiting.get(request_id)
            if waiting is not None:
                # Not woken but cancelled; others may wait for the same request.
                waiting[:] = [one for one in waiting if one is not future]
                if not waiting:
                    del self._waiting[request_id]
            if not self._waiting and self._stop_observing is not None:
                self._stop_observing()
                self._stop_observing = None

    def wake_all(self) -> None:
        """Wake all waiters: something outside the stream changed that may concern them."""
        self._changed(None)

    def _changed(self, recorded: Recorded | None) -> None:
        """Wake the waiters for the request of an event; all of them when it may concern any."""
        request_id = None if recorded is None else getattr(recorded.event, "request_id", None)
        for waited in [request_id] if request_id else list(self._waiting):
            for future in self._waiting.pop(waited, ()):
                if not future.done():
                    future.set_result(None)

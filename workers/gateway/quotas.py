"""Limits per caller at one gateway: quotas, requests per minute, and turns on the loop.

Requests that were pending when the gateway started count too. A gateway counts what was asked through itself; several
gateways on one ledger count separately. A caller that sends hundreds at once waits behind its own requests; the next
caller is admitted at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

import msgspec

from ledger import Ledger, Session
from ledger.core.errors import InputError, LedgerError

CALLERS_COUNT: Final = 10_000
"""Callers with a bucket of their own; the least recently seen one is dropped first."""


class RateLimitedError(LedgerError):
    """Too many requests in too short a time."""

    code = "RATE_LIMITED"


class Limiter:
    """At most `burst` requests at once, and `rate` a second in the long run, for each caller."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._callers: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, caller: str) -> None:
        """Raise RateLimitedError where `take` would, without counting."""
        left, _ = self._left(caller)
        if left < 1:
            self._refuse(left)

    def take(self, caller: str, count: int = 1) -> None:
        """Count a request as `count` requests. Raises RateLimitedError, with the seconds to wait as `retry_after`.

        A count above the burst takes the whole burst.
        """
        left, now = self._left(caller)
        wanted = min(count, self._burst)
        self._callers[caller] = (max(left - wanted, 0.0) if left >= wanted else left, now)
        self._callers.move_to_end(caller)
        if len(self._callers) > CALLERS_COUNT:
            self._callers.popitem(last=False)
        if left < wanted:
            self._refuse(left, wanted)

    def _left(self, caller: str) -> tuple[float, float]:
        now = self._now()
        left, since = self._callers.get(caller, (self._burst, now))
        return min(self._burst, left + (now - since) * self._rate), now

    def _refuse(self, left: float, wanted: float = 1) -> NoReturn:
        wait = max(1, round((wanted - left) / self._rate))
        raise RateLimitedError(
            f"too many requests: {self._rate:g} a second are taken; try again in {wait} s", retry_after=wait
        )


HOUR_SECONDS: Final = 3600
RETRY_SECONDS: Final = 5
LOOK_SECONDS: Final = 1.0
"""Minimum interval between two look-ups of the pending requests of a token at its quota."""


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Limits per token, at one gateway."""

    pending: int = 500
    pending_bytes: int = 8 * 1024 * 1024
    streams: int = 2_000
    sessions_an_hour: int = 10_000

    @classmethod
    def read(cls, texts: Iterable[str]) -> Quotas:
        """Read `NAME=NUMBER` texts. Raises InputError."""
        said: dict[str, int] = {}
        for text in texts:
            name, _, number = text.partition("=")
            field = name.replace("-", "_")
            if field not in cls.__struct_fields__ or not number.isdecimal() or not 0 < int(number) < 1 << 53:
                names = ", ".join(f"`{one.replace('_', '-')}`" for one in cls.__struct_fields__)
                raise InputError(f"the quota `{text}` is not known; write NAME=NUMBER, with one of {names}")
            said[field] = int(number)
        return cls(**said)


class QuotaError(LedgerError):
    """A token at its quota."""

    code = "QUOTA"


_Key = tuple[str, str]


class Holdings:
    """The current holdings of each token at one gateway."""

    def __init__(self, ledger: Ledger, quotas: Quotas) -> None:
        self.quotas = quotas
        self.refused: Counter[str] = Counter()
        self._ledger = ledger
        self._pending: dict[str, dict[_Key, int]] = {}
        self._under_way: Counter[tuple[str, _Key]] = Counter()
        self._looked: dict[str, float] = {}
        self._seeding: asyncio.Task[None] | None = None
        self._streams: Counter[str] = Counter()
        self._opened = Limiter(quotas.sessions_an_hour / HOUR_SECONDS, quotas.sessions_an_hour)

    def begin(self) -> None:
        """Start to count what is pending already."""
        self._seeding = asyncio.create_task(self._seed(), name="count what waits")

    async def close(self) -> None:
        """Stop the background work."""
        if self._seeding is not None:
            self._seeding.cancel()
            await asyncio.gather(self._seeding, return_exceptions=True)

    # --- sessions

    def open_session(self, caller: str) -> None:
        """Count a new session. Raises QuotaError."""
        try:
            self._opened.take(caller)
        except RateLimitedError as error:
            text = f"this token may open {self.quotas.sessions_an_hour} sessions an hour"
            raise self._refusal("sessions_an_hour", text, int(error.data["retry_after"])) from None

    # --- event streams

    def require_stream(self, token_id: str | None) -> None:
        """Raise QuotaError where a token may open no further event stream."""
        if token_id is not None and self._streams[token_id] >= self.quotas.streams:
            text = f"this token has {self.quotas.streams} event streams open, and may have no more"
            raise self._refusal("streams", text)

    def open_stream(self, token_id: str | None) -> bool:
        """Count an event stream; return False when other streams of the token have taken the last place meanwhile."""
        if token_id is None:
            return True
        self._streams[token_id] += 1
        return self._streams[token_id] <= self.quotas.streams

    def close_stream(self, token_id: str | None) -> None:
        if token_id is not None:
            self._streams[token_id] -= 1
            if self._streams[token_id] <= 0:
                del self._streams[token_id]

    # --- pending requests

    @asynccontextmanager
    async def asking(self, caller: str, session: str, request_id: str, size: int) -> AsyncIterator[set[str]]:
        """Hold room for a request while it is asked. Ids that the block adds to the set are pending afterwards.

        Raises QuotaError where the token has no room.
        """
        await self._seeded()
        held = self._pending.setdefault(caller, {})
        key = (session, request_id)
        is_new = key not in held
        if is_new and self._is_full(held, size):
            await self._look_again(caller)
            held = self._pending.setdefault(caller, {})
            is_new = key not in held
        if is_new and self._is_full(held, size):
            text = (
                f"{len(held)} requests of this token wait for an answer, {sum(held.values())} bytes; "
                f"at most {self.quotas.pending} and {self.quotas.pending_bytes} bytes may"
            )
            raise self._refusal("pending", text)
        held[key] = size
        self._under_way[caller, key] += 1
        waiting: set[str] = set()
        try:
            yield waiting
        except asyncio.CancelledError:
            waiting.add(request_id)  # its outcome is looked up when room is short
            raise
        finally:
            self._under_way[caller, key] -= 1
            if not self._under_way[caller, key]:
                del self._under_way[caller, key]
            if request_id not in waiting:
                held.pop(key, None)
            for one in waiting:
                held[session, one] = size
            if not held:
                self._pending.pop(caller, None)

    def _is_full(self, held: dict[_Key, int], size: int) -> bool:
        return len(held) >= self.quotas.pending or sum(held.values()) + size > self.quotas.pending_bytes

    async def _look_again(self, caller: str) -> None:
        """Drop the requests that were settled since the last look-up."""
        now = asyncio.get_running_loop().time()
        if now - self._looked.get(caller, -LOOK_SECONDS) < LOOK_SECONDS:
            return
        self._looked[caller] = now
        held = self._pending[caller]
        for session in {session for session, _ in held}:
            pending = (await Session(self._ledger, session).state()).pending
            for key in [one for one in held if one[0] == session and one[1] not in pending]:
                if (caller, key) not in self._under_way:  # a request in flight is not in the log yet
                    held.pop(key, None)

    async def _seeded(self) -> None:
        if self._seeding is None or (self._seeding.done() and self._seeding.exception() is not None):
            self.begin()
        if self._seeding is not None:
            await asyncio.shield(self._seeding)

    async def _seed(self) -> None:
        for state in (await self._ledger.waiting.survey()).rows:
            for request in state.pending.values():
                if request.token_id is not None:
                    size = size_of(request.patterns, request.input, request.metadata)
                    self._pending.setdefault(request.token_id, {})[state.session_id, request.request_id] = size

    def _refusal(self, quota: str, text: str, seconds: int = RETRY_SECONDS) -> QuotaError:
        self.refused[quota] += 1
        return QuotaError(f"{text}; see `serve --quota`", quota=quota, retry_after=seconds)


def size_of(patterns: Iterable[str], tool_input: Any, metadata: Any) -> int:
    """Return the size of a request as sent to a person, in bytes."""
    return len(msgspec.json.encode((list(patterns), tool_input, metadata)))


LET_IN_COUNT: Final = 4
"""Requests of one caller that are admitted at one pass; one after a long pass."""

LONG_SECONDS: Final = 0.005
REST_SECONDS_MAX: Final = 0.05


class Turns:
    """The queues of requests to be admitted, one for each caller seen within this pass."""

    def __init__(self, count: int = LET_IN_COUNT) -> None:
        self._count = count
        self._left: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, caller: str) -> None:
        """Return when the caller's next request is admitted."""
        if caller not in self._left:
            self._let_in(caller, self._count)
        if self._left[caller]:
            self._left[caller] -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        await turn

    def _let_in(self, caller: str, count: int) -> None:
        """Admit `count` queued requests, and new ones within this pass up to the same number."""
        waiting = self._waiting.get(caller, deque())
        self._left[caller] = count
        while waiting and self._left[caller]:
            turn = waiting.popleft()
            if not turn.done():  # its connection may be closed
                turn.set_result(None)
                self._left[caller] -= 1
        loop = asyncio.get_running_loop()
        loop.call_soon(self._passed, caller, loop.time())

    def _passed(self, caller: str, began: float) -> None:
        """End one pass of the loop, with the work of all requests in it."""
        if not self._waiting.get(caller):
            del self._left[caller]
            self._waiting.pop(caller, None)
            return
        loop = asyncio.get_running_loop()
        took = loop.time() - began
        count = self._count if took < LONG_SECONDS else 1
        loop.call_later(min(took, REST_SECONDS_MAX), self._let_in, caller, count)

"""Quotas per token at one gateway: pending requests, their bytes, event streams, new sessions.

Requests that were pending when the gateway started count too. A gateway counts what was asked through itself; several
gateways on one ledger count separately.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from ledger import Ledger, Session
from ledger.core.errors import InputError, LedgerError
from workers.gateway.rate_limit import Limiter, RateLimitedError

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

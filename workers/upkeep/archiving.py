"""The sessions that may be sealed, as the views list them, brought up with everything that reads them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

from ledger import Ledger
from ledger.core.errors import InputError, OnHoldError
from ledger.log.archive.sealing import BringUp, SealRule
from ledger.log.archive.sweeping import HeldReason
from ledger.log.viewed import session_rows
from ledger.stores.port import StreamKey
from projections.engine import Engine
from projections.session_list import oldest_first
from projections.sessions import Latest
from workers.projector import Repairs

_SIZE: Final = re.compile(r"([1-9][0-9]{0,14})(|[kmgt]b)", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

READ_COUNT: Final = 2_000
"""Sessions listed at once."""


MEASURED_COUNT: Final = 256
"""Sessions between two looks at the memory of the servers, as many as are sealed together."""


def parse_size(text: str, what: str) -> int:
    """Return the bytes of a size like `512MB` or `2GB` (powers of 1,000). Raises InputError."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise InputError(f"the {what} `{text[:40]}` is not a size like `512MB` or `2GB`")
    return int(found[1]) * _UNITS[(found[2] or "").upper()]


async def used_bytes(ledger: Ledger) -> int:
    """Return the memory in use of the fullest server. Raises StoreError."""
    return max(int(facts.get("used_memory", "0")) for facts in await ledger.store.server_facts())


async def while_above(ledger: Ledger, keys: AsyncIterator[StreamKey], above_bytes: int) -> AsyncIterator[StreamKey]:
    """Iterate over sessions as long as a server uses more memory than that. Raises StoreError."""
    number = 0
    async for key in keys:
        if number % MEASURED_COUNT == 0 and await used_bytes(ledger) <= above_bytes:
            return
        number += 1
        yield key


def to_seal(ledger: Ledger, rule: SealRule, above_bytes: int | None) -> AsyncIterator[StreamKey]:
    """Iterate over `old_or_closed`: all of them, or as long as a server uses more memory than that."""
    keys = old_or_closed(ledger, rule)
    return keys if above_bytes is None else while_above(ledger, keys, above_bytes)


async def old_or_closed(ledger: Ledger, rule: SealRule) -> AsyncIterator[StreamKey]:
    """Iterate over the sessions that the views say may be sealed, the one that rests longest first."""
    before_ms = await ledger.store.now_ms() - rule.idle_ms
    async for places in oldest_first(ledger.store, None, READ_COUNT):
        keys = [StreamKey("session", place.session) for place in places]
        heads = await ledger.store.heads(keys)
        left = [place for place, head in zip(places, heads, strict=True) if head.seal is None]
        closed = await _closed_among(ledger, [place for place in left if place.ms > before_ms])
        for place in left:
            if place.ms <= before_ms or place.session in closed:
                yield StreamKey("session", place.session)


async def _closed_among(ledger: Ledger, places: Sequence[Latest]) -> frozenset[str]:
    """Return the sessions that are closed by the views, and those that no view has."""
    names = [place.session for place in places]
    rows = await session_rows(ledger.store, names)
    closed = (name for name, row in zip(names, rows, strict=True) if row is None or row["closed_at"] is not None)
    return frozenset(closed)


def hold_reason(ledger: Ledger) -> HeldReason:
    """Return what tells the legal hold over a session and its project."""

    async def reason(session: str, project: str | None) -> str | None:
        try:
            await ledger.holds.require_none(session=session, project=project)
        except OnHoldError as error:
            return error.text
        return None

    return reason


def bringing_up(ledger: Ledger) -> BringUp:
    """Return what brings up a session's views, and writes the grants that its project lacks."""
    return Engine(ledger.store, before_step=Repairs(ledger)).catch_up

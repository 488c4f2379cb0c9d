"""The sessions that may be sealed, as the views list them, brought up with everything that reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from ledger import Ledger
from ledger.core.errors import OnHoldError
from ledger.log.archive.sealing import BringUp, SealRule
from ledger.log.archive.sweeping import HeldReason
from ledger.stores.port import StreamKey
from projections.engine import Engine
from projections.session_ages import oldest_first
from projections.sessions import SESSIONS, Latest
from workers.projector.repairs import Repairs

READ_COUNT: Final = 500
"""Sessions listed at once."""


async def old_or_closed(ledger: Ledger, rule: SealRule) -> AsyncIterator[StreamKey]:
    """Iterate over the sessions that the views say may be sealed, the one that rests longest first."""
    before_ms = await ledger.store.now_ms() - rule.idle_ms
    async for places in oldest_first(ledger.store, None, READ_COUNT):
        keys = [StreamKey("session", place.session) for place in places]
        seals = await ledger.store.admin.seals(keys)
        left = [place for place, seal in zip(places, seals, strict=True) if seal is None]
        closed = await _closed_among(ledger, [place for place in left if place.ms > before_ms])
        for place in left:
            if place.ms <= before_ms or place.session in closed:
                yield StreamKey("session", place.session)


class _Row(msgspec.Struct):
    """The member of a session's row that is looked at here."""

    closed_at: str | None = None


_row_decoder = msgspec.json.Decoder(_Row)


async def _closed_among(ledger: Ledger, places: Sequence[Latest]) -> frozenset[str]:
    """Return the sessions that are closed by the views, and those that no view has."""
    by_partition: dict[int, list[str]] = {}
    for place in places:
        partition = ledger.store.partition_of(StreamKey("session", place.session))
        by_partition.setdefault(partition, []).append(place.session)
    found: set[str] = set()
    for partition, names in by_partition.items():
        rows = await ledger.store.views.fields(SESSIONS, partition, names)
        found.update(
            name
            for name, row in zip(names, rows, strict=True)
            if row is None or _row_decoder.decode(row).closed_at is not None
        )
    return frozenset(found)


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

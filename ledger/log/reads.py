"""An audit trail of reads: sign-ins, failed ones, views of sessions and of answer links, and exports.

They are not events of a session: no decision depends on them, and they have a retention. Each kind has a stream of its
own, so that a flood of one kind trims none of another.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal, get_args

import msgspec

from ledger.core.times import DAY_MS, format_time
from ledger.stores.store import Store

ReadKind = Literal["sign_in", "failed_sign_in", "link_view", "look", "export"]
KINDS: Final[tuple[ReadKind, ...]] = get_args(ReadKind)

KEPT_MS: Final = 90 * DAY_MS
KEPT_COUNT_MAX: Final = 100_000
"""The retention of each kind by count; about 20 MB."""

TEXT_CHARS_MAX: Final = 256


class AuditedRead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One read, or `count` equal reads shortly after each other.

    `name` is a person's or a token's; `what` is the session, request or file; `address` is the client's.
    """

    kind: ReadKind
    name: str | None = None
    role: str | None = None
    token_id: str | None = None
    via: str | None = None
    session: str | None = None
    what: str | None = None
    address: str | None = None
    count: int = 1


class RecordedRead(msgspec.Struct, frozen=True):
    """A read with the server time (ms) of its record."""

    ms: int
    read: AuditedRead

    def as_json(self) -> dict[str, object]:
        return {"at": format_time(self.ms), "at_ms": self.ms, **msgspec.to_builtins(self.read)}


async def record(store: Store, reads: tuple[AuditedRead, ...], kept_ms: int = KEPT_MS) -> None:
    """Append reads, and trim those that are too old or too many. Raises StoreError."""
    oldest_ms = max(await store.now_ms() - kept_ms, 0)
    for kind in KINDS:
        lines = [msgspec.json.encode(_bounded(one)) for one in reads if one.kind == kind]
        if lines:
            await store.note_reads(kind, lines, KEPT_COUNT_MAX, oldest_ms)


async def recorded(
    store: Store, kinds: tuple[ReadKind, ...] = KINDS, *, since_ms: int = 0, count: int = 1000
) -> list[RecordedRead]:
    """Return the newest reads of these kinds, oldest first. Raises StoreError."""
    found = await asyncio.gather(*(store.reads(kind, since_ms, count) for kind in kinds))
    rows = [RecordedRead(ms, msgspec.json.decode(line, type=AuditedRead)) for lines in found for ms, line in lines]
    rows.sort(key=lambda one: one.ms)
    return rows[-count:]


def _bounded(read: AuditedRead) -> AuditedRead:
    """Bound the texts of a read: the name of a failed sign-in is the caller's own text."""
    texts = {
        name: value[:TEXT_CHARS_MAX] for name in read.__struct_fields__ if isinstance(value := getattr(read, name), str)
    }
    return msgspec.structs.replace(read, **texts)

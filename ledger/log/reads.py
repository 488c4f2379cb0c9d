"""Reads that matter, recorded: who signed in, tried to, looked at a session, at a link, or took an export.

They are no events of a session: nothing is decided by them, and they may be forgotten after a time. Each kind has a
stream of its own, so that a flood of one pushes out none of another.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal, get_args

import msgspec

from ledger.core.durations import DAY_MS
from ledger.core.times import format_time
from ledger.stores.port import Store

Kind = Literal["sign_in", "failed_sign_in", "link_view", "look", "export"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

KEPT_MS: Final = 90 * DAY_MS
KEPT_COUNT_MAX: Final = 100_000
"""Of each kind; about 20 MB."""

TEXT_CHARS_MAX: Final = 256


class AuditedRead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One read, or `count` of the same that came soon after each other.

    `name` is a person's or a token's; `what` is the session, request or file; `address` is where it came from.
    """

    kind: Kind
    name: str | None = None
    role: str | None = None
    token_id: str | None = None
    via: str | None = None
    session: str | None = None
    what: str | None = None
    address: str | None = None
    count: int = 1


class RecordedRead(msgspec.Struct, frozen=True):
    """A read with the server's time at which it was written."""

    ms: int
    read: AuditedRead

    def as_json(self) -> dict[str, object]:
        return {"at": format_time(self.ms), "at_ms": self.ms, **msgspec.to_builtins(self.read)}


async def record(store: Store, reads: tuple[AuditedRead, ...], kept_ms: int = KEPT_MS) -> None:
    """Write reads, and let go of those that are too old or too many. Raises StoreError."""
    oldest_ms = max(await store.now_ms() - kept_ms, 0)
    for kind in KINDS:
        lines = [msgspec.json.encode(_bounded(one)) for one in reads if one.kind == kind]
        if lines:
            await store.admin.note_reads(kind, lines, KEPT_COUNT_MAX, oldest_ms)


async def recorded(
    store: Store, kinds: tuple[Kind, ...] = KINDS, *, since_ms: int = 0, count: int = 1000
) -> list[RecordedRead]:
    """The newest reads of these kinds, oldest first. Raises StoreError."""
    found = await asyncio.gather(*(store.admin.reads(kind, since_ms, count) for kind in kinds))
    rows = [RecordedRead(ms, msgspec.json.decode(line, type=AuditedRead)) for lines in found for ms, line in lines]
    rows.sort(key=lambda one: one.ms)
    return rows[-count:]


def _bounded(read: AuditedRead) -> AuditedRead:
    """A name that somebody tries to sign in with is as long as they like."""
    texts = {
        name: value[:TEXT_CHARS_MAX] for name in read.__struct_fields__ if isinstance(value := getattr(read, name), str)
    }
    return msgspec.structs.replace(read, **texts)

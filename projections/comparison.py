"""Comparison of the live views with views rebuilt from the log alone: read-only, without snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.core.errors import DamageError
from ledger.core.events import Redacted
from ledger.log.due_index import INDEX_COUNT_MAX, as_seen, differs, hint_of
from ledger.log.places import parts_of
from ledger.log.snapshots import SNAPSHOT_EVERY_EVENTS, SNAPSHOTS_VIEW, load_snapshot
from ledger.log.tail import Folded, nothing_folded, read_folds
from ledger.session.state import SessionState
from ledger.stores.keys import CENSUS
from ledger.stores.memory import as_bytes, write_view
from ledger.stores.port import CHECKPOINTS_VIEW, NOTHING_DUE, SKIPPED, Position, StreamKey, ViewWrite, checkpoint_in
from ledger.stores.store import Store
from projections.engine import OUT_OF_REACH
from projections.projection import StreamState, seen
from projections.views import FIXED, Changes

COMPARED: Final = tuple(name for name in FIXED if name not in (SNAPSHOTS_VIEW, SKIPPED))
LOG: Final = "log"
DUE: Final = "due"
"""The name of the index of deadlines, which is no view, in what is compared."""

OTHER_SNAPSHOT: Final = "the snapshot is not the fold of its entries: whoever wrote it was no projector; rebuild"


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a view, live and rebuilt; `text` describes a problem without two values to compare."""

    view: str
    partition: int
    key: str
    live: bytes | None = None
    rebuilt: bytes | None = None
    text: str | None = None

    @property
    def same(self) -> bool:
        return self.text is None and self.live == self.rebuilt

    def as_json(self) -> dict[str, Any]:
        """Return CONTRACT's row of `rebuild --verify`, and the partition."""
        sides = None if self.same else self.text or {"live": _readable(self.live), "rebuilt": _readable(self.rebuilt)}
        return {
            "view": self.view,
            "key": " ".join(parts_of(self.key)),
            "same": self.same,
            "difference": sides,
            "partition": self.partition,
        }


class Rebuilt:
    """The views of one partition, folded in memory."""

    def __init__(self) -> None:
        self.views: dict[str, dict[str, bytes | int]] = defaultdict(dict)
        self.due: dict[StreamKey, tuple[Position, int | str | None]] = {}
        """The expected entry of the index of deadlines, by session, as of an entry of its stream."""

    def apply(self, writes: Sequence[ViewWrite]) -> None:
        for write in writes:
            write_view(self.views[write.view], write)

    async def fold(
        self, store: Store, key: StreamKey, until: Position, snapshot: Folded[StreamState] | None = None
    ) -> bool:
        """Add a stream as of one of its entries; return whether a snapshot is its fold as of the snapshot's entry.

        One that a later redaction made invalid counts as right. Raises DamageError when the log does not hold `until`.
        """
        before, is_right = nothing_folded(key), True
        changes = Changes(key, before.state, new=True)
        try:
            async for recorded, after in read_folds(store, key, before, until.version):
                changes.take(seen(before.state, recorded, after.state))
                before = after
                if snapshot is not None and after.version == snapshot.version:
                    is_right = after == snapshot
                is_right = is_right or isinstance(recorded.event, Redacted)
        finally:
            self.apply(changes.writes())
        if before.position != until:
            raise DamageError(f"its views are as of {until}, which its log does not hold", stream=key.name)
        if isinstance(before.state, SessionState):
            self.due[key] = until, as_seen(hint_of(before.state))
        self.apply([ViewWrite(CHECKPOINTS_VIEW, key.name, str(until).encode())])
        return is_right


async def compare_partition(store: Store, partition: int, names: Sequence[str]) -> AsyncIterator[Compared]:
    """Iterate over every field of a partition's views; `names` are its views besides the fixed ones.

    The index of deadlines is compared, too, of the sessions whose views are as of their last event.
    """
    live = await store.read_views(partition, COMPARED)
    rebuilt = Rebuilt()
    checkpoints = {StreamKey.parse(name): checkpoint_in(at) for name, at in live[CHECKPOINTS_VIEW].items()}
    for key, at in sorted(checkpoints.items()):
        try:
            snapshot = await load_snapshot(store, key, at.version) if at.version >= SNAPSHOT_EVERY_EVENTS else None
            if not await rebuilt.fold(store, key, at, snapshot):
                yield Compared(view=SNAPSHOTS_VIEW, partition=partition, key=key.name, text=OTHER_SNAPSHOT)
        except (DamageError, *OUT_OF_REACH) as error:
            yield Compared(view=LOG, partition=partition, key=key.name, text=error.text)
    for one in await _compare_index(store, partition, rebuilt.due):
        yield one
    for view in COMPARED:
        made = {name: as_bytes(value) for name, value in rebuilt.views[view].items()}
        for name in sorted({*live[view], *made}):
            yield Compared(view=view, partition=partition, key=name, live=live[view].get(name), rebuilt=made.get(name))
    for name in names:
        if name not in (*FIXED, CENSUS):
            yield Compared(view=name, partition=partition, key="", text="no stream makes such a view")


async def _compare_index(
    store: Store, partition: int, hints: Mapping[StreamKey, tuple[Position, int | str | None]]
) -> list[Compared]:
    """Compare the index of deadlines with the folds of sessions, without those that went on since."""
    index: dict[str, int | str | None] = dict(await store.due(None, INDEX_COUNT_MAX, [partition]))
    live = {key: index.get(key.id, NOTHING_DUE) for key in hints}
    # After the index: what was appended before it was read is in it.
    differing = [key for key, (_, hint) in hints.items() if differs(live[key], hint)]
    heads = {key: head.at for key, head in zip(differing, await store.heads(differing), strict=True)}
    return [
        Compared(
            view=DUE,
            partition=partition,
            key=key.id,
            live=_due_shown(live[key] if key in heads else hint),
            rebuilt=_due_shown(hint),
        )
        for key, (at, hint) in hints.items()
        if heads.get(key, at) == at and (key in heads or hint != NOTHING_DUE)
    ]


def _due_shown(ms: int | str | None) -> bytes | None:
    return None if ms == NOTHING_DUE else b'"never"' if ms is None else str(ms).encode()


def _readable(value: bytes | None) -> Any:
    if value is None:
        return None
    for decode in (msgspec.json.decode, msgspec.msgpack.decode):
        try:
            return decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return value.decode(errors="backslashreplace")

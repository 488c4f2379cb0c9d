"""Projection of a stream from its checkpoint to its head, in atomic steps.

Any number of projectors may run at once: a step is written only if the checkpoint is unchanged since it was read, and
the projector that lost the race reads it again. After a crash the views are as of the last complete step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ledger.core.errors import (
    ArchiveError,
    DamageError,
    LedgerError,
    MissingExtraError,
    NewerSchemaError,
    SealedError,
    StoreError,
)
from ledger.core.events import Redacted
from ledger.core.grants import Recorded
from ledger.log.due_index import INDEX_COUNT_MAX, as_seen, hint_of
from ledger.log.fold_cache import SizedCache, cache_bytes, fold_bytes
from ledger.log.snapshots import (
    SNAPSHOT_EVERY_EVENTS,
    is_snapshot_due,
    load_snapshot,
    removal_writes,
    snapshot_writes,
)
from ledger.log.tail import (
    Folded,
    LostHistoryError,
    check_info,
    fold_entries,
    nothing_folded,
    read_folds,
    read_pages,
    read_short_streams,
)
from ledger.log.viewed import checkpoints
from ledger.session.state import SessionState
from ledger.stores.port import NOTHING_DUE, SKIPPED, Entry, Position, ShortStream, StreamKey, ViewAdvance, ViewWrite
from ledger.stores.store import Store
from projections.projection import Seen, StreamState, seen
from projections.views import FIXED, Changes, size_of, writes_of

STEP_EVENTS: Final = 500
STEP_BYTES: Final = 1024 * 1024
"""Bounds of a step in events and in bytes of changes, because the server runs a step in one piece."""

PAGE_EVENTS: Final = 500

OUT_OF_REACH: Final = (SealedError, ArchiveError, MissingExtraError)
"""The errors of a sealed stream whose archive this process cannot read."""

STREAMS_AT_ONCE_COUNT: Final = 16
"""Streams that are projected concurrently."""

WRITTEN_AT_ONCE_COUNT: Final = 8
"""Writes of a rebuild that are under way; each is of many short streams, or the steps of a long one."""

RETRIES_MAX: Final = 100
"""Lost races in a row before an error; the views advance with each."""


class CaughtUp(NamedTuple):
    """The version that a stream's views are at, and the number of events it took; `folded` is its fold, if it was read."""

    key: StreamKey
    version: int
    events: int
    folded: Folded[StreamState] | None = None


BeforeStep = Callable[[StreamKey, Sequence[Seen]], Awaitable[None]]
"""A callback with side effects that must precede the checkpoint of these events."""


class Engine:
    """A projector of streams, with a cache of folds, so that the next event of a busy stream costs one fold step."""

    def __init__(self, store: Store, *, before_step: BeforeStep | None = None) -> None:
        self._store = store
        self._before_step = before_step
        self._cache: SizedCache[Folded[StreamState]] = SizedCache(cache_bytes("projected"))

    async def catch_up(self, key: StreamKey) -> CaughtUp:
        """Project a stream to its head.

        Raises DamageError or NewerSchemaError for an unreadable event; the events before it are projected.
        Raises LostHistoryError when the views are ahead of the stream: the partition must be rebuilt.
        """
        try:
            return await self._catch_up(key)
        except DamageError:
            self._cache.drop(key)
            raise

    async def begin(self, key: StreamKey, short: ShortStream) -> CaughtUp:
        """Project a stream from its first entry, as it was just read; its views were dropped. Errors as of `catch_up`."""
        check_info(key, short.info)
        events, folded, ended = await self._steps(key, nothing_folded(key), _one_page(short.entries))
        if ended:
            return CaughtUp(key, folded.version, events, folded)
        # A projector was first.
        rest = await self.catch_up(key)
        return rest._replace(events=rest.events + events)

    async def prepared(self, key: StreamKey, short: ShortStream) -> ProjectionStep | None:
        """Return the one step that projects a stream from its first entry; None where `begin` must do it.

        That is so for a stream that is damaged, redacted, or too long for one step.
        """
        step = ProjectionStep(key, nothing_folded(key))
        try:
            check_info(key, short.info)
        except DamageError:
            return None
        if step.take(short.entries, 0) < len(short.entries) or step.refused is not None or step.redacts:
            return None
        if is_snapshot_due(0, step.folded):
            return None
        if self._before_step is not None:
            await self._before_step(key, step.seen)
        # Until the step is written with others, only what it changes is kept.
        step.seen.clear()
        return step

    async def begin_together(self, steps: Sequence[ProjectionStep]) -> bool:
        """Write the first steps of streams of one partition at once; return False if another projector was first."""
        advances = [one.advance for one in steps]
        return await self._store.project(
            steps[0].key.partition(self._store.partition_count), advances, _writes_of(steps)
        )

    async def _catch_up(self, key: StreamKey) -> CaughtUp:
        events = 0
        for _ in range(RETRIES_MAX):
            (checkpoint,) = await checkpoints(self._store, [key])
            folded = await self._fold_at(key, checkpoint)
            pages = read_pages(self._store, key, folded.last, count=PAGE_EVENTS)
            done, folded, ended = await self._steps(key, folded, pages)
            events += done
            if ended:
                return CaughtUp(key, folded.version, events, folded)
        raise StoreError(
            f"the views of stream `{key.name}` were changed by others {RETRIES_MAX} times in a row; try again"
        )

    # --- the fold as of the checkpoint --------------------------------------------------------------------------------

    async def _fold_at(self, key: StreamKey, checkpoint: Position) -> Folded[StreamState]:
        kept = self._cache.get(key)
        if kept is not None and kept.version <= checkpoint.version:
            with suppress(LostHistoryError):
                return await self._fold_on(key, kept, checkpoint)
        self._cache.drop(key)
        snapshot = None
        if checkpoint.version >= SNAPSHOT_EVERY_EVENTS:
            # Pages from the first entry on are checked against the metadata when they are read.
            check_info(key, await self._store.info(key))
            snapshot = await load_snapshot(self._store, key, checkpoint.version)
        return await self._fold_on(key, snapshot or nothing_folded(key), checkpoint)

    async def _fold_on(self, key: StreamKey, folded: Folded[StreamState], checkpoint: Position) -> Folded[StreamState]:
        async for page in read_pages(self._store, key, folded.last, checkpoint.version, PAGE_EVENTS):
            folded = fold_entries(key, folded, page)
        if folded.position != checkpoint:
            raise LostHistoryError(
                f"the views of stream `{key.name}` are as of {checkpoint}, which its log does not hold; rebuild them",
                stream=key.name,
            )
        return folded

    # --- from the checkpoint to the head ------------------------------------------------------------------------------

    async def _steps(
        self, key: StreamKey, folded: Folded[StreamState], pages: AsyncIterator[Sequence[Entry]]
    ) -> tuple[int, Folded[StreamState], bool]:
        """Project the entries after a fold; return the count of events, the last fold, and whether all were projected."""
        events = 0
        async for page in pages:
            at = 0
            while at < len(page):
                step = ProjectionStep(key, folded)
                at = step.take(page, at)
                if step.seen and not await (self._renew(step) if step.redacts else self._project(step)):
                    return events, folded, False
                events += len(step.seen)
                folded = step.folded
                self._cache.put(key, folded, fold_bytes(folded.state) + len(folded.last.payload))
                if step.refused is not None:
                    raise step.refused
        return events, folded, True

    async def _project(self, step: ProjectionStep) -> bool:
        if self._before_step is not None:
            await self._before_step(step.key, step.seen)
        at, key = step.first.position, step.key
        writes = _writes_of([step])
        if is_snapshot_due(at.version, step.folded):
            writes += await snapshot_writes(self._store, key, step.folded)
        return await self._store.project(key.partition(self._store.partition_count), [step.advance], writes)

    async def _renew(self, step: ProjectionStep) -> bool:
        """Write all rows of a stream anew as of a redaction: those made before it still hold the content.

        Counts do not depend on content. The last write advances the checkpoint, so that a crash before it repeats all.
        """
        if self._before_step is not None:
            await self._before_step(step.key, step.seen)
        at, key = step.first.position, step.key
        partition = key.partition(self._store.partition_count)
        rows = await rows_of(self._store, key, step.folded.position)
        last = _writes_of([step])
        for some in _in_bounds(rows):
            if not await self._store.project(partition, [ViewAdvance(key, at, at)], some):
                return False
        return await self._store.project(partition, [step.advance], last)


async def _one_page(entries: Sequence[Entry]) -> AsyncIterator[Sequence[Entry]]:
    yield entries


async def note_skipped(store: Store, key: StreamKey, *, skipped: bool) -> None:
    """Add a stream to those that cannot be read to their end, which readers of the views read themselves, or remove it."""
    note = ViewWrite(SKIPPED, key.name, 0 if skipped else None, "sorted")
    for _ in range(RETRIES_MAX):
        (at,) = await checkpoints(store, [key])
        if await store.project(key.partition(store.partition_count), [ViewAdvance(key, at, at)], [note]):
            return


async def rows_of(store: Store, key: StreamKey, until: Position) -> list[ViewWrite]:
    """Return the rows of a stream as of an entry, made from what its log holds now; without counts, and no snapshot.

    Raises LostHistoryError when the log does not hold that entry.
    """
    folded = nothing_folded(key)
    changes = Changes(key, folded.state)
    async for recorded, after in read_folds(store, key, folded, until.version, PAGE_EVENTS):
        changes.take(seen(folded.state, recorded, after.state))
        folded = after
    if folded.position != until:
        raise LostHistoryError(f"stream `{key.name}` does not hold entry {until}; rebuild its views", stream=key.name)
    return [*removal_writes(key), *changes.rows()]


def _writes_of(steps: Sequence[ProjectionStep]) -> list[ViewWrite]:
    return writes_of([one.changes for one in steps])


def _in_bounds(rows: Sequence[ViewWrite]) -> Iterator[list[ViewWrite]]:
    """Split rows into writes that the server makes in one piece."""
    some: list[ViewWrite] = []
    size_bytes = 0
    for row in rows:
        some.append(row)
        size_bytes += size_of(row)
        if len(some) >= STEP_EVENTS or size_bytes >= STEP_BYTES:
            yield some
            some, size_bytes = [], 0
    if some:
        yield some


class ProjectionStep:
    """A batch of events that are projected together. A redaction is one of its own."""

    def __init__(self, key: StreamKey, folded: Folded[StreamState]) -> None:
        self.key = key
        self.first = folded
        self.folded = folded
        self.changes = Changes(key, folded.state, new=folded.version == 0)
        self.seen: list[Seen] = []
        self.refused: DamageError | None = None
        self.redacts = False
        self._events_bytes = 0

    @property
    def advance(self) -> ViewAdvance:
        """Return the step of the stream's checkpoint."""
        return ViewAdvance(self.key, self.first.position, self.folded.position)

    @property
    def size_bytes(self) -> int:
        """Return about the size of the changes: a late row is about as large as its event."""
        return self.changes.size_bytes + self._events_bytes

    def take(self, page: Sequence[Entry], at: int) -> int:
        """Add entries of a page from `at` on until the step is full; return the index of the next one."""
        end = min(len(page), at + STEP_EVENTS - len(self.seen))
        while at < end and self.size_bytes < STEP_BYTES:
            try:
                recorded, after = self.folded.next(self.key, page[at])
                if type(recorded.event) is Redacted:
                    if self.seen:
                        break
                    self.redacts = True
                self._add(page[at], recorded, after)
            except DamageError as error:
                # The events before it are valid, and are projected.
                self.refused = error
                return len(page)
            at += 1
            if self.redacts:
                break
        return at

    def _add(self, entry: Entry, recorded: Recorded, after: Folded[StreamState]) -> None:
        if after.state.newer:
            raise NewerSchemaError(
                f"stream `{self.key.name}` holds events of a newer version, at the latest version {entry.version}; "
                "upgrade this worker",
                stream=self.key.name,
                version=entry.version,
            )
        self.seen.append(seen(self.folded.state, recorded, after.state))
        self.changes.take(self.seen[-1])
        self._events_bytes += len(entry.payload) + len(entry.content or b"")
        self.folded = after


async def project_anew(
    store: Store,
    engine: Engine,
    partition: int,
    keys: Sequence[StreamKey],
    *,
    done: Callable[[CaughtUp], None] = lambda _: None,
    names: Sequence[str] = (),
) -> list[LedgerError]:
    """Drop a partition's views and rebuild them from its streams; return why streams are unreadable, one error each.

    The index of deadlines is corrected by the same folds. `names` are its views besides the fixed ones.
    """
    await store.drop_views(partition, (*FIXED, *names))
    problems: list[LedgerError] = []
    index = dict(await store.due(None, INDEX_COUNT_MAX, [partition]))

    async def ended(caught: CaughtUp) -> None:
        done(caught)
        if caught.folded is not None and isinstance(caught.folded.state, SessionState):
            seen, hint = index.get(caught.key.id, NOTHING_DUE), hint_of(caught.folded.state)
            if seen != as_seen(hint):
                await store.correct_due(caught.key.id, seen, hint, at=caught.folded.position)

    async def one(key: StreamKey, short: ShortStream | None) -> None:
        try:
            await ended(await (engine.catch_up(key) if short is None else engine.begin(key, short)))
        except (DamageError, *OUT_OF_REACH) as error:
            problems.append(error)
            await note_skipped(store, key, skipped=True)

    async def together(begun: Sequence[_Begun]) -> None:
        if await engine.begin_together([one.step for one in begun]):
            for key, _, step in begun:
                await ended(CaughtUp(key, step.folded.version, step.folded.version, step.folded))
            return
        for key, short, _ in begun:
            await one(key, short)

    turns = _Turns(WRITTEN_AT_ONCE_COUNT)
    portion = _Portion()
    async with asyncio.TaskGroup() as group:
        async for key, short in read_short_streams(store, keys):
            step = None if short is None else await engine.prepared(key, short)
            if short is None or step is None:
                await turns.give(group, one(key, short))
                continue
            portion.add(_Begun(key, short, step))
            if portion.is_full:
                await turns.give(group, together(portion.begun))
                portion = _Portion()
        if portion.begun:
            await turns.give(group, together(portion.begun))
    return problems


class _Begun(NamedTuple):
    """A short stream, and the step that projects it."""

    key: StreamKey
    short: ShortStream
    step: ProjectionStep


class _Portion:
    """Short streams that are written together, as many as the server takes in one piece."""

    def __init__(self) -> None:
        self.begun: list[_Begun] = []
        self._events = self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        return self._events >= STEP_EVENTS or self._size_bytes >= STEP_BYTES

    def add(self, one: _Begun) -> None:
        self.begun.append(one)
        self._events += one.step.folded.version
        self._size_bytes += one.step.size_bytes


class _Turns:
    """Tasks of a group, at most `count` at once."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def give(self, group: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        """Start a task as soon as there is room."""
        await self._free.acquire()
        group.create_task(work).add_done_callback(lambda _: self._free.release())

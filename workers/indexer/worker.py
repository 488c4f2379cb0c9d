"""The indexer: keeps an index of requests up with the log. Any number may run, each with a file of its own.

The checkpoints lie in the file, so no consumer group is used: the feeds are read from the lines that the file has noted.
Wake-ups name sessions at once, the feeds name those whose wake-ups were lost, and a walk over all streams finds those
that no feed names any more. A killed indexer goes on where its last transaction ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from ledger import Ledger
from ledger.core.codec import NewerEvent
from ledger.core.errors import DamageError, InputError, NewerSchemaError
from ledger.log.tail import BEFORE_FIRST, SHORT_COUNT, LostHistoryError, check_info, entry_at, read_entry, read_pages
from ledger.stores.port import START, Entry, ShortStream, StreamKey, WakeUp
from ledger.stores.store import KEYS_AT_ONCE_COUNT, Store
from projections.search_rows import ContentGone, SearchChange, search_change
from workers.indexer.file import DEPLOYMENT, NO_HEAD, WALK, WHOLE, IndexedHead, IndexFile, SessionStep
from workers.indexer.reader import LINES_AT_ONCE_COUNT, NO_GROUP, deployment_of
from workers.indexer.schema import default_file
from workers.runtime.consumer import Consumer, Pause
from workers.runtime.process import Work

STEP_EVENTS: Final = 500
"""Entries of one step of a long session."""


class ReadStep(NamedTuple):
    """A step; `more`: the session may have entries after it. `damage`: the entry after it cannot be read."""

    step: SessionStep
    more: bool
    damage: DamageError | None = None


async def next_steps(store: Store, heads: Sequence[tuple[str, IndexedHead]]) -> list[ReadStep]:
    """Return the next step of each session as of its checkpoint. Raises StoreError."""
    begun = [StreamKey("session", session) for session, head in heads if head.at == START]
    whole = dict(zip(begun, await store.short_streams(begun, SHORT_COUNT), strict=True)) if begun else {}
    return await asyncio.gather(
        *(_next(store, session, head, whole.get(StreamKey("session", session))) for session, head in heads)
    )


async def _next(store: Store, session: str, head: IndexedHead, whole: ShortStream | None) -> ReadStep:
    key = StreamKey("session", session)
    try:
        if whole is not None:
            check_info(key, whole.info)
            return _step(key, head, BEFORE_FIRST, whole.entries, more=False)
        known = BEFORE_FIRST if head.at == START else await entry_at(store, key, head.at)
        if known is not None:
            async for page in read_pages(store, key, known, count=STEP_EVENTS):
                return _step(key, head, known, page, more=len(page) == STEP_EVENTS)
            return ReadStep(SessionStep(session, False, (), head), more=False)
    except LostHistoryError:
        pass
    except DamageError as error:
        return ReadStep(SessionStep(session, False, (), head), more=False, damage=error)
    # The log lost entries that were read, or the session is gone: it is read from its beginning.
    return ReadStep(SessionStep(session, True, (), NO_HEAD), more=True)


def _step(key: StreamKey, head: IndexedHead, known: Entry, page: Sequence[Entry], *, more: bool) -> ReadStep:
    """Return the changes of a page. Rows that may hold redacted content are dropped and read again instead.

    All of one page is as of one moment, so what a redaction in it took out is out of it.
    """
    changes: list[SearchChange] = []
    clean = max(head.clean, page[-1].version) if head.at == START and page else head.clean
    before, damage = known, None
    for entry in page:
        try:
            # A row has neither the durations of a request nor the digest of the rules.
            recorded = read_entry(key, entry, before, before.payload, None)
            if isinstance(recorded.event, NewerEvent):
                raise NewerSchemaError(
                    f"stream `{key.name}` holds events of a newer version at version {entry.version}; "
                    "upgrade this worker",
                    stream=key.name,
                    version=entry.version,
                )
        except DamageError as error:
            damage, more = error, False
            break
        before, change = entry, search_change(recorded)
        if isinstance(change, ContentGone) and change.version > clean:
            # What is read from now on is without that content.
            return ReadStep(SessionStep(key.id, True, (), IndexedHead(START, change.version)), more=True)
        if change is not None:
            changes.append(change)
    return ReadStep(SessionStep(key.id, False, changes, IndexedHead(before.position, clean)), more, damage)


log = logging.getLogger(__name__)

SESSIONS_AT_ONCE_COUNT: Final = 32
"""Sessions of one transaction."""

OWN: Final = "own:"
"""The beginning of the walk's place in its second half, over the sessions of the index."""


class IndexPace(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of an indexer's own checks, in seconds; a wake-up makes it check at once."""

    feed_seconds: float = 5.0
    """The interval at which all feeds are read, in case a wake-up was lost."""
    walk_seconds: float = 600.0
    """The interval between the beginnings of two walks over all streams, in case a hint was lost."""
    step_seconds: float = 1.0
    """The interval between two steps of a walk that is not due."""
    scrub_seconds: float = 1.0
    """The interval of attempts to empty the database's own log while a reader is in the way."""


STANDBY_SECONDS: Final = 5.0


def work_of(
    named: Path | None, pace: IndexPace | None = None, ready: Callable[[], None] = lambda: None, *, waits: bool = False
) -> Work:
    """Return the work of an indexer on a file, or the default one. `waits`: until no other indexer writes it."""

    async def work(ledger: Ledger, stop: asyncio.Event) -> None:
        file = named or default_file(await deployment_of(ledger.store))
        while waits and IndexFile.is_written(file) and not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), STANDBY_SECONDS)
        if not stop.is_set():
            await run(ledger, stop, file, pace, ready)

    return work


async def run(
    ledger: Ledger,
    stop: asyncio.Event,
    file: Path,
    pace: IndexPace | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Keep an index until `stop` is set. Errors of the server are logged and retried.

    Raises InputError for a file of something else, of another deployment or of another indexer, and SetupError.
    """
    index = IndexFile(file)
    try:
        await _claim(ledger, index)
        ready()
        await Indexer(ledger, index, pace or IndexPace()).run(stop)
    finally:
        index.close()


async def _claim(ledger: Ledger, index: IndexFile) -> None:
    """Note whose index it is: that of another deployment would mix two logs."""
    ours, noted = await deployment_of(ledger.store), index.noted(DEPLOYMENT)
    if noted not in ("", ours):
        raise InputError(f"`{index.path}` is the index of another ledger; name another file, or remove it")
    index.note({DEPLOYMENT: ours})


class Indexer:
    """Finds sessions that are ahead of the index."""

    def __init__(self, ledger: Ledger, index: IndexFile, pace: IndexPace) -> None:
        self._store = ledger.store
        self._index = index
        self._pace = pace
        self._logged: dict[str, str] = {}
        self._next_sweep = self._next_walk = self._next_step = 0.0
        self._named: dict[str, None] = {}
        self._consumer = Consumer(
            "indexer",
            ledger,
            self._pass,
            retry_seconds=pace.feed_seconds,
            concerns=self._concerns,
            on_stop=index.stop,
        )

    async def run(self, stop: asyncio.Event) -> None:
        log.info("indexer: keeps %s", self._index.path)
        await self._consumer.run(stop)
        log.info("indexer: stopped")

    def _is_stopping(self) -> bool:
        return self._consumer.stopping

    def _concerns(self, wake_up: WakeUp) -> bool:
        """Remember the session of a wake-up, which says more than its partition."""
        is_session = wake_up.key.kind == "session"
        if is_session:
            self._named[wake_up.key.id] = None
        return is_session

    async def _pass(self, _: list[int]) -> Pause:
        loop = asyncio.get_running_loop()
        await self._catch_up_named()
        if loop.time() >= self._next_sweep:
            await self._read_feeds()
            self._next_sweep = loop.time() + self._pace.feed_seconds
        if loop.time() >= self._next_step:
            await self._walk_on()
        next_look = min(self._next_step, self._next_sweep)
        if not await asyncio.to_thread(self._index.scrub):
            next_look = min(next_look, loop.time() + self._pace.scrub_seconds)
        return Pause(next_look - loop.time())

    async def _catch_up_named(self) -> None:
        named = self._named
        self._named = {}
        try:
            await self._catch_up(named)
        except BaseException:
            self._named = named | self._named
            raise

    # --- the feeds ----------------------------------------------------------------------------------------------------

    async def _read_feeds(self) -> None:
        """Index what the feeds name after the noted lines; have all streams walked over where lines were trimmed."""
        while not self._is_stopping():
            feeds = self._index.feeds()
            lines = await self._store.unacknowledged(NO_GROUP, feeds, LINES_AT_ONCE_COUNT)
            if not lines:
                return
            if any(one.trimmed for one in lines) and self._index.noted(WHOLE):
                log.info("indexer: fell behind the feeds; all streams are compared")
                self._index.note({WHOLE: "", WALK: ""})
                self._next_step = 0.0
            versions: dict[str, int] = {}
            for item in (item for one in lines for item in one.items if item.key.kind == "session"):
                versions[item.key.id] = max(item.version, versions.get(item.key.id, 0))
            await self._catch_up(one for one, version in versions.items() if self._index.head(one).at.version < version)
            if self._is_stopping():
                return
            self._index.note({}, {one.partition: one.after for one in lines})

    # --- the walk -----------------------------------------------------------------------------------------------------

    async def _walk_on(self) -> None:
        """Make one step of the walk; the next one at once while the index is not known to be whole."""
        now = asyncio.get_running_loop().time()
        place, due = self._index.noted(WALK), not self._index.noted(WHOLE)
        if not place:
            self._next_walk = now + self._pace.walk_seconds
        place = await (self._walk_own(place) if place.startswith(OWN) else self._walk_streams(place))
        if self._is_stopping():
            return
        self._index.note({WALK: place} if place else {WALK: "", WHOLE: "1"})
        if not place:
            if due:
                log.info("indexer: the index is whole")
            self._next_step = self._next_walk
        else:
            self._next_step = now if due else now + self._pace.step_seconds

    async def _walk_streams(self, place: str) -> str:
        keys, cursor = await self._store.streams_page(place, KEYS_AT_ONCE_COUNT)
        await self._compare([key.id for key in keys if key.kind == "session"])
        return cursor or OWN

    async def _walk_own(self, place: str) -> str:
        """Compare sessions of the index, of which the log may have lost some."""
        sessions = self._index.sessions(place.removeprefix(OWN), KEYS_AT_ONCE_COUNT)
        await self._compare(sessions)
        return OWN + sessions[-1] if sessions else ""

    async def _compare(self, sessions: Sequence[str]) -> None:
        heads = await self._store.heads([StreamKey("session", one) for one in sessions])
        await self._catch_up(
            one for one, (at, _) in zip(sessions, heads, strict=True) if at == START or self._index.head(one).at != at
        )

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def _catch_up(self, sessions: Iterable[str]) -> None:
        """Index sessions to their heads, some at a time; one that cannot be read is told of once."""
        left = iter(sessions)
        wanted = list(islice(left, SESSIONS_AT_ONCE_COUNT))
        while wanted and not self._is_stopping():
            heads = {one: self._index.head(one) for one in wanted}
            found = await next_steps(self._store, list(heads.items()))
            await asyncio.to_thread(self._index.apply, [one.step for one in found if _changes(one, heads)])
            for one in found:
                self._tell(one.step.session, one.damage.text if one.damage else None)
            wanted = [one.step.session for one in found if one.more]
            wanted += islice(left, SESSIONS_AT_ONCE_COUNT - len(wanted))

    def _tell(self, session: str, damage: str | None) -> None:
        if damage is None:
            self._logged.pop(session, None)
        elif self._logged.get(session) != damage:
            self._logged[session] = damage
            log.warning("indexer: skipped: %s", damage)


def _changes(found: ReadStep, heads: Mapping[str, IndexedHead]) -> bool:
    step = found.step
    return step.anew or bool(step.changes) or step.head != heads[step.session]

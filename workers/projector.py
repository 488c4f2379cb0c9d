"""The projector: keeps the views up with the streams. Any number may run at once; any may be killed.

Each partition's feed names the streams with new events; a consumer group shares its lines among the projectors. A line
is acknowledged when the views have changed, so a dead projector's lines are taken over by another. The feed is short
and only a hint: a walk over all streams, a bounded number each second, compares the checkpoints with the streams
themselves. After a feed was trimmed before it was read, the walk does not pause.

A process may die between two streams, so repairs are made before the views pass that point, each of them idempotent. A
winning reply with scope `project` is first in its session's stream; its grants follow in the project's. A failover may
lose the grants while the reply, on another server, is kept. And a project's grant releases pending requests in other
sessions (`cascade_always = "project"`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from ledger import Ledger, Session
from ledger.core.errors import DamageError, InputError, LedgerError, StoreError
from ledger.core.events import Granted, LogRegressed, Replied
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.log.archive.archive import all_streams
from ledger.log.surveys import paged
from ledger.log.tail import LostHistoryError
from ledger.log.viewed import checkpoints, projects_of
from ledger.session.state import SessionState, Settled
from ledger.stores.keys import PROJECTORS
from ledger.stores.port import FeedItem, StreamKey
from projections.engine import OUT_OF_REACH, STREAMS_AT_ONCE_COUNT, CaughtUp, Engine, note_skipped, project_anew
from projections.lag import StreamWalk, uncounted
from projections.projection import Seen
from workers.runtime.consumer import Consumer, Pause, every_append

log = logging.getLogger(__name__)

WAITING_SESSIONS_MAX: Final = 100_000

SESSIONS_AT_ONCE_COUNT: Final = 500
"""The number of sessions whose projects are read at once."""


class Repairs:
    """Repairs for an `Engine`: called with a step's events before the step. A StoreError prevents the step."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def __call__(self, key: StreamKey, seen: Sequence[Seen]) -> None:
        if key.kind == "project":
            if any(isinstance(one.recorded.event, LogRegressed) for one in seen):
                await self._write_lost_grants(key.id)
            if any(isinstance(one.recorded.event, Granted) for one in seen):
                await self._release_in(key.id)
            return
        for one in seen:
            settled = _granting(one)
            if settled is not None and isinstance(one.after, SessionState) and one.after.project is not None:
                await self._write_grants(key.id, one.after.project, settled)

    async def _write_grants(self, session: str, project: str, settled: Settled) -> None:
        try:
            known = (await self._ledger.streams.project(project).refresh()).grants
            if any(grant_id not in known for grant_id in settled.grants):
                await Session(self._ledger, session).answers.write_project_grants(settled)
                log.warning(
                    "project %s lacked the grants of the reply to %s in session %s: written",
                    project,
                    settled.request.request_id,
                    session,
                )
        except (DamageError, InputError) as error:
            # That stream needs a person; the views of this one go on without it.
            log.warning(
                "the grants of request %s are not in project %s: %s", settled.request.request_id, project, error
            )

    async def _write_lost_grants(self, project: str) -> None:
        """Grant again after the server lost the end of this project's stream: the grants of its sessions' replies.

        The uses that their calls took are taken again too.

        A session that is in no view so far is repaired when it is projected. A lost revoke stays lost.
        """
        uses: list[tuple[str, Settled]] = []
        sessions = (key.id async for key in all_streams(self._ledger.store) if key.kind == "session")
        async for some in paged(sessions, SESSIONS_AT_ONCE_COUNT):
            await self._write_lost_grants_of(some, project, uses)
        for session, settled in uses:
            await Session(self._ledger, session).answers.take_lost_uses(settled)

    async def _write_lost_grants_of(
        self, sessions: Sequence[str], project: str, uses: list[tuple[str, Settled]]
    ) -> None:
        """Grant again in some sessions; add their requests that took uses to `uses`, for when all grants are there."""
        known = await projects_of(self._ledger.store, sessions)
        for session in (one for one in sessions if known.get(one) == project):
            try:
                state = await Session(self._ledger, session).state()
            except DamageError as error:
                log.warning("session %s was skipped: %s", session, error)
                continue
            for settled in state.settled.values():
                if settled.granted_to_project and settled.grants:
                    await self._write_grants(session, project, settled)
            uses += [(session, one) for one in state.settled.values() if one.request.uses]

    async def _release_in(self, project: str) -> None:
        for session in await self._waiting_in(project):
            handle = Session(self._ledger, session)
            try:
                state = await handle.state()
                if state.project == project and state.settings.cascade_always == "project":
                    await handle.answers.release()
            except DamageError as error:
                log.warning("session %s was skipped: %s", session, error)

    async def _waiting_in(self, project: str) -> list[str]:
        """Return the sessions with pending requests that are of this project, or in no view so far."""
        waiting = [session for session, _ in await self._ledger.store.due(None, WAITING_SESSIONS_MAX)]
        known = await projects_of(self._ledger.store, waiting)
        return [session for session in waiting if known.get(session, project) == project]


def _granting(seen: Seen) -> Settled | None:
    """Return the outcome of a reply that grants to the project, if this event is the winning one."""
    event = seen.recorded.event
    if not isinstance(event, Replied) or event.scope != "project" or not event.grants:
        return None
    if not isinstance(seen.after, SessionState):
        return None
    settled = seen.after.settled.get(event.request_id)
    return settled if settled is not None and settled.version == seen.recorded.version else None


GROUP: Final = PROJECTORS

CONSUMER_FORGOTTEN_MS: Final = 3_600_000
"""The idle time after which the name of a consumer without unacknowledged lines is dropped."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of a projector's own checks, in seconds; a wake-up makes it check at once."""

    feed_seconds: float = 5.0
    """The interval at which all feeds are read, in case a wake-up was lost."""
    claim_idle_seconds: float = 15.0
    """The time without an acknowledgement after which another projector's lines are taken over."""
    scan_seconds: float = 600.0
    """The shortest interval between the beginnings of two walks over all streams, in case a hint was lost."""
    step_seconds: float = 1.0
    """The interval between two steps of a walk, which is of at most `projections.lag.STEP_KEYS_COUNT` keys or so."""
    census_seconds: float = 60.0
    """The interval at which a round is made due if a partition has no census: its views were dropped, say."""


async def run(ledger: Ledger, stop: asyncio.Event, pace: Pace | None = None) -> None:
    """Keep the views up until `stop` is set. Errors are logged and retried; raises no ledger errors."""
    await Projector(ledger, pace or Pace()).run(stop)


class Projector:
    """Finds streams that are ahead of their views."""

    def __init__(self, ledger: Ledger, pace: Pace) -> None:
        self._store = ledger.store
        self._pace = pace
        self._worker = CatchingUp(ledger)
        self.consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._walk = StreamWalk(ledger.store, self._worker.catch_up_all)
        self._next_walk = self._next_step = self._next_sweep = self._next_census = 0.0
        self._consumer = Consumer(
            "projector", ledger, self._pass, retry_seconds=pace.feed_seconds, concerns=every_append
        )

    async def run(self, stop: asyncio.Event) -> None:
        log.info(
            "projector: %d partitions, consumer group %s, consumer %s",
            self._store.partition_count,
            GROUP,
            self.consumer,
        )
        await self._consumer.run(stop)
        with suppress(LedgerError):
            await self._store.drop_consumers(GROUP, 0, self.consumer)
        log.info("projector: stopped, %d events projected", self._worker.events)

    async def _pass(self, woken: list[int]) -> Pause:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._next_census:
            self._next_census = loop.time() + self._pace.census_seconds
            if not await self._walk.is_due() and await uncounted(self._store):
                await self._walk.want()
                self._next_step = 0.0
        if loop.time() >= self._next_step:
            await self._walk_on()
        if loop.time() >= self._next_sweep:
            # Those, too, that another projector took and never acknowledged.
            await self._read(range(self._store.partition_count), round(self._pace.claim_idle_seconds * 1000))
            self._next_sweep = loop.time() + self._pace.feed_seconds
        await self._read(woken)
        return Pause(min(self._next_step, self._next_sweep, self._next_census) - loop.time())

    async def _walk_on(self) -> None:
        """Make one step of the walk; the next one soon if it is due, else after a pause."""
        now = asyncio.get_running_loop().time()
        begin = now >= self._next_walk
        if begin:
            self._next_walk = now + self._pace.scan_seconds
            await self._store.drop_consumers(GROUP, CONSUMER_FORGOTTEN_MS)
        stepped = await self._walk.step(begin=begin)
        if stepped.behind:
            log.info(
                "projector: %d streams were ahead of their views without a hint, found by the walk", stepped.behind
            )
        if stepped.ended:
            # Another process may note meanwhile that a round is due.
            self._next_step = min(self._next_walk, now + self._pace.feed_seconds)
        else:
            self._next_step = now if stepped.due else now + self._pace.step_seconds

    async def _read(self, partitions: Sequence[int], idle_ms: int | None = None) -> None:
        """Process the feeds of these partitions until they hold nothing new."""
        while partitions and not self._consumer.stopping:
            taken = await self._store.read_feed(partitions, GROUP, self.consumer, FEED_LENGTH_COUNT, idle_ms)
            if taken.taken_over:
                log.info("projector: took over %d lines that nobody had acknowledged", taken.taken_over)
            await self._fell_behind(taken.gaps)
            await self._work(taken.items)
            partitions, idle_ms = sorted({item.partition for item in taken.items}), None

    async def _work(self, items: Sequence[FeedItem]) -> None:
        by_stream: dict[StreamKey, list[FeedItem]] = {}
        for item in items:
            by_stream.setdefault(item.key, []).append(item)
        done = await self._worker.catch_up_all(by_stream)
        await self._store.acknowledge(GROUP, [item for key in done for item in by_stream[key]])

    async def _fell_behind(self, gaps: Sequence[int]) -> None:
        """Have all streams of these partitions compared: their feeds dropped lines that nobody dealt with."""
        if gaps:
            log.info("projector: fell behind the feeds of %d partitions; all streams are compared", len(gaps))
            await self._walk.want(gaps)
            self._next_step = 0.0


class CatchingUp:
    """Several streams side by side, each with failures of its own."""

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store
        self._engine = Engine(ledger.store, before_step=Repairs(ledger))
        self._logged: dict[StreamKey, str] = {}
        self._anew = asyncio.Lock()
        self._turns = asyncio.Semaphore(STREAMS_AT_ONCE_COUNT)
        self.events = 0

    async def catch_up_all(self, keys: Iterable[StreamKey]) -> list[StreamKey]:
        """Return the streams that are finished: up to their head, or as far as possible. Raises StoreError."""
        wanted = list(keys)
        behind = await self._without_resting(wanted) if len(wanted) > STREAMS_AT_ONCE_COUNT else wanted
        results = await asyncio.gather(*(self._catch_up(key) for key in behind), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return wanted

    async def _without_resting(self, keys: Sequence[StreamKey]) -> Sequence[StreamKey]:
        """Return streams without the sealed ones whose views are as of their head: the archive need not be read for them.

        A round of an archiver leaves a line of the feed for each session that it seals.
        """
        try:
            heads = await self._store.heads(keys)
        except DamageError:
            return keys  # the damaged one is named when it is projected
        sealed = {key: at for key, (at, seal) in zip(keys, heads, strict=True) if seal is not None}
        known = await checkpoints(self._store, list(sealed))
        resting = {key for key, at in zip(sealed, known, strict=True) if at == sealed[key]}
        for key in resting:
            await self._count(CaughtUp(key, sealed[key].version, 0))
        return [key for key in keys if key not in resting]

    async def _catch_up(self, key: StreamKey) -> None:
        async with self._turns:
            try:
                await self._count(await self._engine.catch_up(key))
            except LostHistoryError:
                await self._project_anew(key)
            except OUT_OF_REACH as error:
                await self._pass_sealed(key, error)
            except StoreError:
                raise
            except DamageError as error:
                await self._skip(key, error.text)
            except Exception as error:  # a fault of ours in one stream must not stop the others
                log.exception("stream %s could not be projected", key.name)
                await self._skip(key, repr(error))

    async def _count(self, caught: CaughtUp) -> None:
        self.events += caught.events
        if self._logged.pop(caught.key, None) is not None:
            await note_skipped(self._store, caught.key, skipped=False)
        log.debug("stream %s is at version %d", caught.key.name, caught.version)

    async def _pass_sealed(self, key: StreamKey, error: LedgerError) -> None:
        """Leave the views of a sealed stream that cannot be read as they are, if they are as of its head; else skip it."""
        ((head, seal),) = await self._store.heads([key])
        (at,) = await checkpoints(self._store, [key])
        if seal is not None and at == head:
            await self._count(CaughtUp(key, at.version, 0))
        else:
            await self._skip(key, error.text)

    async def _skip(self, key: StreamKey, text: str) -> None:
        """Log once, not at every check. Readers of the views are told each time, since the views may have been dropped."""
        if self._logged.get(key) != text:
            self._logged[key] = text
            log.warning("skipped: %s", text)
        await note_skipped(self._store, key, skipped=True)

    async def _project_anew(self, key: StreamKey) -> None:
        partition = key.partition(self._store.partition_count)
        async with self._anew:
            try:
                # Another stream of the partition, or another projector, may have failed in the same way before.
                await self._count(await self._engine.catch_up(key))
            except LostHistoryError as error:
                log.warning("%s: all views of partition %d are rebuilt", error.text, partition)
                keys = [
                    one
                    async for one in all_streams(self._store)
                    if one.partition(self._store.partition_count) == partition
                ]
                names = (await self._store.views()).get(partition, ())
                for problem in await project_anew(self._store, self._engine, partition, keys, names=names):
                    log.warning("skipped: %s", problem.text)
            except DamageError as error:
                await self._skip(key, error.text)

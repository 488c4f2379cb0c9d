"""A process's handle of one stream: the cached fold, a queue of commands, and at most one append in flight.

Commands that arrive while an append is in flight are decided together, in order, on the state after it, and written as
one append. A decision without an append (nothing to do, or a refusal) rests on a state that was read after the command
arrived, so that an acknowledged event of another process is always seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from ledger.core import codec
from ledger.core.commitments import after_entry, genesis
from ledger.core.errors import DamageError, InDoubtError, InputError, LedgerError, StoreError
from ledger.core.events import Presence, Redacted
from ledger.core.freezes import any_allowing, any_binding
from ledger.core.grants import Recorded
from ledger.core.limits import EVENTS_PER_APPEND_COUNT, PAGE_COUNT
from ledger.log.fresh_folds import fresh_fold
from ledger.log.plans import SETTLE, Batch, Companion, Done, Fold, Job, Regression, recorded_of
from ledger.log.tail import MissingContent, contradicts, read_entry
from ledger.session.commands import PresenceWantedError
from ledger.stores.port import (
    START,
    Append,
    Appended,
    AppendResult,
    Behind,
    Blocked,
    Conflict,
    Entry,
    Foreign,
    OthersPresent,
    OutsideWindow,
    Position,
    StreamKey,
    Unverified,
    WakeUp,
)
from ledger.stores.store import Store, append_to

S = TypeVar("S")

Observer = Callable[[Recorded | None], None]


class CachedFold(Generic[S]):
    """The fold of a stream, continued by whole pages, and by the entries of wake-ups and of own appends."""

    def __init__(self, store: Store, key: StreamKey, fold: Fold[S]) -> None:
        self.key = key
        self._store = store
        self._fold = fold
        self._observers: list[Observer] = []
        self.state = fold.initial(key)
        self.position = START
        self._payload = b""
        self._missing = MissingContent()
        self.folded = False
        """True when `state` is the fold of the stream, as far as this process has read it."""
        self._safe = START
        """The last entry with confirmed replication (`Durability`)."""

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with every later event, and with None when the state was folded from the start."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    @property
    def observed(self) -> bool:
        """Return whether the stream has observers."""
        return bool(self._observers)

    def _tell(self, recorded: Recorded | None) -> None:
        if self._observers:
            for observer in list(self._observers):
                observer(recorded)

    def _forget(self) -> None:
        """Fold again before the next command. Readers keep the old state until then."""
        self.folded = False

    def _next_prev(self) -> str:
        if self.position == START:
            return genesis(self.key.kind, self.key.id)
        return after_entry(self.position.ms, self.position.version, self._payload)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _ensure_folded(self) -> bool:
        """Fold the stream if it is not folded; return True if this read the server."""
        if self.folded:
            return False
        found = await fresh_fold(self._store, self.key, self._fold.initial(self.key), self._fold.evolve)
        found.missing.require_none(self.key)
        self._missing = found.missing
        # Replaced at once, so that no reader sees a partial fold.
        self.state, self.position, self._payload = found.state, found.last.position, found.last.payload
        self._safe = START
        self.folded = True
        self._tell(None)
        return True

    async def _read_tail(self) -> bool:
        """Fold new entries, read together with the last known one; return False if the server has lost that one."""
        while True:
            seen, payload = self.position, self._payload
            page = await self._store.read(self.key, Position(seen.ms, max(seen.version - 1, 0)), PAGE_COUNT)
            lost = seen != START and (not page or (page[0].position, page[0].payload) != (seen, payload))
            if lost or contradicts(page, self.position, self._payload):
                return False
            self._absorb(page)
            if len(page) < PAGE_COUNT:
                self._missing.require_none(self.key)
                return True

    # --- folding ----------------------------------------------------------------------------------------------------

    def _absorb_quietly(self, entries: Sequence[Entry]) -> bool:
        """Fold entries from a wake-up; return False when they do not follow, so that the stream must be read."""
        if not self.folded:
            return False
        if entries and entries[0].version > self.position.version + 1:
            return False
        try:
            self._absorb(entries)
        except DamageError:
            # The next read raises the same damage to its caller.
            return False
        if self._missing:
            self._forget()
            return False
        return True

    def _absorb(self, entries: Sequence[Entry]) -> None:
        """Fold the next entries, skipping known ones."""
        for entry in entries:
            if entry.position <= self.position:
                continue
            recorded = read_entry(self.key, entry, self.position, self._payload, self.state)
            if recorded.redacted or type(recorded.event) is Redacted:
                self._missing.take(entry.version, recorded)
            self.state = self._fold.evolve(self.state, recorded)
            self.position = entry.position
            self._payload = entry.payload
            self._tell(recorded)


class Tallies:
    """Counters since the start of the process."""

    def __init__(self) -> None:
        self.conflicts = 0
        """Append conflicts (lost races, retried)."""
        self.in_doubt = 0
        """Writes without a reply."""

    def failed(self, error: BaseException) -> None:
        self.in_doubt += isinstance(error, InDoubtError)


log = logging.getLogger(__name__)

ROUNDS_MAX = 64
"""Rounds of one batch (conflicts, windows) before it fails; each round has seen more than the one before."""


class Stream(CachedFold[S]):
    """The cached fold of one stream, and its command queue."""

    def __init__(
        self,
        store: Store,
        key: StreamKey,
        fold: Fold[S],
        tallies: Tallies | None = None,
        learn_of_freezes: Callable[[Blocked | Unverified], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(store, key, fold)
        self._tallies = tallies or Tallies()
        self.confirms, self._clock = store.durability.is_demanding, store.clock
        self._learn_of_freezes = learn_of_freezes
        self._jobs: deque[Job[S]] = deque()
        self._work: asyncio.Task[None] | None = None
        self._in_flight: Batch[S] | None = None
        self.present: tuple[Presence, ...] = ()
        """The clients with leases of this session, as this process heard last."""

    # --- the public interface ---------------------------------------------------------------------------------------

    async def submit(self, command: Any, companion: Companion | None = None) -> Done[S]:
        """Decide a command on fresh state and append its events.

        `companion` is another stream that is read in the same flush. Raises the refusal of `decide`, StoreError,
        InDoubtError or DamageError. Cancelling the caller does not undo the append.
        """
        job: Job[S] = Job(command, companion)
        self._jobs.append(job)
        self._start()
        return await job.future

    async def refresh(self) -> S:
        """Return the state, read from the server after this call began."""
        return (await self.submit(None)).state

    async def as_of_now(self) -> S:
        """Return the state of `refresh` with all passed deadlines settled, without writing the events of that."""
        await self.refresh()
        batch, more = Batch(self._fold, []), True
        self._begin(batch)
        while more:
            due = await self._fold.settle(batch.ahead(), batch.now_ms)
            batch.take(due, batch.state)
            more = due.more
        return batch.ahead()

    async def confirm(self) -> bool:
        """Return whether the folded entries have confirmed replication (`Durability`).

        False when the server has lost some of them; the rest is then folded. Raises InDoubtError when the confirmation
        does not come in time, StoreError. A wake-up precedes replication, so callers must confirm before they act on
        it.
        """
        if not self.confirms or self.position <= self._safe:
            return True
        position, payload = self.position, self._payload
        entry = await self._store.confirm(self.key, position)
        if entry is None or entry.payload != payload:
            await self.refresh()
            return False
        self._safe = max(self._safe, position)
        return True

    async def make_safe(self) -> None:
        """As `confirm`, after a write of this process. Raises InDoubtError also when it was lost."""
        if self.confirms and not await self.confirm():
            raise InDoubtError(f"stream `{self.key.name}`: the server lost the last append; repeat the command")

    def woken(self, wake_up: WakeUp) -> None:
        """Fold the entries of a wake-up if they are the next versions; otherwise read the stream.

        A wake-up during a fold may announce entries that the current read does not include.
        """
        if not self.folded:
            if self._observers or self._busy:
                self.read_soon()
        elif wake_up.head > self.position and not (wake_up.entries and self._takes(wake_up.entries)):
            self.read_soon()

    def _takes(self, entries: Sequence[Entry]) -> bool:
        """Return whether to fold a wake-up's entries now. Those of the append in flight are not decoded again."""
        batch = self._in_flight
        if batch is not None and self.position == batch.after and [one[2:] for one in entries] == batch.payloads:
            self._take_own(batch, entries[0].position)
            return True
        return self._absorb_quietly(entries)

    def read_soon(self) -> None:
        """Read in the background; wake-ups may have been lost."""
        if any(job.command is None for job in self._jobs):
            return
        job: Job[S] = Job(None)
        job.future.add_done_callback(_log_failure)
        self._jobs.append(job)
        self._start()

    # --- one append at a time ---------------------------------------------------------------------------------------

    @property
    def _busy(self) -> bool:
        return self._in_flight is not None or self._work is not None

    def _start(self) -> None:
        """Post the append of the queued commands, or start a task if something must be awaited before.

        Nearly all commands are posted at once: the state is folded, nothing is due, and they make events.
        """
        if self._in_flight is not None or self._work is not None:
            return
        if not (self.folded and self._jobs[0].command not in (None, SETTLE) and self._posts_now()):
            self._prepare_soon()

    def _prepare_soon(self, batch: Batch[S] | None = None, result: AppendResult | None = None) -> None:
        self._work = asyncio.create_task(self._prepare_all(batch, result), name=f"prepare {self.key.name}")

    def _posts_now(self) -> bool:
        """Post the append of the next jobs if nothing must be awaited before; else put them back."""
        batch = Batch(self._fold, self._next_jobs())
        try:
            self._begin(batch)
            if batch.due_ms is None or batch.due_ms > batch.now_ms:
                batch.decide_all(batch.due_ms)
                if batch.events:
                    self._post(batch)
                    return True
        except Exception as error:  # noqa: BLE001 - the jobs may be of other callers than this one
            self._failed(batch.jobs, error)
            return not self._jobs
        self._jobs.extendleft(reversed(batch.jobs))
        return False

    async def _prepare_all(self, batch: Batch[S] | None, result: AppendResult | None) -> None:
        """Prepare the next append, until one is in flight or the queue is empty.

        `batch` is one whose last append had this `result`.
        """
        try:
            while batch is not None or self._jobs:
                batch = batch or Batch(self._fold, self._next_jobs())
                try:
                    if batch.jobs and await self._prepare(batch, result):
                        return
                except BaseException as error:
                    self._failed(batch.jobs, error)
                    if not isinstance(error, Exception):
                        raise
                batch = result = None
        finally:
            self._work = None

    async def _prepare(self, batch: Batch[S], result: AppendResult | None) -> bool:
        """Read and settle what the batch needs, then post its append; return False if it ended without one."""
        if result is not None:
            batch.is_read = True
            if await self._learn(batch, result):
                self._finish(batch)
                return False
        if await self._ensure_folded():
            batch.is_read = True
        while batch.rounds_count < ROUNDS_MAX:
            batch.rounds_count += 1
            self._begin(batch)
            is_due = batch.due_ms is not None and batch.due_ms <= batch.now_ms
            if is_due and any(job.command is not None for job in batch.jobs):
                await self._settle(batch)
            else:
                batch.decide_all(batch.due_ms)
            if batch.events:
                self._post(batch)
                return True
            if batch.is_read:
                self._finish(batch)
                return False
            if not await self._read_tail():
                await self._fold_again()
            batch.is_read = True
        raise StoreError(
            f"stream `{self.key.name}` was written by others {ROUNDS_MAX} times in a row; try again",
            stream=self.key.name,
        )

    def _post(self, batch: Batch[S]) -> None:
        batch.append = self._append_of(batch)
        companion = batch.companion
        also_read = None if companion is None else (companion.key, companion.position)
        self._in_flight = batch
        try:
            self._store.post(batch.append, partial(self._answered, batch), also_read)
        except BaseException:
            self._in_flight = None
            raise

    def _answered(self, batch: Batch[S], result: AppendResult | Exception, also_read: tuple[Entry, ...]) -> None:
        """Handle the result of an append. Whatever must be awaited after it is awaited before later commands."""
        try:
            if batch.companion is not None:
                batch.companion_is_behind = not batch.companion.take_also_read(also_read)
            if type(result) is Appended:
                batch.written_at = Position(result.ms, batch.after.version + 1)
                self._take_own(batch, batch.written_at)
                if batch.append.binding:
                    self._safe = Position(result.ms, batch.after.version + len(batch.events))
            if isinstance(result, Exception):
                self._failed(batch.jobs, result)
            elif batch.written_at is not None and not batch.companion_is_behind:
                self._finish(batch)
            else:
                self._prepare_soon(batch, result)
        except Exception as error:  # noqa: BLE001 - raised here it would reach the connection, not the callers
            self._failed(batch.jobs, error)
        self._in_flight = None
        if self._jobs:
            self._start()

    def _next_jobs(self) -> list[Job[S]]:
        jobs: list[Job[S]] = []
        while self._jobs and len(jobs) < EVENTS_PER_APPEND_COUNT:
            if jobs and (jobs[0].is_alone or self._jobs[0].is_alone):
                break
            job = self._jobs.popleft()
            if not job.future.done():
                jobs.append(job)
        return jobs

    def _failed(self, jobs: Sequence[Job[S]], error: BaseException) -> None:
        """Fail jobs, and those in the queue if the task is cancelled."""
        if isinstance(error, InputError) and len(jobs) > 1:
            # One command's event cannot be written; the commands of the same batch must not fail with it.
            for job in reversed(jobs):
                if not job.future.done():
                    job.is_alone = True
                    self._jobs.appendleft(job)
            return
        if isinstance(error, Foreign):
            error = DamageError(f"stream `{self.key.name}`: {error.text}", stream=self.key.name)
        if not isinstance(error, Exception):
            jobs = [*jobs, *self._jobs]
            self._jobs.clear()
        if isinstance(error, InDoubtError | DamageError) or not isinstance(error, LedgerError):
            self._forget()
        self._tallies.failed(error)
        for job in jobs:
            job.fail(error)
        # Wake-ups are ignored while nothing is folded, so observers need a new fold at once.
        if self._observers and isinstance(error, InDoubtError):
            self.read_soon()

    # --- deciding ---------------------------------------------------------------------------------------------------

    def _begin(self, batch: Batch[S]) -> None:
        """Begin a round of a batch, for now: by the server's clock if it told its time."""
        now_ms = self._clock.now_ms() if batch.server_ms is None else batch.server_ms
        due_ms = self._fold.next_due_ms(self.state)
        batch.begin(self.state, due_ms, self.position, self._next_prev(), max(now_ms, self.position.ms))

    async def _settle(self, batch: Batch[S]) -> None:
        """Begin the round with what is due, and decide the jobs after it. Reads settle nothing.

        Between this and the append nothing may be awaited. If `settle` awaited, wake-ups may have added entries, and a
        decision on the state before them must not be appended after them.
        """
        while True:
            due = await self._fold.settle(batch.state, batch.now_ms)
            if self.position == batch.after:
                break
            self._begin(batch)
        if due.events:
            batch.take(due, batch.state)
            batch.due_count = len(batch.events)
        if due.more:
            batch.left = batch.jobs
        else:
            batch.decide_all(self._fold.next_due_ms(batch.ahead()))

    def _append_of(self, batch: Batch[S]) -> Append:
        events = [event for event, _, _ in batch.events]
        allows = any_allowing(events)
        return Append(
            key=self.key,
            after=batch.after,
            payloads=tuple(batch.payloads),
            not_before_ms=batch.not_before_ms,
            not_after_ms=batch.not_after_ms,
            due=self._fold.due_hint(self.state, batch.due_ms, events, batch.ahead, batch.now_ms),
            binding=self.confirms and any_binding(events),
            allows=allows,
            project=self._fold.project_of(batch.state) if allows else None,
            present=batch.present,
        )

    # --- the result of an append ------------------------------------------------------------------------------------

    def _take_own(self, batch: Batch[S], first: Position) -> None:
        """Fold the events just written from position `first` on, without decoding them."""
        # Perhaps folded when they were decided, for this same millisecond.
        is_ahead = batch.folded_count == len(batch.events) == 1 and (self.position, first.ms) == (
            batch.after,
            batch.now_ms,
        )
        batch.recorded = []
        written = zip(batch.events, batch.payloads, strict=True)
        for version, ((event, actor, event_id), (payload, _)) in enumerate(written, first.version):
            recorded = Recorded(event, actor, first.ms, version, event_id)
            batch.recorded.append(recorded)
            # A wake-up may have delivered it already; known versions are skipped.
            if version == self.position.version + 1:
                self.state = batch.state if is_ahead else self._fold.evolve(self.state, recorded)
                self.position = first if version == first.version else Position(first.ms, version)
                self._payload = payload
                if self._observers:
                    self._tell(recorded)

    def take_also_read(self, entries: Sequence[Entry]) -> bool:
        return self._absorb_quietly(entries) and len(entries) < PAGE_COUNT

    async def _learn(self, batch: Batch[S], result: AppendResult) -> bool:
        """Read what the result of an append calls for; return True when the batch is in the log."""
        if batch.companion is not None and batch.companion_is_behind:
            await batch.companion.refresh()
            batch.companion_is_behind = False
        # Each node of a cluster has its own clock: only that of this stream's node counts.
        batch.server_ms = result.now_ms if isinstance(result, OutsideWindow) else None
        if isinstance(result, Conflict):
            self._tallies.conflicts += 1
            await self._catch_up(batch, result)
        elif isinstance(result, Behind):
            await self._fold_again()
        elif isinstance(result, OthersPresent):
            self._learn_of_presence(batch, result)
        elif isinstance(result, Blocked | Unverified):
            if self._learn_of_freezes is None:
                raise StoreError(f"stream `{self.key.name}`: nothing can be allowed without the stream of freezes")
            await self._learn_of_freezes(result)
        return batch.written_at is not None

    def _learn_of_presence(self, batch: Batch[S], refused: OthersPresent) -> None:
        """Fail the commands that assumed who is present, so that their callers make them again; decide the others."""
        self.present = refused.present or ()
        for job in batch.jobs:
            if getattr(job.command, "live", None) is not None:
                job.fail(PresenceWantedError("other clients are present than the command assumed"))
        batch.jobs = [job for job in batch.jobs if not job.future.done()]

    async def _catch_up(self, batch: Batch[S], conflict: Conflict) -> None:
        """Fold other writers' entries. With our own event among them, the append succeeded and its reply was lost.

        The search starts at the append's position, not at the fold's: a wake-up may have delivered our own entries.
        """
        page = conflict.entries
        while page:
            own = next((entry for entry in page if _bears(entry, batch.events[0][2])), None)
            if own is not None:
                batch.written_at = own.position
            if contradicts(page, self.position, self._payload):
                await self._fold_again()
            self._absorb(page)
            after = page[-1].position
            if after.version >= conflict.head.version:
                self._missing.require_none(self.key)
                return
            page = await self._store.read(self.key, after, PAGE_COUNT)

    async def _fold_again(self) -> None:
        """Fold again after the server lost entries seen here, and record the regression."""
        seen = self.position
        log.warning("stream %s: the server has lost entry %s; folding again", self.key.name, seen)
        self._forget()
        await self._ensure_folded()
        batch = Batch(self._fold, [])
        self._begin(batch)
        batch.take(self._fold.decide(self.state, Regression(seen, self.position), batch.now_ms), self.state)
        if not batch.events:
            return
        result, _ = await append_to(self._store, self._append_of(batch))
        if isinstance(result, Appended):
            self._take_own(batch, Position(result.ms, batch.after.version + 1))
        elif isinstance(result, Conflict):
            # Another writer recorded the loss first, which suffices.
            await self._catch_up(batch, result)

    def _finish(self, batch: Batch[S]) -> None:
        """Give the jobs of a batch their results, and put those back that did not fit into its append."""
        if batch.left:
            self._jobs.extendleft(reversed(batch.left))
        recorded = batch.recorded or recorded_of(batch, batch.written_at or self.position)
        for job, error, start, end in batch.outcomes:
            if error is not None:
                job.fail(error)
            elif not job.future.done():
                job.future.set_result(Done(self.state, tuple(recorded[start:end])))


def _bears(entry: Entry, event_id: str) -> bool:
    if event_id.encode() not in entry.payload:
        return False
    try:
        return codec.decode(entry.payload).id == event_id
    except DamageError:
        return False


def _log_failure(future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("background read failed: %s", error)

"""A process's handle of one stream: the cached fold, and at most one append in flight.

Commands that arrive while an append is in flight are decided together, in order, on the state after it, and written as
one append. A decision without an append (nothing to do, or a refusal) rests on a state that was read after the command
arrived, so that an acknowledged event of another process is always seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from ledger.core import chain, codec
from ledger.core.errors import DamageError, InDoubtError, InputError, LedgerError, StoreError
from ledger.core.grants import Recorded
from ledger.core.limits import EVENTS_PER_APPEND_COUNT, PAGE_COUNT
from ledger.log.batches import Batch, Job, recorded_of
from ledger.log.confirmed_events import any_binding
from ledger.log.entries import check_info, contradicts, read_entry
from ledger.log.plans import NOTHING, SETTLE, AppendPlan, Done, Fold, Regression
from ledger.log.tallies import Tallies
from ledger.stores.port import (
    START,
    Append,
    Appended,
    AppendResult,
    Behind,
    Conflict,
    Due,
    Entry,
    Foreign,
    OutsideWindow,
    Position,
    Store,
    StreamKey,
    WakeUp,
)

S = TypeVar("S")

log = logging.getLogger(__name__)

ROUNDS_MAX = 64
"""Retries of one batch (conflicts, windows) before it fails; each round has seen more than the one before."""

Observer = Callable[[Recorded | None], None]
JobRun: TypeAlias = "Coroutine[Any, Any, list[Job[S]]]"
"""A coroutine that completes jobs, and returns those that did not fit."""


class Stream(Generic[S]):
    """The cached fold of one stream, its command queue and its observers."""

    def __init__(self, store: Store, key: StreamKey, fold: Fold[S], tallies: Tallies | None = None) -> None:
        self.key = key
        self._tallies = tallies or Tallies()
        self._store = store
        self._confirms = store.confirms
        self._fold = fold
        self._jobs: deque[Job[S]] = deque()
        self._drainer: asyncio.Task[None] | None = None
        self._observers: list[Observer] = []
        self.state = fold.initial(key)
        self.position = START
        self._payload = b""
        self.folded = False
        """True when `state` is the fold of the stream, as far as this process has read it."""
        self._in_flight: Batch[S] | None = None
        self._safe = START
        """The last entry with confirmed replication (`Durability`)."""

    def _forget(self) -> None:
        """Fold again before the next command. Readers keep the old state until then."""
        self.folded = False

    # --- the public interface ---------------------------------------------------------------------------------------

    async def submit(self, command: Any, companion: Stream[Any] | None = None) -> Done[S]:
        """Decide a command on fresh state and append its events.

        `companion` is another stream that is read in the same flush. Raises the refusal of `decide`, StoreError,
        InDoubtError or DamageError. Cancelling the caller does not undo the append.
        """
        job: Job[S] = Job(command, companion)
        if not self._posts(job):
            self._jobs.append(job)
            self._wake_drainer()
        return await job.future

    async def refresh(self) -> S:
        """Return the state, read from the server after this call began."""
        return (await self.submit(None)).state

    async def confirm(self) -> bool:
        """Return whether the folded entries have confirmed replication (`Durability`).

        False when the server has lost some of them; the rest is then folded. Raises InDoubtError when the confirmation
        does not come in time, StoreError. A wake-up precedes replication, so callers must confirm before they act on
        it.
        """
        if not self._confirms or self.position <= self._safe:
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
        if not await self.confirm():
            raise InDoubtError(f"stream `{self.key.name}`: the server lost what was written; do it again")

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with every later event, and with None when the state was folded from the start."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    @property
    def observed(self) -> bool:
        """Return whether the stream has observers."""
        return bool(self._observers)

    def woken(self, wake_up: WakeUp) -> None:
        """Fold the entries of a wake-up if they are the next versions; otherwise read the stream.

        A wake-up during a fold may announce entries that the current read does not include.
        """
        if not self.folded:
            if self._observers or self._draining:
                self.read_soon()
        elif wake_up.head > self.position and not (wake_up.entries and self._takes(wake_up.entries)):
            self.read_soon()

    def _takes(self, entries: Sequence[Entry]) -> bool:
        """Return whether to fold a wake-up's entries now. Those of the append in flight are not decoded again."""
        batch = self._in_flight
        if batch is not None and self.position == batch.after and [one.payload for one in entries] == batch.payloads:
            self._take_own(batch, entries[0].ms)
            return True
        return self._absorb_quietly(entries)

    def read_soon(self) -> None:
        """Read in the background; wake-ups may have been lost."""
        if any(job.command is None for job in self._jobs):
            return
        job: Job[S] = Job(None, None)
        job.future.add_done_callback(_log_failure)
        self._jobs.append(job)
        self._wake_drainer()

    # --- the fast path ----------------------------------------------------------------------------------------------

    def _posts(self, job: Job[S]) -> bool:
        """Post a command's append at once, without a task; return False if the command must be queued.

        Nearly all commands take this path: the state is folded, the queue is empty, nothing is due, and they make
        events.
        """
        if not self.folded or job.command is None or job.companion is not None or self._jobs or self._draining:
            return False
        if self._confirms or not self._store.can_post:
            return False  # decide only what can be posted
        batch = self._begin()
        due_ms = self._fold.next_due_ms(batch.state)
        if due_ms is not None:
            if due_ms <= batch.now_ms:
                return False
            batch.not_after_ms = due_ms - 1
        self._decide(batch, job, batch.now_ms)
        if not batch.events:
            return False
        append = self._append_of(batch)
        self._in_flight = batch
        if self._store.post(append, partial(self._posted, job, batch, append)):
            return True
        self._in_flight = None
        return False

    def _posted(self, job: Job[S], batch: Batch[S], append: Append, answer: AppendResult | None, lost: bool) -> None:
        """Handle the result of a posted append; any but `Appended` is handled in the queue, before later commands."""
        self._in_flight = None
        if isinstance(answer, Appended):
            try:
                self._take_written(batch, append, answer)
                self._finish(batch)
            except Exception as error:  # noqa: BLE001 - raised here it would reach the connection, not the caller
                self._forget()
                self._fail([job], error)
            if self._jobs:
                self._wake_drainer()
        else:
            work = self._drain([job], self._go_on(job, batch, append, answer, lost))
            self._drainer = asyncio.create_task(work, name=f"drain {self.key.name}")

    async def _go_on(
        self, job: Job[S], batch: Batch[S], append: Append, answer: AppendResult | None, lost: bool
    ) -> list[Job[S]]:
        if answer is None:
            answer = await self._send_again(batch, append, lost)
        if await self._learn(batch, answer):
            self._finish(batch)
            return []
        return await self._handle([job], after=answer)

    async def _send_again(self, batch: Batch[S], append: Append, lost: bool) -> AppendResult:
        try:
            return await self._send(batch, append)
        except InDoubtError:
            raise
        except LedgerError as error:
            if lost:
                # A refusal now does not settle the earlier attempt.
                text = f"stream `{self.key.name}`: no answer came, and then {error.text}: ask again with the same id"
                raise InDoubtError(text) from error
            raise

    # --- one append at a time ---------------------------------------------------------------------------------------

    @property
    def _draining(self) -> bool:
        return self._in_flight is not None or (self._drainer is not None and not self._drainer.done())

    def _wake_drainer(self) -> None:
        if not self._draining:
            self._drainer = asyncio.create_task(self._drain(), name=f"drain {self.key.name}")

    async def _drain(self, jobs: list[Job[S]] | None = None, begun: JobRun[S] | None = None) -> None:
        """Process the queue, after these jobs, which `begun` completes."""
        if jobs and begun is not None:
            await self._bring_to_end(jobs, begun)
        while self._jobs:
            jobs = [job for job in self._next_jobs() if not job.future.done()]
            if jobs:
                await self._bring_to_end(jobs, self._handle(jobs))

    async def _bring_to_end(self, jobs: list[Job[S]], work: JobRun[S]) -> None:
        try:
            left = await work
        except Foreign as error:
            self._fail(jobs, DamageError(f"stream `{self.key.name}`: {error.text}", stream=self.key.name))
        except InputError as error:
            # One command's event cannot be written; the commands of the same batch must not fail with it.
            if len(jobs) == 1:
                self._fail(jobs, error)
            self._jobs.extendleft(job.alone() for job in reversed(jobs) if not job.future.done())
        except LedgerError as error:
            self._fail(jobs, error)
        except BaseException as error:
            self._fail([*jobs, *self._jobs], error)
            self._jobs.clear()
            raise
        else:
            self._jobs.extendleft(reversed(left))

    def _next_jobs(self) -> list[Job[S]]:
        jobs = [self._jobs.popleft()]
        while self._jobs and len(jobs) < EVENTS_PER_APPEND_COUNT and not (jobs[0].is_alone or self._jobs[0].is_alone):
            jobs.append(self._jobs.popleft())
        return jobs

    def _fail(self, jobs: Sequence[Job[S]], error: BaseException) -> None:
        if isinstance(error, InDoubtError | DamageError):
            self._forget()
            # Wake-ups are ignored while nothing is folded, so observers need a new fold at once.
            if self._observers and isinstance(error, InDoubtError):
                self.read_soon()
        self._tallies.failed(error)
        for job in jobs:
            job.fail(error)

    async def _handle(self, jobs: list[Job[S]], after: AppendResult | None = None) -> list[Job[S]]:
        """Complete the jobs, and return those that did not fit.

        `after` is the result of an append that was already sent for them.
        """
        read_for_them = after is not None or await self._ensure_folded()
        told_ms = after.now_ms if isinstance(after, OutsideWindow) else None
        for _ in range(ROUNDS_MAX):
            batch = self._begin(told_ms)
            due = NOTHING
            if self._is_due(batch) and any(job.command is not None for job in jobs):
                batch, due = await self._settled(batch, told_ms)
            left = self._plan(batch, due, jobs)
            if batch.events:
                answer = await self._append(batch, jobs)
                # Each node of a cluster has its own clock: only that of this stream's node counts.
                told_ms = answer.now_ms if isinstance(answer, OutsideWindow) else None
                if isinstance(answer, Appended) or await self._learn(batch, answer):
                    self._finish(batch)
                    return left
                read_for_them = True
            elif read_for_them:
                self._finish(batch)
                return left
            else:
                await self._read_tail()
                read_for_them = True
        raise StoreError(
            f"stream `{self.key.name}` was written by others {ROUNDS_MAX} times in a row; try again",
            stream=self.key.name,
        )

    def _begin(self, told_ms: int | None = None) -> Batch[S]:
        """Return an empty batch for now; `told_ms` is the server's time, if it reported one."""
        now_ms = max(self._store.clock.now_ms() if told_ms is None else told_ms, self.position.ms)
        return Batch(self.state, self.position, self._next_prev(), now_ms)

    def _is_due(self, batch: Batch[S]) -> bool:
        due_ms = self._fold.next_due_ms(batch.state)
        return due_ms is not None and due_ms <= batch.now_ms

    async def _settled(self, batch: Batch[S], told_ms: int | None) -> tuple[Batch[S], AppendPlan]:
        """Return a new batch with the plan of what is due. Reads alone settle nothing.

        Between this and the append nothing may be awaited. If `settle` awaited, wake-ups may have added entries, and a
        decision on the state before them must not be appended after them.
        """
        while True:
            due = await self._fold.settle(batch.state, batch.now_ms)
            if self.position == batch.after:
                return batch, due
            batch = self._begin(told_ms)

    def _plan(self, batch: Batch[S], due: AppendPlan, jobs: list[Job[S]]) -> list[Job[S]]:
        """Decide the jobs, after what is due; return those that do not fit into the append."""
        if due.events:
            batch.take(due)
        if due.more:
            return jobs
        next_due_ms = self._fold.next_due_ms(self._ahead(batch))
        if next_due_ms is not None:
            batch.not_after_ms = next_due_ms - 1
        for index, job in enumerate(jobs):
            if len(batch.events) >= EVENTS_PER_APPEND_COUNT or not self._decide(batch, job, batch.now_ms):
                return jobs[index:]
        return []

    def _decide(self, batch: Batch[S], job: Job[S], now_ms: int) -> bool:
        """Decide a job; return False if the events before it must be written first.

        A refusal names the time of the event it rests on, which is only known once that event is written.
        """
        first = len(batch.events)
        error: LedgerError | None = None
        if job.command is not None and job.command is not SETTLE:
            try:
                batch.take(self._fold.decide(self._ahead(batch), job.command, now_ms))
            except LedgerError as refusal:
                if first:
                    return False
                error = refusal
        batch.outcomes.append((job, error, first, len(batch.events)))
        return True

    def _ahead(self, batch: Batch[S]) -> S:
        """Return the state after the whole batch, as if it were written at its `now_ms`."""
        while batch.folded_count < len(batch.events):
            event, actor, event_id = batch.events[batch.folded_count]
            batch.folded_count += 1
            version = batch.after.version + batch.folded_count
            batch.state = self._fold.evolve(batch.state, Recorded(event, actor, batch.now_ms, version, event_id))
        return batch.state

    def _append_of(self, batch: Batch[S]) -> Append:
        return Append(
            key=self.key,
            after=batch.after,
            payloads=tuple(batch.payloads),
            not_before_ms=batch.not_before_ms,
            not_after_ms=batch.not_after_ms,
            due=self._due_hint(batch),
            binding=self._confirms and any_binding(event for event, _, _ in batch.events),
        )

    async def _append(self, batch: Batch[S], jobs: Sequence[Job[S]]) -> AppendResult:
        companion = next((job.companion for job in jobs if job.companion is not None), None)
        return await self._send(batch, self._append_of(batch), companion)

    async def _send(self, batch: Batch[S], append: Append, companion: Stream[Any] | None = None) -> AppendResult:
        also_read = None if companion is None else (companion.key, companion.position)
        self._in_flight = batch
        try:
            answer, beside = await self._store.append(append, also_read)
        finally:
            self._in_flight = None
        if companion is not None:
            await companion.take_beside(beside)
        if isinstance(answer, Appended):
            self._take_written(batch, append, answer)
        return answer

    def _take_written(self, batch: Batch[S], append: Append, answer: Appended) -> None:
        batch.written_at = Position(answer.ms, batch.after.version + 1)
        self._take_own(batch, answer.ms)
        if append.binding:
            self._safe = Position(answer.ms, batch.after.version + len(batch.events))

    def _due_hint(self, batch: Batch[S]) -> Due | str | None:
        for event, _, _ in batch.events:
            if not self._fold.keeps_due(event):
                break
        else:
            return None
        now_ms = max(self._store.clock.now_ms(), self.position.ms)
        return self._fold.due_hint(self.state, self._ahead(batch), now_ms)

    def _take_own(self, batch: Batch[S], ms: int) -> None:
        """Fold the events just written, without decoding them."""
        batch.recorded = recorded_of(batch, Position(ms, batch.after.version + 1))
        if ms == batch.now_ms and batch.folded_count == len(batch.events) == 1 and self.position == batch.after:
            # Already folded when it was decided, for this same millisecond.
            self.state, self.position = batch.state, Position(ms, batch.after.version + 1)
            self._payload = batch.payloads[0]
            self._tell(batch.recorded[0])
            return
        for recorded, payload in zip(batch.recorded, batch.payloads, strict=True):
            # A wake-up may have delivered it already; known versions are skipped.
            if recorded.version == self.position.version + 1:
                self.state = self._fold.evolve(self.state, recorded)
                self.position = Position(ms, recorded.version)
                self._payload = payload
                self._tell(recorded)

    async def take_beside(self, entries: Sequence[Entry]) -> None:
        """Fold entries that were read with another stream's append; if they fill a page, read the rest."""
        if not self._absorb_quietly(entries) or len(entries) >= PAGE_COUNT:
            await self.refresh()

    def _next_prev(self) -> str:
        if self.position == START:
            return chain.genesis(self.key.kind, self.key.id)
        return chain.after_entry(self.position.ms, self.position.version, self._payload)

    async def _learn(self, batch: Batch[S], answer: AppendResult) -> bool:
        """Apply the result of an append; return True when the batch is in the log."""
        match answer:
            case Appended():
                return True
            case Conflict():
                self._tallies.conflicts += 1
                await self._catch_up(batch, answer)
                return batch.written_at is not None
            case OutsideWindow():
                return False
            case Behind():
                await self._fold_again()
                return False

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
                return
            page = await self._store.read(self.key, after, PAGE_COUNT)

    async def _fold_again(self) -> None:
        """Fold again after the server lost entries seen here, and record the regression."""
        seen = self.position
        log.warning("stream %s: the server has lost entry %s; folding again", self.key.name, seen)
        self._forget()
        await self._ensure_folded()
        batch = self._begin()
        batch.take(self._fold.decide(self.state, Regression(seen, self.position), batch.now_ms))
        if batch.events:
            await self._learn_regression(batch)

    async def _learn_regression(self, batch: Batch[S]) -> None:
        answer = await self._append(batch, ())
        if isinstance(answer, Conflict):
            # Another writer recorded the loss first, which suffices.
            await self._catch_up(batch, answer)

    def _finish(self, batch: Batch[S]) -> None:
        recorded = batch.recorded or recorded_of(batch, batch.written_at or self.position)
        for job, error, start, end in batch.outcomes:
            if error is None:
                job.succeed(Done(self.state, tuple(recorded[start:end])))
            else:
                job.fail(error)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _ensure_folded(self) -> bool:
        """Fold the stream if it is not folded; return True if this read the server."""
        if self.folded:
            return False
        opening = await self._store.open(self.key)
        check_info(self.key, opening.info)
        entries = list(opening.entries)
        last = START if opening.info is None else opening.info.last
        while entries and entries[-1].version < last.version:
            page = await self._store.read(self.key, entries[-1].position, PAGE_COUNT)
            if not page:
                break
            entries += page
        self._fold_anew(entries)
        return True

    def _fold_anew(self, entries: Sequence[Entry]) -> None:
        """Fold from the start and replace the state at once, so that no reader sees a partial fold."""
        key, evolve = self.key, self._fold.evolve
        state, before = self._fold.initial(key), Entry(*START, b"")
        for entry in entries:
            state = evolve(state, read_entry(key, entry, before, before.payload))
            before = entry
        self.state, self.position, self._payload = state, before.position, before.payload
        self._safe = START
        self.folded = True
        self._tell(None)

    async def _read_tail(self) -> None:
        """Read new entries together with the last known one; if that is missing, the server has lost entries."""
        while True:
            seen, payload = self.position, self._payload
            page = await self._store.read(self.key, Position(seen.ms, max(seen.version - 1, 0)), PAGE_COUNT)
            lost = seen != START and (not page or (page[0].position, page[0].payload) != (seen, payload))
            if lost or contradicts(page, self.position, self._payload):
                await self._fold_again()
                return
            self._absorb(page)
            if len(page) < PAGE_COUNT:
                return

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
        return True

    def _absorb(self, entries: Sequence[Entry]) -> None:
        """Fold the next entries, skipping known ones."""
        for entry in entries:
            if entry.position <= self.position:
                continue
            recorded = read_entry(self.key, entry, self.position, self._payload)
            self.state = self._fold.evolve(self.state, recorded)
            self.position = entry.position
            self._payload = entry.payload
            self._tell(recorded)

    def _tell(self, recorded: Recorded | None) -> None:
        if self._observers:
            for observer in list(self._observers):
                observer(recorded)


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

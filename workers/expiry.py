"""The expiry worker: ends unanswered requests at their deadline. Any number may run; any may be killed.

One APScheduler interval job is both the sweep and the alarm: it is moved to the earliest deadline, and forward when a
nearer one turns up. The server's index names the sessions that are due, as a hint; each session's own stream decides
its outcome, by the same function that every command runs first. An index that was lost is made anew from the pending
views, at long intervals (`docs/contributing/decisions/log.md`). So two workers at once, a late one or none at all
change the time at which an outcome is written, never the outcome (`betcode.md`, "Permission Timeout Handling").
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from ledger import Ledger
from ledger.core.errors import ArchiveError, LedgerError, SealedError, StoreError
from ledger.core.limits import SWEEP_SECONDS
from ledger.log.due_index import as_seen, hint_of, lacking
from ledger.log.plans import SETTLE, Done
from ledger.session.state import SessionState
from ledger.stores.port import NOTHING_DUE, StreamKey, WakeUp
from workers.runtime.consumer import Consumer, Pause

log = logging.getLogger(__name__)

SETTLED_AT_ONCE_COUNT: Final = 64
"""The number of sessions settled concurrently."""

DUE_PAGE_COUNT: Final = 2000
"""The number of sessions read from the index at a time."""

NO_PROGRESS_SECONDS: Final = 0.005
"""The pause after an index entry is due and its stream is not."""

STUCK_MS: Final = 2000
"""The time after a deadline from which retrying is given up: an entry that is still due although it was settled."""


class Settler:
    """Ends due requests and corrects the index. It remembers failed sessions, so as not to retry for ever."""

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store
        self._streams = ledger.streams
        self._stopped = False
        self._passed_over: dict[str, int | str | None] = {}
        """Sessions that cannot be settled, by what the index says of them: another deadline is another try."""
        self._logged: set[str] = set()
        self._rung: set[str] = set()

    def woken(self, session: str) -> None:
        """Note a write to this session, which settled it first: by another worker, most likely."""
        self._rung.add(session)

    def stop(self) -> None:
        """Start no further session."""
        self._stopped = True

    def give_another_try(self) -> None:
        """Retry failed sessions at every sweep: a stream may be repaired, a newer worker may have settled it."""
        self._passed_over.clear()

    async def earliest_ms(self, partitions: list[int] | None = None) -> int | None:
        """Return the nearest deadline (server ms) of a session that can be settled. Raises StoreError."""
        found = await self._store.due(None, len(self._passed_over) + 1, partitions)
        return next((at_ms for session, at_ms in found if not self._is_passed_over(session, at_ms)), None)

    async def settle_due(self) -> int:
        """Settle until nothing is due; return the number of sessions that were due. Raises StoreError."""
        seen: dict[str, int] = {}
        count, late_ms = 0, 0
        partitions: list[int] | None = None
        while not self._stopped:
            self._rung.clear()
            now_ms = await self._store.now_ms()
            due = await self._due(now_ms, partitions)
            again = [one for one in due if seen.get(one[0]) == one[1]]
            fresh = [one for one in due if seen.get(one[0]) != one[1]]
            seen.update(fresh)
            late, unsettled = await self._settle_many(fresh)
            count, late_ms = count + len(late), max(late_ms, *late, 0)
            await self._correct_many(again, now_ms)
            if len(due) >= DUE_PAGE_COUNT:
                partitions = None
            elif again or unsettled:
                # Only these may still be due; what comes due meanwhile has its own alarm.
                count_of_all = self._store.partition_count
                left = (StreamKey("session", session) for session, _ in (*again, *unsettled))
                partitions = sorted({key.partition(count_of_all) for key in left})
            else:
                break
        if count:
            log.info("expiry: settled %d sessions, the last %d ms after its deadline", count, late_ms)
        return count

    async def _due(self, now_ms: int, partitions: list[int] | None) -> list[tuple[str, int]]:
        page = await self._store.due(now_ms, DUE_PAGE_COUNT + len(self._passed_over), partitions)
        due = [(session, at) for session, at in page if at is not None and not self._is_passed_over(session, at)]
        # Other workers have the same page: a different order avoids conflicts.
        random.shuffle(due)
        return due

    def _is_passed_over(self, session: str, at_ms: int | None) -> bool:
        return session in self._passed_over and self._passed_over[session] == at_ms

    async def _settle_many(self, due: list[tuple[str, int]]) -> tuple[list[int], list[tuple[str, int]]]:
        """Settle sessions; return the lateness of each in ms, and those that may still be due in the index."""
        left = iter(due)
        late_ms: list[int] = []
        unsettled: list[tuple[str, int]] = []

        async def settle_some() -> None:
            for session, at_ms in left:
                if self._stopped:
                    return
                if session in self._rung:
                    unsettled.append((session, at_ms))
                    continue
                late, is_sure = await self._settle(session, at_ms)
                late_ms.append(late)
                if not is_sure:
                    unsettled.append((session, at_ms))

        await _side_by_side(settle_some, len(due))
        return late_ms, unsettled

    async def _settle(self, session: str, at_ms: int) -> tuple[int, bool]:
        """Settle a session; return how late it was (ms), and whether it is certainly not due in the index any more."""
        stream = self._streams.session(session)
        try:
            done: Done[SessionState] = await stream.submit(SETTLE)
        except (SealedError, ArchiveError) as error:
            seal = (await self._store.heads([stream.key]))[0].seal
            if seal is None:
                self._pass_over(session, at_ms, error.text)
            else:
                # Nothing is due in a sealed session: the hint is from an older process, or from before a failover.
                await self._store.correct_due(session, at_ms, NOTHING_DUE, at=seal.head)
        except StoreError:
            raise
        except LedgerError as error:
            self._pass_over(session, at_ms, error.text)
        else:
            # The append of what was due has also written the index.
            return max(stream.position.ms - at_ms, 0), bool(done.events)
        return 0, False

    async def _correct_many(self, due: list[tuple[str, int]], now_ms: int) -> None:
        """Correct the index for settled sessions that are still due in it: the index is wrong, or we are early."""
        if not due:
            return
        changed = await asyncio.gather(*(self._correct(session, at_ms, now_ms) for session, at_ms in due))
        if not any(changed):
            await asyncio.sleep(NO_PROGRESS_SECONDS)

    async def mend(self) -> int:
        """Make the index anew where it lacks a pending request of the views; return the number of sessions. Raises StoreError.

        What is overdue there is settled at once.
        """
        count = 0
        async for found in lacking(self._store):
            left = iter(found.items())

            async def correct_some(left: Iterator[tuple[str, int | str | None]] = left) -> None:
                nonlocal count
                for session, seen_ms in left:
                    if self._stopped:
                        return
                    count += await self._correct(session, seen_ms, await self._store.now_ms())

            await _side_by_side(correct_some, len(found))
        if count:
            log.warning("expiry: the index of deadlines lacked %d sessions, which the views name; added", count)
        return count

    async def _correct(self, session: str, seen_ms: int | str | None, now_ms: int) -> bool:
        """Settle a session and correct its entry, if that still is `seen_ms`; return False where nothing was to be done."""
        stream = self._streams.session(session)
        try:
            done: Done[SessionState] = await stream.submit(SETTLE)
        except StoreError:
            raise
        except LedgerError as error:
            self._pass_over(session, seen_ms, error.text)
            return True
        at, to = stream.position, hint_of(done.state)
        if as_seen(to) != seen_ms:
            await self._store.correct_due(session, seen_ms, to, at=at)
            return True
        if isinstance(seen_ms, int) and (done.state.newer or now_ms - seen_ms > STUCK_MS):
            newer = done.state.newer
            why = "it holds events of a newer version; upgrade this worker" if newer else "it stays due"
            self._pass_over(session, seen_ms, why)
            return True
        return bool(done.events)

    def _pass_over(self, session: str, at_ms: int | str | None, why: str) -> None:
        self._passed_over[session] = at_ms
        if session not in self._logged:
            self._logged.add(session)
            log.error("expiry: skipping session `%s`, which is due: %s", session, why)


async def _side_by_side(work: Callable[[], Coroutine[None, None, None]], count: int) -> None:
    """Run `work` once for each item, at most `count` concurrently; the first error cancels the others."""
    workers = min(count, SETTLED_AT_ONCE_COUNT)
    if workers < 2:
        return await work()
    tasks = [asyncio.create_task(work(), name="expiry settle") for _ in range(workers)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


JOB: Final = "wake"

COMPARED_SECONDS: Final = 300.0
"""The interval at which the index of deadlines is compared with the views of pending requests, in case it was lost."""

AWAY_SECONDS: Final = 1.0
"""The pause before a retry after the server was unreachable."""


async def run(ledger: Ledger, stop: asyncio.Event, compared_seconds: float = COMPARED_SECONDS) -> None:
    """Settle due requests until `stop` is set. Ledger errors are logged and retried, never raised."""
    await ExpiryWorker(ledger, compared_seconds).run(stop)


class ExpiryWorker:
    """Settles at the scheduler's alarm, and sets the alarm by the deadlines of partitions with wake-ups."""

    def __init__(self, ledger: Ledger, compared_seconds: float = COMPARED_SECONDS) -> None:
        self._compared_seconds = compared_seconds
        self._store = ledger.store
        self._settler = Settler(ledger)
        self._consumer = Consumer(
            "expiry",
            ledger,
            self._pass,
            retry_seconds=AWAY_SECONDS,
            concerns=self._concerns,
            on_stop=self._settler.stop,
        )
        # Apart from the alarm, so that no deadline waits for it.
        self._comparison = Consumer("expiry index", ledger, self._compare, retry_seconds=AWAY_SECONDS)
        self._alarmed = True
        self._sweep_at = 0.0
        self._next_ms = 0
        """The time at which the job is to run next, in server time."""
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            # The default drops a job that is a second late, and with it a deadline.
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )

    async def run(self, stop: asyncio.Event) -> None:
        self._scheduler.add_job(self._alarm, "interval", seconds=SWEEP_SECONDS, id=JOB)
        self._scheduler.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._consumer.run(stop))
                group.create_task(self._comparison.run(stop))
        finally:
            self._scheduler.shutdown(wait=False)
            # This only asks the loop to shut down; wait until it has.
            await asyncio.sleep(0)

    def _concerns(self, wake_up: WakeUp) -> bool:
        if wake_up.key.kind != "session":
            return False
        self._settler.woken(wake_up.key.id)
        return True

    async def _alarm(self) -> None:
        self._alarmed = True
        self._consumer.wake()

    async def _compare(self, _: list[int]) -> Pause:
        """Add to the index what it has lost, and find the nearest deadline anew."""
        if await self._settler.mend():
            await self._alarm()
        return Pause(self._compared_seconds)

    async def _pass(self, woken: list[int]) -> Pause:
        if self._alarmed:
            await self._settle_all()
            self._alarmed = False
        elif woken:
            earliest = await self._settler.earliest_ms(woken)
            if earliest is not None:
                self._next_ms = min(self._next_ms, earliest)
        self._set_job()
        # The scheduler sleeps by this machine's clock: set back by an hour, it would sleep an hour too long.
        return Pause(SWEEP_SECONDS)

    async def _settle_all(self) -> None:
        """Settle until nothing is due, then find the nearest deadline."""
        if asyncio.get_running_loop().time() >= self._sweep_at:
            self._settler.give_another_try()
            self._sweep_at = asyncio.get_running_loop().time() + SWEEP_SECONDS
        await self._settler.settle_due()
        self._next_ms = self._store.clock.now_ms() + round(SWEEP_SECONDS * 1000)
        earliest = await self._settler.earliest_ms()
        if earliest is not None:
            self._next_ms = min(self._next_ms, earliest)

    def _set_job(self) -> None:
        """By the server's clock: this machine's may be wrong, and may be corrected at any time."""
        ahead_ms = min(max(self._next_ms - self._store.clock.now_ms(), 0), round(SWEEP_SECONDS * 1000))
        self._scheduler.modify_job(JOB, next_run_time=datetime.now(UTC) + timedelta(milliseconds=ahead_ms))

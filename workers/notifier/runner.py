"""One channel to one person: sends due messages, one worker at a time, and records them.

Limits are per person, not per service, though each service of a person is served separately, so that one that hangs
blocks no other. A service holds a turn while it sends, and a held turn counts as a message; so services and workers
never send the last message of a day twice. Nobody is notified of a session in which a client is connected now, by leases.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from ledger import Ledger, Session
from ledger.core.errors import LedgerError, StoreError
from ledger.core.events import Presence
from ledger.core.ids import new_id
from ledger.core.times import DAY_MS
from ledger.log.inboxes import Inbox, open_inboxes, present_in
from ledger.session.state import SessionState
from ledger.stores.port import WorkPlace
from ledger.stores.store import Store
from projections import queries
from projections.queries import SentMessage
from workers.notifier.messengers import Messenger
from workers.notifier.notification_states import NotificationStates
from workers.notifier.plan import Correction, MessagePlan, RecipientChannel, Reminder, plan
from workers.notifier.settings import NotifierSettings
from workers.runtime.consumer import Consumer, Pause

log = logging.getLogger(__name__)


class Attendance:
    """The leases that one plan depends on; each is read at most once, where a reminder depends on it.

    Unknown presence counts as nobody: one message too many is better than a request that nobody hears of.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._inboxes: tuple[Inbox, ...] | None = None
        self._looked_at: set[str] = set()
        self._attended: set[str] = set()

    async def planned(self, make: Callable[[Collection[str]], MessagePlan]) -> MessagePlan:
        """Return the plan that `make` returns for the sessions with a client, among those it reminds of."""
        while True:
            found = make(self._attended)
            states = {one.state.session_id: one.state for one in found.reminders}
            new = [state for session, state in states.items() if session not in self._looked_at]
            if not new:
                return found
            seen = await asyncio.gather(*(self._is_attended(state) for state in new))
            self._looked_at.update(state.session_id for state in new)
            self._attended.update(state.session_id for state, is_seen in zip(new, seen, strict=True) if is_seen)

    async def _is_attended(self, state: SessionState) -> bool:
        try:
            if self._inboxes is None:
                self._inboxes = await open_inboxes(self._store)
            if present_in(self._inboxes, state.session_id, state.project):
                return True
            return any(await self._store.leases([state.session_id]))
        except LedgerError as error:
            log.warning("notifier: the presence in session %s is unknown: %s", state.session_id, error)
            return False


AGAIN_SECONDS: Final = 1.0
"""The pause before a retry when another worker has the turn, or the server is away."""


class Allowance:
    """One person's allowance, in one process."""

    def __init__(self, store: Store, person: str, services: Sequence[str]) -> None:
        self._store = store
        self._person = person
        self._services = tuple(services)
        self._sent: dict[str, SentMessage] = {}
        """Messages of this process: the views may not have them yet."""

    def turn(self, service: str) -> WorkPlace:
        """Return the place of the turn for this service."""
        return WorkPlace(f"notify:{service}:{self._person}")

    async def under_way(self, service: str) -> int:
        """Return the number of messages in flight at the person's other services, by any worker. Raises StoreError."""
        others = [self.turn(one) for one in self._services if one != service]
        return sum(map(bool, await self._store.leases(others)))

    async def messages(self, now_ms: int) -> dict[str, SentMessage]:
        """Return the messages recently sent to the person, by message id. Raises StoreError."""
        return {**await queries.messages_to(self._store, self._person, self._services, now_ms), **self._sent}

    def note(self, message_id: str, service: str, now_ms: int) -> None:
        """Note that the service accepted this message."""
        kept = {key: one for key, one in self._sent.items() if one.ms > now_ms - DAY_MS}
        self._sent = kept | {message_id: SentMessage(service, now_ms)}

    def pause_seconds(self, service: str) -> float:
        """Return the pause before a retry, different for each service, so that two of them do not collide again."""
        return AGAIN_SECONDS * (1 + self._services.index(service))


SWEEP_SECONDS: Final = 30.0
"""The interval of checks without a hint, in case one was lost."""


class DeliveryRecord(NamedTuple):
    """The result of a message for one request, to be recorded."""

    session: str
    request_id: str
    result: Literal["sent", "failed", "withdrawn"]
    step: int | None = None
    message_id: str | None = None


class ChannelRunner:
    def __init__(
        self,
        ledger: Ledger,
        settings: NotifierSettings,
        states: NotificationStates,
        *,
        channel: RecipientChannel,
        messenger: Messenger,
        allowance: Allowance,
        holder: str,
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._states = states
        self.channel = channel
        self._messenger = messenger
        self._holder = Presence(holder, "notifier")
        self._allowance = allowance
        self._turn = allowance.turn(channel.service)
        self._pause_seconds = allowance.pause_seconds(channel.service)
        self.consumer = Consumer("notifier", ledger, self._look, retry_seconds=self._pause_seconds)
        self._waiters: list[asyncio.Future[None]] = []
        self._next_ms: int | None = None
        self._is_released = False
        self._unrecorded: list[DeliveryRecord] = []
        self._passed_over: set[tuple[str, str]] = set()

    async def look(self) -> None:
        """Return when the messages due at the time of the call were sent or tried, by this worker or another."""
        if self._is_released:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self.consumer.wake()
        await waiter

    def look_by(self, ms: int) -> None:
        """Check at this server time, or before."""
        if self._next_ms is None or ms < self._next_ms:
            self._next_ms = ms
            self.consumer.wake()

    def release(self) -> None:
        """Let nobody wait for this channel any more: its device has ended."""
        self._is_released = True
        _resolve(self._waiters)

    async def close(self) -> None:
        """Release the turn at once."""
        with suppress(LedgerError):
            await self._ledger.store.lease(self._turn, self._holder, 0)

    async def _look(self, _: list[int]) -> Pause:
        waiters, self._waiters = self._waiters, []
        self._next_ms = None
        passed = False
        try:
            passed = await self._pass()
        finally:
            if not passed and not self._is_released:
                self._waiters = waiters + self._waiters
        if not passed:
            return Pause(self._pause_seconds)
        _resolve(waiters)
        return Pause(SWEEP_SECONDS, self._next_ms)

    # --- one turn ---------------------------------------------------------------------------------------------------

    async def _pass(self) -> bool:
        """Send all messages due now. False when another worker holds the turn, which may have read an older state."""
        store = self._ledger.store
        await self._record_rest()
        if not await store.lease(self._turn, self._holder, self._settings.lease_ms, alone=True):
            return False
        try:
            while not self.consumer.stopping:
                found = await self._plan()
                if found is None:
                    return False
                if not found.reminders and not found.corrections:
                    self._next_ms = found.next_ms
                    return True
                # Prolonged, to last until the sent messages are recorded.
                if not await store.lease(self._turn, self._holder, self._settings.lease_ms, alone=True):
                    return False
                if found.reminders:
                    await self._remind(found.reminders)
                else:
                    await self._correct(found.corrections)
            return False
        finally:
            await self.close()

    async def _plan(self) -> MessagePlan | None:
        """Return the plan; None while it depends on the delivery of another service."""
        # Turns before the log: a holder that ends in between has recorded its message.
        under_way = await self._allowance.under_way(self.channel.service)
        # The log before the time: no event may be later than the moment it is judged at.
        states = await self._states.of_all()
        now_ms = await self._ledger.store.now_ms()
        messages, timing = await self._allowance.messages(now_ms), self._settings.timing
        attendance = Attendance(self._ledger.store)
        choice = self._ledger.notifications.choice(self.channel.person.name)

        async def planned(under_way: int) -> MessagePlan:
            return self._recordable(
                await attendance.planned(
                    lambda attended: plan(
                        self.channel,
                        states,
                        messages,
                        timing,
                        now_ms,
                        under_way=under_way,
                        attended=attended,
                        choice=choice,
                    )
                )
            )

        found = await planned(under_way)
        if under_way and not found.reminders and not found.corrections:
            alone = await planned(0)
            return None if alone.reminders else found
        return found

    def _recordable(self, found: MessagePlan) -> MessagePlan:
        """Return the plan without messages whose record failed before."""
        return MessagePlan(
            tuple(one for one in found.reminders if self._may_record(one.state.session_id, one.request.request_id)),
            tuple(
                one
                for one in found.corrections
                if self._may_record(one.state.session_id, one.settled.request.request_id)
            ),
            found.next_ms,
        )

    def _may_record(self, session: str, request_id: str) -> bool:
        return (session, request_id) not in self._passed_over

    async def _remind(self, reminders: Sequence[Reminder]) -> None:
        now_ms = await self._ledger.store.now_ms()
        taken = await self._messenger.remind(reminders)
        message_id = new_id("msg")
        if taken:
            self._allowance.note(message_id, self.channel.service, now_ms)
        await self._record(
            DeliveryRecord(
                one.state.session_id,
                one.request.request_id,
                "sent" if taken else "failed",
                one.step,
                message_id if taken else None,
            )
            for one in reminders
        )

    async def _correct(self, corrections: Sequence[Correction]) -> None:
        taken = await self._messenger.correct(corrections)
        await self._record(
            DeliveryRecord(one.state.session_id, one.settled.request.request_id, "withdrawn" if taken else "failed")
            for one in corrections
        )

    # --- what is recorded ---------------------------------------------------------------------------------------------

    async def _record(self, records: Iterable[DeliveryRecord]) -> None:
        self._unrecorded += records
        await self._record_rest()

    async def _record_rest(self) -> None:
        """Record the results of sent messages; nothing is sent before that. Raises StoreError."""
        while self._unrecorded:
            one = self._unrecorded[0]
            try:
                await Session(self._ledger, one.session).note_notification(
                    one.request_id,
                    self.channel.service,
                    one.result,
                    person=self.channel.person.name,
                    step=one.step,
                    message_id=one.message_id,
                )
            except StoreError:
                raise
            except LedgerError as error:
                # Sent again and again because it cannot be recorded would be worse than not sent.
                self._passed_over.add((one.session, one.request_id))
                log.warning("notifier: request %s of session %s is skipped: %s", one.request_id, one.session, error)
            self._unrecorded.pop(0)


def _resolve(waiters: Iterable[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)

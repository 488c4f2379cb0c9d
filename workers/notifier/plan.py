"""The messages due to one person by one service, and the time of the next: from the log, the time and the settings.

`betcode.md` "Permission persists with no client connected": a push for requests that wait unattended. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from ledger.access.notifications import NOTHING_CHOSEN, NotificationChoice, quiet_until_ms
from ledger.core.access_events import QuietHours
from ledger.core.event_shapes import Notification
from ledger.core.events import Asked, DeadlineMoved, Expired, Reopened
from ledger.core.grants import Recorded
from ledger.core.limits import LEASE_MS
from ledger.core.times import DAY_MS, HOUR_MS
from ledger.session.approvals import agreement_of
from ledger.session.state import Request, SessionState, Settled, in_order
from ledger.session.would_run.description import describe_request
from projections.counts import WEBPUSH
from projections.queries import SentMessage
from workers.notifier.settings import Recipient, Timing
from workers.presentation.labels import GRAVE


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One try to notify one person of one request. `step` None is the notice that it ended."""

    person: str
    service: str
    result: Literal["sent", "failed", "withdrawn"]
    step: int | None
    message_id: str | None
    ms: int


class NotificationState(msgspec.Struct, frozen=True, kw_only=True):
    """`since_ms` and the tries, in order, are by request id; `missed` has the `since_ms` of requests that expired."""

    state: SessionState
    since_ms: dict[str, int] = {}
    attempts: dict[str, tuple[Attempt, ...]] = {}
    missed: dict[str, int] = {}


def next_state(notified: NotificationState, recorded: Recorded, after: SessionState) -> NotificationState:
    """Return the state after one more event; `after` is the session's fold then."""
    event = recorded.event
    since_ms, attempts, missed = notified.since_ms, notified.attempts, notified.missed
    if isinstance(event, Expired) and event.request_id in since_ms:
        missed = {**missed, event.request_id: since_ms[event.request_id]}
    if isinstance(event, Asked | Reopened | DeadlineMoved) and event.tier == "unattended":
        since_ms = {**since_ms, event.request_id: recorded.ms}
    elif isinstance(event, Notification) and event.person is not None:
        one = Attempt(event.person, event.service, event.result, event.step, event.message_id, recorded.ms)
        attempts = {**attempts, event.request_id: (*attempts.get(event.request_id, ()), one)}
    request_id = getattr(event, "request_id", None)
    if isinstance(request_id, str) and request_id in since_ms and request_id not in after.pending:
        since_ms = {key: value for key, value in since_ms.items() if key != request_id}
    return NotificationState(state=after, since_ms=since_ms, attempts=attempts, missed=missed)


CORRECTED_WITHIN_MS: Final = DAY_MS
"""The time after a request's end within which a notice of it is sent."""

RETRY_MS_MAX: Final = HOUR_MS
REQUESTS_A_MESSAGE_COUNT: Final = 50

DEVICE_PREFIX: Final = f"{WEBPUSH}-"
"""The beginning of a device's name as a service; its device id follows."""


class Reminder(msgspec.Struct, frozen=True):
    """A reminder of a request; `step` is its number, from 0."""

    state: SessionState
    request: Request
    step: int


class Correction(msgspec.Struct, frozen=True):
    """The notice that a request ended after the person was notified of it."""

    state: SessionState
    settled: Settled


class MessagePlan(msgspec.Struct, frozen=True):
    """The messages due now, and the server time at which more may be due; None: not without a new event."""

    reminders: tuple[Reminder, ...] = ()
    corrections: tuple[Correction, ...] = ()
    next_ms: int | None = None


class RecipientChannel(msgspec.Struct, frozen=True):
    """One service of one person, or one device of theirs with push messages (`is_device`)."""

    person: Recipient
    service: str
    is_device: bool = False

    def own(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        return [one for one in attempts if (one.person, one.service) == (self.person.name, self.service)]

    def counts(self, attempt: Attempt) -> bool:
        """Return whether a message counts towards the limits of this channel.

        Those of a person's services count together. A device counts for itself: all devices show the same messages.
        """
        if attempt.person != self.person.name:
            return False
        return attempt.service == self.service if self.is_device else not attempt.service.startswith(DEVICE_PREFIX)

    def needs_notice(self, settled: Settled) -> bool:
        """Return whether to report this end: who answered needs no message, but their devices still show the request."""
        return self.is_device or settled.by.name != self.person.name or settled.told is not None


def plan(
    channel: RecipientChannel,
    states: Iterable[NotificationState],
    messages: Mapping[str, SentMessage],
    timing: Timing,
    now_ms: int,
    *,
    under_way: int = 0,
    attended: Collection[str] = frozenset(),
    choice: NotificationChoice = NOTHING_CHOSEN,
) -> MessagePlan:
    """Plan the messages of one service to one person, who may have chosen quiet hours or muted the service.

    In the sessions of `attended` a client is connected and shows what waits: their reminders wait for it to leave.

    `messages` are those recently sent to the person, by any service; `under_way` are in flight at other services: they
    count as accepted, so that two services do not both send the last one.
    """
    states = [
        notified for notified in states if channel.person.cares_for(notified.state.session_id, notified.state.project)
    ]
    sent = {**messages, **_messages(channel, states)}
    is_muted = channel.service in choice.muted
    # No new message before this: those of the last minutes are collected, and a day has a limit of messages.
    free_ms = max(
        _collapsed_until((one.ms for one in sent.values() if one.service == channel.service), timing),
        _free_at(sent, under_way, timing.a_day_a_person, DAY_MS, now_ms),
    )
    ready: list[Reminder] = []
    times: list[int] = []
    for notified in states:
        of_session = _messages(channel, [notified])
        session_free_ms = _free_at(of_session, under_way, timing.an_hour_a_session, HOUR_MS, now_ms)
        for request in () if is_muted else in_order(notified.state.pending.values()):
            if request.agreed and agreement_of(request, channel.person.name) is not None:
                continue  # the person has approved it, and others are waited for
            for at_ms, reminder in _reminders(channel, notified, request, timing, now_ms):
                due_ms = max(at_ms, free_ms, session_free_ms)
                if reminder is not None:
                    due_ms = after_quiet(choice.quiet, max(due_ms, now_ms), request)
                if due_ms <= now_ms and reminder is not None and notified.state.session_id in attended:
                    # No event tells that a lease has ended.
                    times.append(now_ms + LEASE_MS)
                elif due_ms <= now_ms and reminder is not None:
                    ready.append(reminder)
                else:
                    times.append(max(due_ms, now_ms + 1))
    corrections: list[Correction] = []
    missed = () if is_muted else missed_in_quiet(channel, states, timing, choice.quiet, now_ms)
    for at_ms, correction in (*_corrections(channel, states, timing, now_ms), *missed):
        if at_ms <= now_ms:
            corrections.append(correction)
        else:
            times.append(at_ms)
    return MessagePlan(tuple(ready[:REQUESTS_A_MESSAGE_COUNT]), tuple(corrections), min(times, default=None))


# --- what waits ------------------------------------------------------------------------------------------------------


def _reminders(
    channel: RecipientChannel, notified: NotificationState, request: Request, timing: Timing, now_ms: int
) -> Iterator[tuple[int, Reminder | None]]:
    """Yield the time of the next reminder of this request, and the reminder; None stands for a later step.

    Only the latest step that is due is sent: after two days away nobody needs three messages.
    """
    since_ms = notified.since_ms.get(request.request_id)
    if since_ms is None:
        return  # a client was connected at the ask; it ends or becomes unattended within a minute
    come = [step for step, offset_ms in enumerate(timing.steps_ms) if since_ms + offset_ms <= now_ms]
    if len(come) < len(timing.steps_ms):
        yield since_ms + timing.steps_ms[len(come)], None
    if come:
        tries = channel.own(notified.attempts.get(request.request_id, ()))
        done = any(one.result == "sent" and one.step is not None and one.step >= come[-1] for one in tries)
        failed = [one.ms for one in tries if one.result == "failed" and one.step == come[-1]]
        if not done and len(failed) < timing.tries:
            yield (
                _next_try(since_ms + timing.steps_ms[come[-1]], failed, timing),
                Reminder(notified.state, request, come[-1]),
            )


def _next_try(first_ms: int, failed: list[int], timing: Timing) -> int:
    if not failed:
        return first_ms
    return failed[-1] + min(timing.retry_ms << (len(failed) - 1), RETRY_MS_MAX)


# --- how it ended ----------------------------------------------------------------------------------------------------


def _corrections(
    channel: RecipientChannel, states: Iterable[NotificationState], timing: Timing, now_ms: int
) -> Iterator[tuple[int, Correction]]:
    """Yield notices of requests that the person was notified of and others ended; the one who answered needs none."""
    for notified in states:
        for request_id, attempts in notified.attempts.items():
            settled = notified.state.settled.get(request_id)
            tries = channel.own(attempts)
            if settled is None or not channel.needs_notice(settled):
                continue
            if not any(one.result == "sent" for one in tries) or any(one.result == "withdrawn" for one in tries):
                continue
            failed = [one.ms for one in tries if one.result == "failed" and one.step is None]
            at_ms = _next_try(settled.at_ms, failed, timing)
            if len(failed) < timing.tries and max(at_ms, now_ms) < settled.at_ms + CORRECTED_WITHIN_MS:
                yield at_ms, Correction(notified.state, settled)


def missed_in_quiet(
    channel: RecipientChannel,
    states: Iterable[NotificationState],
    timing: Timing,
    quiet: QuietHours | None,
    now_ms: int,
) -> Iterator[tuple[int, Correction]]:
    """Yield notices of requests that expired in quiet hours, which kept their message back: none is lost in silence."""
    if quiet is None:
        return
    for notified in states:
        for request_id, since_ms in notified.missed.items():
            settled = notified.state.settled.get(request_id)
            if settled is None or channel.own(notified.attempts.get(request_id, ())):
                continue
            end_ms = quiet_until_ms(quiet, since_ms + timing.steps_ms[0])
            if end_ms is None or end_ms <= settled.at_ms or (quiet.grave and is_grave(settled.request)):
                continue
            if max(end_ms, now_ms) < settled.at_ms + CORRECTED_WITHIN_MS:
                yield end_ms, Correction(notified.state, settled)


def after_quiet(quiet: QuietHours | None, at_ms: int, request: Request) -> int:
    """Return the time itself, or the end of the quiet hours around it, which end before a grave request if chosen."""
    end_ms = quiet_until_ms(quiet, at_ms)
    if quiet is None or end_ms is None or (quiet.grave and is_grave(request)):
        return at_ms
    return end_ms


def is_grave(request: Request) -> bool:
    """Return whether a request has one of the dangers for which people may want to be woken."""
    return any(one.kind in GRAVE for one in describe_request(request).dangers)


def is_over(notified: NotificationState, now_ms: int) -> bool:
    """Return whether no message will be due for this session without a new event in it."""
    settled = (notified.state.settled.get(request_id) for request_id in {**notified.attempts, **notified.missed})
    return not notified.state.pending and all(
        one is None or one.at_ms + CORRECTED_WITHIN_MS <= now_ms for one in settled
    )


# --- how much ---------------------------------------------------------------------------------------------------------


def _messages(channel: RecipientChannel, states: Iterable[NotificationState]) -> dict[str, SentMessage]:
    """Return the messages that count towards the limits of a channel: they do not depend on the number of services."""
    return {
        one.message_id: SentMessage(one.service, one.ms)
        for notified in states
        for attempts in notified.attempts.values()
        for one in attempts
        if channel.counts(one) and one.result == "sent" and one.message_id is not None
    }


def _collapsed_until(sent_ms: Iterable[int], timing: Timing) -> int:
    """Return the end of the collecting time, of one service: the person's others send the same at the same time."""
    return max((ms + timing.collapse_ms for ms in sent_ms), default=0)


def _free_at(sent: Mapping[str, SentMessage], under_way: int, count: int, window_ms: int, now_ms: int) -> int:
    """Return the time from which one more message fits into the window."""
    lately = sorted([*(one.ms for one in sent.values() if one.ms > now_ms - window_ms), *[now_ms] * under_way])
    return 0 if len(lately) < count else lately[-count] + window_ms

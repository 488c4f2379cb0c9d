"""What is to be said to one person by one service, and when to look again: from the log, the time and the settings.

`betcode.md` "Permission persists with no client connected": a push for what waits while nobody is there. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from ledger.core.durations import DAY_MS, HOUR_MS
from ledger.session.state import Request, SessionState, Settled, in_order
from projections.reading import SentMessage
from workers.notifier.notification_state import NotificationState, Told
from workers.notifier.settings import Recipient, Timing

CORRECTED_WITHIN_MS: Final = DAY_MS
"""How long after a request ended it is still worth telling."""

RETRY_MS_MAX: Final = HOUR_MS
REQUESTS_A_MESSAGE_COUNT: Final = 50


class Reminder(msgspec.Struct, frozen=True):
    """A request to tell of, for the so-manieth time (from 0)."""

    state: SessionState
    request: Request
    step: int


class Correction(msgspec.Struct, frozen=True):
    """A request that ended after the person was told of it."""

    state: SessionState
    settled: Settled


class MessagePlan(msgspec.Struct, frozen=True):
    """What to say now, each in one message, and the server time at which there may be more; None is: not by itself."""

    reminders: tuple[Reminder, ...] = ()
    corrections: tuple[Correction, ...] = ()
    next_ms: int | None = None


class RecipientChannel(msgspec.Struct, frozen=True):
    """One service of one person."""

    person: Recipient
    service: str

    def own(self, told: Iterable[Told]) -> list[Told]:
        return [one for one in told if (one.person, one.service) == (self.person.name, self.service)]


def plan(
    channel: RecipientChannel,
    books: Iterable[NotificationState],
    messages: Mapping[str, SentMessage],
    timing: Timing,
    now_ms: int,
    *,
    under_way: int = 0,
) -> MessagePlan:
    """`messages` are those that the person was sent lately, by whatever service; `under_way` are being handed to
    other services just now: they count as if they were taken, so that two services do not both say the last one.
    """
    books = [book for book in books if channel.person.cares_for(book.state.session_id, book.state.project)]
    sent = {**messages, **_messages(channel.person, books)}
    # Nothing new is said before this: others of the last minutes are waited for, and a day has only so many messages.
    free_ms = max(
        _collapsed_until((one.ms for one in sent.values() if one.service == channel.service), timing),
        _free_at(sent, under_way, timing.a_day_a_person, DAY_MS, now_ms),
    )
    ready: list[Reminder] = []
    times: list[int] = []
    for book in books:
        of_session = _messages(channel.person, [book])
        session_free_ms = _free_at(of_session, under_way, timing.an_hour_a_session, HOUR_MS, now_ms)
        for request in in_order(book.state.pending.values()):
            for at_ms, reminder in _reminders(channel, book, request, timing, now_ms):
                due_ms = max(at_ms, free_ms, session_free_ms)
                if due_ms <= now_ms and reminder is not None:
                    ready.append(reminder)
                else:
                    times.append(max(due_ms, now_ms + 1))
    corrections: list[Correction] = []
    for at_ms, correction in _corrections(channel, books, timing, now_ms):
        if at_ms <= now_ms:
            corrections.append(correction)
        else:
            times.append(at_ms)
    return MessagePlan(tuple(ready[:REQUESTS_A_MESSAGE_COUNT]), tuple(corrections), min(times, default=None))


# --- what waits ------------------------------------------------------------------------------------------------------


def _reminders(
    channel: RecipientChannel, book: NotificationState, request: Request, timing: Timing, now_ms: int
) -> Iterator[tuple[int, Reminder | None]]:
    """When this request is to be told of next, and with what; None stands for a step that is yet to come.

    Only the latest step that has come is told: whoever was away for two days needs no three messages.
    """
    since_ms = book.since_ms.get(request.request_id)
    if since_ms is None or book.state.clients:
        return  # somebody is there, sees it, and it ends or moves on within a minute
    come = [step for step, offset_ms in enumerate(timing.steps_ms) if since_ms + offset_ms <= now_ms]
    if len(come) < len(timing.steps_ms):
        yield since_ms + timing.steps_ms[len(come)], None
    if come:
        tries = channel.own(book.told.get(request.request_id, ()))
        done = any(one.result == "sent" and one.step is not None and one.step >= come[-1] for one in tries)
        failed = [one.ms for one in tries if one.result == "failed" and one.step == come[-1]]
        if not done and len(failed) < timing.tries:
            yield (
                _next_try(since_ms + timing.steps_ms[come[-1]], failed, timing),
                Reminder(book.state, request, come[-1]),
            )


def _next_try(first_ms: int, failed: list[int], timing: Timing) -> int:
    if not failed:
        return first_ms
    return failed[-1] + min(timing.retry_ms << (len(failed) - 1), RETRY_MS_MAX)


# --- how it ended ----------------------------------------------------------------------------------------------------


def _corrections(
    channel: RecipientChannel, books: Iterable[NotificationState], timing: Timing, now_ms: int
) -> Iterator[tuple[int, Correction]]:
    """What the person was told of and others ended; who answered knows it."""
    for book in books:
        for request_id, told in book.told.items():
            settled = book.state.settled.get(request_id)
            tries = channel.own(told)
            if settled is None or (settled.by.name == channel.person.name and settled.told is None):
                continue
            if not any(one.result == "sent" for one in tries) or any(one.result == "withdrawn" for one in tries):
                continue
            failed = [one.ms for one in tries if one.result == "failed" and one.step is None]
            at_ms = _next_try(settled.at_ms, failed, timing)
            if len(failed) < timing.tries and max(at_ms, now_ms) < settled.at_ms + CORRECTED_WITHIN_MS:
                yield at_ms, Correction(book.state, settled)


def is_over(book: NotificationState, now_ms: int) -> bool:
    """Whether nothing will have to be said of this session unless something happens in it."""
    settled = (book.state.settled.get(request_id) for request_id in book.told)
    return not book.state.pending and all(one is None or one.at_ms + CORRECTED_WITHIN_MS <= now_ms for one in settled)


# --- how much ---------------------------------------------------------------------------------------------------------


def _messages(person: Recipient, books: Iterable[NotificationState]) -> dict[str, SentMessage]:
    """By whatever service: what is too much for a person does not depend on how many they have."""
    return {
        one.message_id: SentMessage(one.service, one.ms)
        for book in books
        for told in book.told.values()
        for one in told
        if one.person == person.name and one.result == "sent" and one.message_id is not None
    }


def _collapsed_until(sent_ms: Iterable[int], timing: Timing) -> int:
    """Of one service: the others of the person say the same thing at the same time."""
    return max((ms + timing.collapse_ms for ms in sent_ms), default=0)


def _free_at(sent: Mapping[str, SentMessage], under_way: int, count: int, window_ms: int, now_ms: int) -> int:
    """When there is room for one more message in the window."""
    lately = sorted([*(one.ms for one in sent.values() if one.ms > now_ms - window_ms), *[now_ms] * under_way])
    return 0 if len(lately) < count else lately[-count] + window_ms

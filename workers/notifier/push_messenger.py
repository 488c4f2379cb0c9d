"""Push messages to one device of a person: what waits, by reference, and what needs no answer any more.

The text of a call never leaves the ledger by this way, though it is encrypted: a phone shows notifications on its
locked screen. A message holds no secret either; the device answers with its own sign-in.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ledger import Ledger
from ledger.access.notifications import Device
from ledger.client.results import result_of
from ledger.session.rounds import shown_digest
from ledger.session.state import Request
from ledger.session.would_run.description import describe_request
from workers.notifier.neutral import neutral
from workers.notifier.plan import Correction, Reminder
from workers.presentation.dangers import DANGERS
from workers.presentation.outcomes import outcome_words
from workers.webpush.sender import PAYLOAD_BYTES_MAX, PushMessage, PushSender, topic_of

log = logging.getLogger(__name__)

REFERENCES_COUNT: Final = 5
"""The requests that one message names; the others are counted."""

REFERENCES_BYTES: Final = PAYLOAD_BYTES_MAX - 200
"""The room for them; two ids of the longest take 1,600 bytes."""

PROJECT_CHARS: Final = 60
SAID_CHARS: Final = 120
LASTS_SECONDS: Final = 7 * 86_400
"""The time for which a push service keeps the message of a request without a deadline."""

WITHDRAWN_SECONDS: Final = 86_400


class PushMessenger:
    """Sends to one device; one that its push service does not know any more is ended in the log."""

    def __init__(self, ledger: Ledger, sender: PushSender, device: Device) -> None:
        self._ledger = ledger
        self._sender = sender
        self._device = device

    async def remind(self, reminders: Sequence[Reminder]) -> bool:
        now_ms = await self._ledger.store.now_ms()
        return await self._send(reminder_push(reminders, now_ms))

    async def correct(self, corrections: Sequence[Correction]) -> bool:
        """Withdraw each request by a message of its own, with the topic of the message about it."""
        taken = [await self._send(correction_push(one, self._device.person)) for one in corrections]
        return all(taken)

    async def _send(self, message: PushMessage) -> bool:
        sent = await self._sender.send(self._device, message)
        if sent == "gone":
            log.info("notifier: device %s is gone at its push service", self._device.device_id)
            await self._ledger.notifications.note_gone(self._device)
        elif sent == "accepted":
            await self._ledger.notifications.note_use(self._device.device_id)
        return sent == "accepted"


def reminder_push(reminders: Sequence[Reminder], now_ms: int) -> PushMessage:
    """Return the message about requests: their references, projects, dangers and deadlines."""
    references = _that_fit([_reference(one) for one in reminders[:REFERENCES_COUNT]])
    known = [one.request.deadline_ms for one in reminders if one.request.deadline_ms is not None]
    lasts_seconds = (max(known) - now_ms) // 1000 if len(known) == len(reminders) else LASTS_SECONDS
    first = reminders[0]
    return PushMessage(
        {
            "kind": "requests",
            "count": len(reminders),
            "requests": references,
            "again": all(one.step > 0 for one in reminders),
        },
        topic=topic_of((first.state.session_id, first.request.request_id)),
        ttl_seconds=max(1, lasts_seconds),
        urgency="high",
    )


def correction_push(correction: Correction, person: str) -> PushMessage:
    """Return the message that a request needs no answer any more, and why."""
    state, request = correction.state, correction.settled.request
    said = outcome_words(result_of(state, request.request_id), person)
    return PushMessage(
        {
            "kind": "settled",
            "session": state.session_id,
            "request": request.request_id,
            "said": neutral(said, SAID_CHARS),
        },
        topic=topic_of((state.session_id, request.request_id)),
        ttl_seconds=WITHDRAWN_SECONDS,
    )


def _that_fit(references: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first references that a message has room for: agents choose long ids. One always fits."""
    size = 0
    for index, one in enumerate(references):
        size += len(msgspec.json.encode(one)) + 1
        if index and size > REFERENCES_BYTES:
            return references[:index]
    return references


def _reference(reminder: Reminder) -> dict[str, Any]:
    state, request = reminder.state, reminder.request
    return {
        "session": state.session_id,
        "request": request.request_id,
        "digest": shown_digest(request),
        "project": None if state.project is None else neutral(state.project, PROJECT_CHARS),
        "danger": dangers_in_words(request),
        "deadline_ms": request.deadline_ms,
    }


def dangers_in_words(request: Request) -> list[str]:
    """Return the kinds of dangers of a request in words, the gravest first."""
    kinds = dict.fromkeys(one.kind for one in describe_request(request).dangers if one.kind != "more")
    return [DANGERS[one] for one in kinds]

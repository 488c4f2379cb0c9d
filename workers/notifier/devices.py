"""People's devices: a channel for each subscription in force, and its messenger, which sends by Web Push.

A message says what waits, by reference, and what needs no answer any more. The text of a call never leaves the ledger
by this way, though it is encrypted: a phone shows notifications on its locked screen. A message holds no secret either;
the device answers with its own sign-in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger import Ledger
from ledger.access.notifications import Device
from ledger.client.results import result_of
from ledger.core.errors import LedgerError
from ledger.session.decision import shown_digest
from ledger.session.state import Request
from ledger.session.would_run.description import describe_request
from ledger.stores.secrets import deployment_secret
from workers.notifier.notification_states import NotificationStates
from workers.notifier.plan import DEVICE_PREFIX, Correction, RecipientChannel, Reminder
from workers.notifier.runner import Allowance, ChannelRunner
from workers.notifier.settings import NotifierSettings, PushSettings, Recipient
from workers.notifier.text import neutral
from workers.presentation.labels import DANGERS, effect_words
from workers.presentation.words import outcome_words
from workers.webpush.sender import PAYLOAD_BYTES_MAX, PushMessage, PushSender, VapidKey, topic_of
from workers.webpush.services import PushServices

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
        "effect": effect_words(request.evaluation),
        "danger": dangers_in_words(request),
        "deadline_ms": request.deadline_ms,
    }


def dangers_in_words(request: Request) -> list[str]:
    """Return the kinds of dangers of a request in words, the gravest first."""
    kinds = dict.fromkeys(one.kind for one in describe_request(request).dangers if one.kind != "more")
    return [DANGERS[one] for one in kinds]


AGAIN_SECONDS: Final = 30.0
"""The interval at which devices are read again: a sign-in expires without an event."""


class DeviceChannels:
    """Runs one channel for each device, until it is stopped."""

    def __init__(
        self, ledger: Ledger, settings: NotifierSettings, push: PushSettings, states: NotificationStates, holder: str
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._push = push
        self._states = states
        self._holder = holder
        self._sender: PushSender | None = None
        self._running: dict[Device, tuple[ChannelRunner, asyncio.Event, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()

    @property
    def runners(self) -> list[ChannelRunner]:
        return [runner for runner, _, _ in self._running.values()]

    def notice(self) -> None:
        """Look at the devices again soon."""
        self._changed.set()

    async def begin(self) -> None:
        """Begin the channels of the devices that there are. Raises StoreError."""
        key = VapidKey(await deployment_secret(self._ledger.store))
        services = PushServices(self._push.services)
        self._sender = PushSender(key, self._push.contact, services, self._settings.timeout_seconds)
        await self._follow()

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the devices until `stop` is set. A channel that fails is a fault of ours, and raised."""
        stopping = asyncio.create_task(stop.wait(), name="notifier devices")
        try:
            while not stop.is_set():
                changed = asyncio.create_task(self._changed.wait(), name="notifier devices")
                working = [task for _, _, task in self._running.values()]
                await asyncio.wait(
                    (stopping, changed, *working), timeout=AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                changed.cancel()
                for task in working:
                    if task.done():
                        task.result()
                self._changed.clear()
                if not stop.is_set():
                    await self._follow()
        finally:
            stopping.cancel()
            await self._end(list(self._running))

    async def _follow(self) -> None:
        """Begin the channels of new devices, end those of others. What failed in the store is tried again."""
        with suppress(LedgerError):
            wanted = {_lasting(one) for one in self._ledger.notifications.in_force()}
            await self._end([one for one in self._running if one not in wanted])
            for device in wanted - self._running.keys():
                self._begin_one(device)

    def _begin_one(self, device: Device) -> None:
        token = self._ledger.notifications.sign_in_of(device)
        if token is None or self._sender is None:
            return
        person = Recipient(device.person, frozenset(token.projects), frozenset(token.sessions))
        name = f"{DEVICE_PREFIX}{device.device_id}"
        runner = ChannelRunner(
            self._ledger,
            self._settings,
            self._states,
            channel=RecipientChannel(person, name, is_device=True),
            messenger=PushMessenger(self._ledger, self._sender, device),
            allowance=Allowance(self._ledger.store, device.person, [name]),
            holder=self._holder,
        )
        stop = asyncio.Event()
        task = asyncio.create_task(runner.consumer.run(stop), name="notifier device")
        self._running[device] = (runner, stop, task)
        runner.look_by(0)

    async def _end(self, devices: Iterable[Device]) -> None:
        ended = [self._running.pop(one) for one in devices]
        for runner, stop, _ in ended:
            stop.set()
            runner.release()
        await asyncio.gather(*(task for _, _, task in ended), return_exceptions=True)
        await asyncio.gather(*(runner.close() for runner, _, _ in ended))


def _lasting(device: Device) -> Device:
    """Return a device without what changes while its channel goes on."""
    return replace(device, used_ms=None)

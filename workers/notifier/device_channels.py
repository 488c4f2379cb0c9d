"""The channels of people's devices: one for each subscription in force, begun and ended as these come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from ledger import Ledger
from ledger.access.notifications import Device
from ledger.core.errors import LedgerError
from ledger.stores.secrets import deployment_secret
from workers.notifier.allowance import Allowance
from workers.notifier.notification_states import NotificationStates
from workers.notifier.plan import DEVICE_PREFIX, RecipientChannel
from workers.notifier.push_messenger import PushMessenger
from workers.notifier.runner import ChannelRunner
from workers.notifier.settings import NotifierSettings, PushSettings, Recipient
from workers.webpush.keys import VapidKey
from workers.webpush.sender import PushSender
from workers.webpush.services import PushServices

log = logging.getLogger(__name__)

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

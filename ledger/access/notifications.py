"""The stream of people's notifications: their devices with push messages, quiet hours and muted services.

One stream for a deployment, of the kind that is never exported (`access`). Pure, but for the time zones of the machine.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.access_events import NameDetail, QuietHours
from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError, UnknownDeviceError
from ledger.core.event_shapes import alike
from ledger.core.events import (
    Actor,
    Event,
    NotificationsChosen,
    PushEnded,
    PushSubscribed,
    PushUsed,
    ReasonDetail,
    ServicesNamed,
    Value,
)
from ledger.core.grants import Recorded
from ledger.core.limits import DEVICES_PER_PERSON_COUNT
from ledger.core.times import DAY_MS

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

NOTIFICATIONS_ID: Final = "notifications"
"""The id of the stream."""


class Device(Value, kw_only=True, frozen=True):
    """A device with push messages in state. `ended_ms` and `used_ms` are server times; None means not, and never."""

    device_id: str
    person: str
    name: str
    endpoint: str
    p256dh: str
    auth: str
    token_id: str
    at_ms: int
    used_ms: int | None = None
    ended_ms: int | None = None

    def __repr__(self) -> str:
        return f"Device({self.device_id!r})"


class NotificationChoice(Value, kw_only=True, frozen=True):
    """The choices of one person; the default is no quiet hours, and every service."""

    quiet: QuietHours | None = None
    muted: tuple[str, ...] = ()


NOTHING_CHOSEN: Final = NotificationChoice()

Devices: TypeAlias = "HashTrieMap[str, Device]"


class NotificationsState(Value, kw_only=True, frozen=True):
    """The fold of the stream. `newer`: it has events that this version cannot read. `services` are by person."""

    version: int = 0
    newer: bool = False
    devices: Devices = HashTrieMap()
    choices: HashTrieMap[str, NotificationChoice] = HashTrieMap()
    services: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    def choice(self, person: str) -> NotificationChoice:
        return self.choices.get(person, NOTHING_CHOSEN)

    def standing(self, person: str | None = None) -> list[Device]:
        """Return the devices that did not end, of one person or of all, oldest first."""
        found = [one for one in self.devices.values() if one.ended_ms is None and person in (None, one.person)]
        return sorted(found, key=lambda one: (one.at_ms, one.device_id))


class Subscribe(Value, kw_only=True, frozen=True):
    """Register a browser's subscription; that of a known endpoint is renewed, under its own device id.

    `replaces` is the endpoint that the browser had before. The person's device there keeps its id.
    `counted` are the person's devices in force: those whose sign-in has ended do not count.
    """

    actor: Actor
    device_id: str
    person: str
    name: str
    endpoint: str
    p256dh: str
    auth: str
    token_id: str
    replaces: str | None = None
    counted: frozenset[str] = frozenset()


class NoteUse(Value, kw_only=True, frozen=True):
    """Record that the push service accepted a message; within a day of the last record there is nothing to do."""

    actor: Actor
    device_id: str
    now_ms: int


class EndDevice(Value, kw_only=True, frozen=True):
    actor: Actor
    device_id: str
    cause: Literal["removed", "gone"]
    endpoint: str | None = None
    reason: str | None = None


class Choose(Value, kw_only=True, frozen=True):
    actor: Actor
    person: str
    choice: NotificationChoice


class NameServices(Value, kw_only=True, frozen=True):
    actor: Actor
    services: dict[str, tuple[str, ...]]


NotificationsCommand = Subscribe | NoteUse | EndDevice | Choose | NameServices


def decide_notifications(state: NotificationsState, command: NotificationsCommand) -> tuple[Event, ...]:
    """Return the events of a command; none when there is nothing to do. Raises UnknownDeviceError, InputError."""
    if state.newer:
        raise NewerSchemaError("the notification stream holds events of a newer version; upgrade this worker")
    match command:
        case Subscribe():
            return _subscribe(state, command)
        case NoteUse():
            return _note_use(state, command)
        case EndDevice():
            return _end(state, command)
        case Choose():
            if state.choice(command.person) == command.choice:
                return ()
            choice = command.choice
            return (NotificationsChosen(person=command.person, quiet=choice.quiet, muted=choice.muted),)
        case NameServices():
            return () if state.services == command.services else (ServicesNamed(services=command.services),)


def standing_device(state: NotificationsState, device_id: str) -> Device:
    """Return a device that did not end. Raises UnknownDeviceError."""
    found = _standing(state, device_id)
    if found is None:
        raise UnknownDeviceError(f"there is no device `{device_id}` with push messages", device_id=device_id)
    return found


def _standing(state: NotificationsState, device_id: str) -> Device | None:
    found = state.devices.get(device_id)
    return None if found is None or found.ended_ms is not None else found


def _subscribe(state: NotificationsState, command: Subscribe) -> tuple[Event, ...]:
    subscribed = alike(PushSubscribed, command, detail=NameDetail(command.name))
    same = [one for one in state.standing() if one.endpoint == command.endpoint]
    own = next((one for one in same if one.person == command.person), None)
    # A browser has one subscription: who signs in there now takes it over from who was signed in before.
    over = [one for one in same if one is not own]
    before = _replaced(state, command)
    if own is not None and before is not None:
        over.append(before)
    ended = tuple(PushEnded(device_id=one.device_id, cause="removed") for one in over)
    if own is None:
        is_counted = before is not None and before.device_id in command.counted
        if len(command.counted) >= DEVICES_PER_PERSON_COUNT and not is_counted:
            raise InputError(
                f"`{command.person}` has {len(command.counted)} devices with push messages, the maximum; remove one first"
            )
        if before is not None:
            subscribed = replace(subscribed, device_id=before.device_id)
        return (*ended, subscribed)
    renewed = replace(own, name=command.name, p256dh=command.p256dh, auth=command.auth, token_id=command.token_id)
    return ended if renewed == own else (*ended, replace(subscribed, device_id=own.device_id))


def _replaced(state: NotificationsState, command: Subscribe) -> Device | None:
    """Return the person's own device at the endpoint that the browser had before."""
    if command.replaces in (None, command.endpoint):
        return None
    return next((one for one in state.standing(command.person) if one.endpoint == command.replaces), None)


def _note_use(state: NotificationsState, command: NoteUse) -> tuple[Event, ...]:
    device = _standing(state, command.device_id)
    if device is None:
        return ()
    if device.used_ms is not None and command.now_ms < device.used_ms + DAY_MS:
        return ()
    return (PushUsed(device_id=command.device_id),)


def _end(state: NotificationsState, command: EndDevice) -> tuple[Event, ...]:
    if command.cause == "gone":
        device = _standing(state, command.device_id)
        # Renewed with another endpoint meanwhile, it is not gone.
        if device is None or device.endpoint != command.endpoint:
            return ()
        return (PushEnded(device_id=command.device_id, cause="gone"),)
    standing_device(state, command.device_id)
    detail = ReasonDetail(command.reason) if command.reason else None
    return (PushEnded(device_id=command.device_id, cause="removed", detail=detail),)


def evolve_notifications(state: NotificationsState, recorded: Recorded) -> NotificationsState:
    """Return the state after one more event."""
    event, devices, choices, services = recorded.event, state.devices, state.choices, state.services
    if isinstance(event, PushSubscribed):
        devices = devices.insert(event.device_id, _subscribed(devices.get(event.device_id), recorded, event))
    elif isinstance(event, PushUsed) and event.device_id in devices:
        devices = devices.insert(event.device_id, replace(devices[event.device_id], used_ms=recorded.ms))
    elif isinstance(event, PushEnded) and event.device_id in devices:
        devices = devices.insert(event.device_id, replace(devices[event.device_id], ended_ms=recorded.ms))
    elif isinstance(event, NotificationsChosen):
        choices = choices.insert(event.person, NotificationChoice(quiet=event.quiet, muted=event.muted))
    elif isinstance(event, ServicesNamed):
        services = event.services
    return replace(
        state,
        version=recorded.version,
        newer=state.newer or isinstance(event, NewerEvent),
        devices=devices,
        choices=choices,
        services=services,
    )


def _subscribed(known: Device | None, recorded: Recorded, event: PushSubscribed) -> Device:
    name = event.detail.name if event.detail else None
    return alike(
        Device,
        event,
        name=name or event.device_id,
        at_ms=recorded.ms if known is None else known.at_ms,
        used_ms=None if known is None else known.used_ms,
    )


DAY_MINUTES: Final = 24 * 60
WEEK_DAYS: Final = 7
ZONE_CHARS: Final = 64


def check_quiet(quiet: QuietHours | None) -> QuietHours | None:
    """Return quiet hours in order. Raises InputError."""
    if quiet is None:
        return None
    for name, minute in (("begin", quiet.begin), ("until", quiet.until)):
        if not 0 <= minute < DAY_MINUTES:
            raise InputError(f"quiet hours {name} at minute {minute} of a day; 0 to {DAY_MINUTES - 1} are accepted")
    if quiet.begin == quiet.until:
        raise InputError("quiet hours must end at another time than they begin: a whole day would send nothing")
    days = tuple(sorted(set(quiet.days)))
    if not days or not all(0 <= day < WEEK_DAYS for day in days):
        raise InputError("name the days of quiet hours, from 0 (Monday) to 6 (Sunday); for none of them, turn them off")
    if zone_named(quiet.zone) is None:
        raise InputError(f"`{quiet.zone[:ZONE_CHARS]}` is not a time zone known here; write it like `Europe/Berlin`")
    return QuietHours(begin=quiet.begin, until=quiet.until, zone=quiet.zone, days=days, grave=quiet.grave)


def zone_named(name: str) -> ZoneInfo | None:
    """Return a time zone by its name in the IANA database; None for an unknown one."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - slow to import, and rarely needed

    if len(name) > ZONE_CHARS:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def quiet_until_ms(quiet: QuietHours | None, at_ms: int) -> int | None:
    """Return when (ms) the quiet hours around a time end; None outside of them, and in a time zone unknown here."""
    zone = None if quiet is None else zone_named(quiet.zone)
    if quiet is None or zone is None:
        return None
    today = datetime.fromtimestamp(at_ms / 1000, zone).date()
    for day in (today - timedelta(days=1), today):
        if day.weekday() not in quiet.days:
            continue
        midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - of the wall clock; its zone follows
        last = quiet.until + (DAY_MINUTES if quiet.until <= quiet.begin else 0)
        begin_ms, end_ms = (_ms(midnight + timedelta(minutes=one), zone) for one in (quiet.begin, last))
        if begin_ms <= at_ms < end_ms:
            return end_ms
    return None


def _ms(wall: datetime, zone: ZoneInfo) -> int:
    return round(wall.replace(tzinfo=zone).timestamp() * 1000)

"""The client of people's notifications: devices with push messages, quiet hours, muted services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ledger.access.notifications import (
    Choose,
    Device,
    EndDevice,
    NameServices,
    NoteUse,
    NotificationChoice,
    NotificationsState,
    Subscribe,
    check_quiet,
    standing_device,
)
from ledger.access.state import Token
from ledger.core.errors import InputError
from ledger.core.events import Actor
from ledger.core.ids import check_id, new_id
from ledger.core.late_patterns import late_pattern
from ledger.core.limits import ENDPOINT_LENGTH_CHARS, MUTED_SERVICES_COUNT
from ledger.core.requests import check_message, check_name
from ledger.log.inboxes import ANSWERING
from ledger.log.stream import Stream

if TYPE_CHECKING:
    from ledger.client.context import Context
    from ledger.client.tokens import Tokens

_POINT: Final = late_pattern(r"[A-Za-z0-9_-]{87}")
"""An uncompressed P-256 point, 65 bytes in base64url."""
_AUTH: Final = late_pattern(r"[A-Za-z0-9_-]{22}")


class NotificationChoices:
    """The notifications of all people, kept current by wake-ups once `watch` has returned."""

    def __init__(self, context: Context, tokens: Tokens) -> None:
        self._context = context
        self._tokens = tokens
        self._stream: Stream[NotificationsState] = context.streams.notifications()

    async def watch(self, observer: Callable[[], None]) -> None:
        """Subscribe to changes, here and of tokens; call `observer` after each. Raises StoreError."""
        await self._tokens.watch()
        await self._context.streams.watch(self._stream)
        self._stream.observe(lambda _: observer())
        self._tokens.on_change(observer)

    async def refresh(self) -> NotificationsState:
        """Return the state, read from the server. Raises StoreError."""
        return await self._stream.refresh()

    def choice(self, person: str) -> NotificationChoice:
        """Return the choices of a person, as far as this process knows."""
        return self._stream.state.choice(person)

    def in_force(self, person: str | None = None) -> list[Device]:
        """Return the devices whose sign-in still may answer, of one person or of all, as far as this process knows."""
        return [one for one in self._stream.state.standing(person) if self.sign_in_of(one) is not None]

    def sign_in_of(self, device: Device) -> Token | None:
        """Return the token behind a device, None once it is not in force or may not answer."""
        token = self._tokens.held(device.token_id)
        return token if token is not None and token.role in ANSWERING and token.name == device.person else None

    async def all(self) -> list[Device]:
        """Return the devices that were not removed, read from the server, oldest first. Raises StoreError."""
        await self._tokens.all()
        return (await self.refresh()).standing()

    async def subscribe(
        self,
        person: str,
        name: str,
        *,
        endpoint: str,
        p256dh: str,
        auth: str,
        token_id: str,
        actor: Actor,
        replaces: str | None = None,
    ) -> Device:
        """Register a browser's subscription under a name; that of a known endpoint is renewed.

        `replaces` is the endpoint that the same browser had before: the person's device there gets the new one.
        The caller has checked the address of the endpoint and that the keys are a person's own. Raises InputError.
        """
        if not 0 < len(endpoint) <= ENDPOINT_LENGTH_CHARS or not endpoint.isascii():
            raise InputError(
                f"the endpoint has {len(endpoint)} characters; 1 to {ENDPOINT_LENGTH_CHARS} of ASCII are accepted"
            )
        if _POINT.fullmatch(p256dh) is None or _AUTH.fullmatch(auth) is None:
            raise InputError("the keys of a subscription are `p256dh` (87 characters of base64url) and `auth` (22)")
        await self.all()
        command = Subscribe(
            actor=actor,
            device_id=new_id("dev"),
            person=check_name(person, "person"),
            name=check_name(name.strip(), "name of the device"),
            endpoint=endpoint,
            p256dh=p256dh,
            auth=auth,
            token_id=check_id(token_id, "token id"),
            replaces=replaces,
            counted=frozenset(one.device_id for one in self.in_force(person)),
        )
        done = await self._stream.submit(command)
        return next(one for one in done.state.standing(person) if one.endpoint == endpoint)

    async def note_use(self, device_id: str) -> None:
        """Record that the push service accepted a message for a device, at most once a day. Raises StoreError."""
        actor = self._context.actor(None, "system")
        await self._stream.submit(NoteUse(actor=actor, device_id=device_id, now_ms=self._context.store.clock.now_ms()))

    async def note_gone(self, device: Device) -> None:
        """Record that the push service does not know a device any more. Raises StoreError."""
        actor = self._context.actor(None, "system")
        await self._stream.submit(
            EndDevice(actor=actor, device_id=device.device_id, cause="gone", endpoint=device.endpoint)
        )

    async def remove(self, device_id: str, *, reason: str | None = None, actor: Actor | str | None = None) -> Device:
        """End push messages on a device. Raises UnknownDeviceError, StoreError."""
        device = standing_device(await self.refresh(), check_id(device_id, "device id"))
        command = EndDevice(
            actor=self._context.actor(actor, "person"),
            device_id=device.device_id,
            cause="removed",
            reason=check_message(reason, "reason"),
        )
        await self._stream.submit(command)
        return device

    async def choose(
        self, person: str, choice: NotificationChoice, *, actor: Actor | str | None = None
    ) -> NotificationChoice:
        """Replace the choices of a person. Raises InputError, StoreError."""
        if len(choice.muted) > MUTED_SERVICES_COUNT:
            raise InputError(f"{len(choice.muted)} services are muted; at most {MUTED_SERVICES_COUNT} can be")
        muted = tuple(sorted({check_name(one, "name of a service") for one in choice.muted}))
        command = Choose(
            actor=self._context.actor(actor, "person"),
            person=check_name(person, "person"),
            choice=NotificationChoice(quiet=check_quiet(choice.quiet), muted=muted),
        )
        return (await self._stream.submit(command)).state.choice(person)

    async def name_services(self, services: Mapping[str, tuple[str, ...]]) -> None:
        """Record the names of each person's services, for their page of notifications. Raises StoreError."""
        await self._stream.submit(NameServices(actor=self._context.actor(None, "system"), services=dict(services)))

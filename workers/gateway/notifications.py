"""Notifications of the signed-in person: availability of push messages, devices, choices, and a test message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ledger import Ledger
from ledger.access.notifications import Device, NotificationChoice
from ledger.core.access_events import QuietHours
from ledger.core.errors import InputError, LedgerError, UnknownDeviceError
from ledger.core.extras import install_line, is_installed
from ledger.core.times import format_time
from ledger.stores.secrets import deployment_secret
from workers.gateway.principals import ForbiddenError, Principal
from workers.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from workers.webpush.sender import PushSender, VapidKey

EXTRA: Final = "push"
IN_A_BROWSER: Final = "this belongs to a browser in which you signed in; open the inbox there"

TEST_SECONDS: Final = 10.0
TEST_TTL_SECONDS: Final = 60

Row = dict[str, Any]


class PushUnavailableError(LedgerError):
    """This gateway sends no push messages: a package or a setting is missing."""

    code = "PUSH_UNAVAILABLE"


class Notifications:
    """The notifications of all people at one gateway. Its packages are an extra, and imported at the first use."""

    def __init__(self, ledger: Ledger, settings: GatewaySettings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._key: VapidKey | None = None

    async def described(self, principal: Principal) -> Row:
        """Return what the page of notifications shows to a person. Raises StoreError."""
        book = self._ledger.notifications
        await self._ledger.tokens.all()
        state = await book.refresh()
        why_not = self._why_not(principal)
        choice = state.choice(principal.name)
        return {
            "push": why_not is None,
            "why_not": why_not,
            "public_key": None if why_not is not None else (await self._vapid_key()).public,
            "devices": [self._row(one, principal) for one in book.in_force(principal.name)],
            "services": list(state.services.get(principal.name, ())),
            "muted": list(choice.muted),
            "quiet": None if choice.quiet is None else quiet_row(choice.quiet),
        }

    async def subscribe(
        self, principal: Principal, name: str, endpoint: str, p256dh: str, auth: str, *, replaces: str | None
    ) -> Row:
        """Register the caller's browser. Raises ForbiddenError, PushUnavailableError, InputError."""
        sender = await self._require_sender(principal)
        device = Device(
            device_id="", person=principal.name, name=name, endpoint=endpoint, p256dh=p256dh, auth=auth,
            token_id=principal.token_id or "", at_ms=0,
        )  # fmt: skip
        sender.check(device)
        made = await self._ledger.notifications.subscribe(
            principal.name,
            name,
            endpoint=endpoint,
            p256dh=p256dh,
            auth=auth,
            token_id=principal.token_id or "",
            actor=principal.actor,
            replaces=replaces,
        )
        return self._row(made, principal)

    async def test(self, principal: Principal, device_id: str) -> Row:
        """Send a test message to a device of the caller; return what its push service said.

        Raises ForbiddenError, PushUnavailableError, UnknownDeviceError.
        """
        from workers.webpush.sender import PushMessage, topic_of  # noqa: PLC0415 - an extra

        sender = await self._require_sender(principal)
        device = await self._own(principal, device_id)
        message = PushMessage({"kind": "test", "name": device.name}, topic_of(("test", device_id)), TEST_TTL_SECONDS)
        sent = await sender.send(device, message)
        if sent == "gone":
            await self._ledger.notifications.note_gone(device)
        elif sent == "accepted":
            await self._ledger.notifications.note_use(device_id)
        return {"sent": sent}

    async def remove(self, principal: Principal, device_id: str) -> None:
        """End push messages on a device of the caller. Raises UnknownDeviceError."""
        await self._own(principal, device_id)
        await self._ledger.notifications.remove(device_id, actor=principal.actor)

    async def choose(self, principal: Principal, choice: NotificationChoice) -> Row:
        """Replace the caller's choices. Raises InputError for a service that is not theirs, ForbiddenError."""
        require_browser(principal)
        principal.require_own_name("the choice of notifications")
        state = await self._ledger.notifications.refresh()
        known = {*state.services.get(principal.name, ()), *state.choice(principal.name).muted}
        for one in choice.muted:
            if one not in known:
                raise InputError(f"you have no service `{one[:100]}`; it has: {', '.join(sorted(known)) or 'none'}")
        chosen = await self._ledger.notifications.choose(principal.name, choice, actor=principal.actor)
        return {"muted": list(chosen.muted), "quiet": None if chosen.quiet is None else quiet_row(chosen.quiet)}

    async def _own(self, principal: Principal, device_id: str) -> Device:
        await self._ledger.notifications.refresh()
        for one in self._ledger.notifications.in_force(principal.name):
            if one.device_id == device_id:
                return one
        raise UnknownDeviceError("you have no such device", device_id=device_id[:100])

    def _why_not(self, principal: Principal) -> str | None:
        if not is_installed(EXTRA):
            return f"this gateway sends no push messages: it {install_line(EXTRA)}"
        if self._settings.push_contact is None:
            return "this gateway sends no push messages: start it with `serve --push-contact ops@example.com`"
        return None if is_browser(principal) else IN_A_BROWSER

    async def _require_sender(self, principal: Principal) -> PushSender:
        require_browser(principal)
        why_not = self._why_not(principal)
        contact = self._settings.push_contact
        if why_not is not None or contact is None:
            raise PushUnavailableError(why_not or "")
        from workers.webpush.sender import PushSender  # noqa: PLC0415 - an extra
        from workers.webpush.services import PushServices  # noqa: PLC0415 - an extra

        return PushSender(await self._vapid_key(), contact, PushServices(self._settings.push_services), TEST_SECONDS)

    async def _vapid_key(self) -> VapidKey:
        from workers.webpush.sender import VapidKey  # noqa: PLC0415 - an extra

        if self._key is None:
            self._key = VapidKey(await deployment_secret(self._ledger.store))
        return self._key

    def _row(self, device: Device, principal: Principal) -> Row:
        token = self._ledger.notifications.sign_in_of(device)
        ends_ms = None if token is None else token.expires_ms
        return {
            "device_id": device.device_id,
            "name": device.name,
            "at": format_time(device.at_ms),
            "used_at": None if device.used_ms is None else format_time(device.used_ms),
            "ends_at": None if ends_ms is None else format_time(ends_ms),
            "is_this": device.token_id == principal.token_id,
        }


def is_browser(principal: Principal) -> bool:
    """Return whether the caller is a browser in which a person signed in, and no program with a token."""
    return principal.via == "inbox" and principal.token_id is not None


def require_browser(principal: Principal) -> None:
    """Raise ForbiddenError unless the caller is a browser in which a person signed in."""
    if not is_browser(principal):
        raise ForbiddenError(IN_A_BROWSER)


def quiet_row(quiet: QuietHours) -> Row:
    """Return quiet hours as a row, with times of the day."""
    return {
        "begin": f"{quiet.begin // 60:02}:{quiet.begin % 60:02}",
        "until": f"{quiet.until // 60:02}:{quiet.until % 60:02}",
        "zone": quiet.zone,
        "days": list(quiet.days),
        "grave": quiet.grave,
    }

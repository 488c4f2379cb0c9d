"""The ways in which a message reaches a person, and the messenger of the services in the configuration.

A failed delivery has no other effect: nothing of the address is ever logged.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from apprise import Apprise, NotifyFormat

from ledger import Ledger
from ledger.session.decision import shown_digest
from ledger.stores.secrets import link_key
from workers.notifier.plan import Correction, RecipientChannel, Reminder
from workers.notifier.settings import NotifierSettings, Service
from workers.notifier.text import OutgoingMessage, correction_message, reminder_message, rendered, titled
from workers.runtime.answer_links import AnswerLink, AnswerLinks

log = logging.getLogger(__name__)


def keep_addresses_out_of_the_log() -> None:
    """Silence apprise's log, which may hold addresses and with them secrets."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)


async def deliver(service: Service, message: OutgoingMessage, seconds: float) -> bool:
    """Return whether the service accepted the message in time."""
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    # A daemon thread: a service that never answers must not keep a worker from stopping.
    threading.Thread(target=_deliver, args=(service, message, done), name=service.name, daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            return await done
    except TimeoutError:
        log.warning("notifier: %s did not take a message in %g s", service.name, seconds)
        return False


def _deliver(service: Service, message: OutgoingMessage, done: asyncio.Future[bool]) -> None:
    taken = False
    try:
        taken = _notify(service, message)
    except Exception as error:  # noqa: BLE001 - a hundred services, each with its own
        log.warning("notifier: %s failed: %s", service.name, type(error).__name__)
    # The loop may have ended meanwhile: then the result is not needed.
    with suppress(RuntimeError):
        done.get_loop().call_soon_threadsafe(_tell, done, taken)


def _notify(service: Service, message: OutgoingMessage) -> bool:
    """Send a message in the service's own format: given the format, apprise converts nothing."""
    plugin = Apprise.instantiate(service.url)
    if plugin is None:
        return False
    form = plugin.resolve_format(NotifyFormat.TEXT)
    # Some services have no title, and show it in the body.
    title = titled(message.title, form.value) if plugin.title_maxlen <= 0 else message.title
    sender = Apprise()
    sender.add(plugin)
    return bool(sender.notify(title=title, body=rendered(message.lines, form.value), body_format=form))


def _tell(done: asyncio.Future[Any], taken: bool) -> None:
    if not done.done():
        done.set_result(taken)


class Messenger(Protocol):
    """One way to one person. Each call sends one message; False says that it was not accepted. Raises StoreError."""

    async def remind(self, reminders: Sequence[Reminder]) -> bool: ...

    async def correct(self, corrections: Sequence[Correction]) -> bool: ...


class ServiceMessenger:
    """Sends by one service of the configuration, with answer links."""

    def __init__(self, ledger: Ledger, settings: NotifierSettings, channel: RecipientChannel, service: Service) -> None:
        self._ledger = ledger
        self._settings = settings
        self._person = channel.person.name
        self._service = service
        self._warned = False

    async def remind(self, reminders: Sequence[Reminder]) -> bool:
        now_ms = await self._ledger.store.now_ms()
        public_url = self._settings.public_url
        links = AnswerLinks(await link_key(self._ledger.store))
        person = await self._ledger.tokens.person(self._person)
        if public_url is not None and not person.is_known and not self._warned:
            self._warned = True
            log.warning(
                "notifier: `%s` never had a token, so gateways with tokens refuse the links: "
                "`permission-ledger token create %s --role approver`",
                person.name,
                person.name,
            )

        def link_of(reminder: Reminder) -> str | None:
            has_ended = person.is_known and person.token_for(reminder.state.session_id, reminder.state.project) is None
            if public_url is None or has_ended:
                return None
            return f"{public_url}/answer/{links.sign(self._link(reminder, now_ms))}"

        inbox = None if public_url is None else f"{public_url}/"
        message = reminder_message(reminders, link_of, inbox, now_ms)
        return await deliver(self._service, message, self._settings.timeout_seconds)

    async def correct(self, corrections: Sequence[Correction]) -> bool:
        message = correction_message(corrections, self._person)
        return await deliver(self._service, message, self._settings.timeout_seconds)

    def _link(self, reminder: Reminder, now_ms: int) -> AnswerLink:
        ends_ms = now_ms + self._settings.link_ms
        request = reminder.request
        return AnswerLink(
            reminder.state.session_id,
            request.request_id,
            shown_digest(request),
            self._person,
            ends_ms if request.deadline_ms is None else min(ends_ms, request.deadline_ms),
        )

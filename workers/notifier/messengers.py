"""The ways in which a message reaches a person, and the messenger of the services in the configuration."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from ledger import Ledger
from ledger.session.rounds import shown_digest
from ledger.stores.secrets import link_key
from workers.notifier.delivery import deliver
from workers.notifier.plan import Correction, RecipientChannel, Reminder
from workers.notifier.settings import NotifierSettings, Service
from workers.notifier.text import correction_message, reminder_message
from workers.runtime.answer_links import AnswerLink, AnswerLinks

log = logging.getLogger(__name__)


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

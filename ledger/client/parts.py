"""The parts of a ledger that its sessions use too: look-ups, tokens, passkeys, freezes and the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

from ledger.client.context import Context
from ledger.client.freezing import Freezing, Holding
from ledger.client.grounds import InboxPresence
from ledger.client.lookups import Lookups, WaitingSession, WaitingSessions
from ledger.client.notification_choices import NotificationChoices
from ledger.client.passkeys import PasskeyBook
from ledger.client.plugins import Decider
from ledger.client.redacting import Redacting
from ledger.client.tokens import Tokens


class Parts(Context, ABC):
    """A ledger without its sessions. `is_on_time`: the clock is the real one, so leases may be known for a while."""

    def __init__(self, *, plugins: Sequence[Decider], actor: str | None, is_on_time: bool) -> None:
        super().__init__(plugins=plugins, actor=actor)
        self.waiting = WaitingSessions(self, self.handle_of)
        self.lookups = Lookups(self)
        self.inboxes = InboxPresence(self, is_cached=is_on_time)

    @abstractmethod
    def handle_of(self, session_id: str) -> WaitingSession:
        """Return the handle of a session, without a look whether there is one."""

    @abstractmethod
    async def attach(self, session_id: str) -> WaitingSession:
        """Return an existing session. Raises UnknownSessionError."""

    @cached_property
    def tokens(self) -> Tokens:
        """The access tokens of the gateway."""
        return Tokens(self, self.passkeys, self.waiting)

    @cached_property
    def passkeys(self) -> PasskeyBook:
        """The passkeys of people, and the answers that they sign."""
        return PasskeyBook(self)

    @cached_property
    def freezes(self) -> Freezing:
        """The freezes of the ledger or of a project, which stop everything there."""
        return Freezing(self, self.waiting)

    @cached_property
    def holds(self) -> Holding:
        """The legal holds of sessions and projects, which forbid redaction there."""
        return Holding(self, self.attach)

    @cached_property
    def notifications(self) -> NotificationChoices:
        """The devices of people that receive push messages, and their choices about notifications."""
        return NotificationChoices(self, self.tokens)

    @property
    def redactions(self) -> Redacting:
        """Return the redactions of the ledger: content taken out of its log."""
        return Redacting(self, self.holds)

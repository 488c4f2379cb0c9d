"""The tier of a request that becomes pending, by the presence of clients. Pure."""

from __future__ import annotations

from ledger.core.events import Presence, Settings, Tier
from ledger.session.commands import Live, PresenceWantedError
from ledger.session.state import SessionState


def wanted(live: Live | None) -> Live:
    """Return the presence that a decision depends on. Raises PresenceWantedError if the leases were not read."""
    if live is None:
        raise PresenceWantedError("the decision depends on presence; read the leases")
    return live


def present_clients(live: Live) -> tuple[Presence, ...]:
    """Return the clients that an ask names as present; none where the presence is unknown."""
    return live.named() or ()


def tier_of(settings: Settings, live: Live) -> tuple[Tier, int | None]:
    """Return the tier of a request that becomes pending, and its time (ms; None is without a deadline).

    Unknown presence gives the longer time: nobody is asked to answer within a minute who may not be connected.
    """
    attended = live.is_known and bool(live.clients or live.inbox)
    return ("attended", settings.attended_ms) if attended else ("unattended", settings.unattended_ms)


def records_clients(state: SessionState) -> bool:
    """Return whether connections are events: an input lock depends on them. Otherwise they are only leases."""
    return state.settings.answering == "lock-holder"

"""Implementations of `Fold` for the kinds of streams, which `ledger.log.stream` drives."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from ledger.access.freeze import (
    FREEZE_ID,
    HOLDS_ID,
    FreezeState,
    HoldState,
    decide_freeze,
    decide_holds,
    evolve_freeze,
    evolve_holds,
)
from ledger.access.notifications import NOTIFICATIONS_ID, NotificationsState, decide_notifications, evolve_notifications
from ledger.access.passkeys import PASSKEYS_ID, PasskeysState, decide_passkeys, evolve_passkeys
from ledger.access.state import ACCESS_ID, AccessState, decide_access, evolve_access
from ledger.core.errors import LedgerError
from ledger.core.events import Asked, Cancelled, Claimed, Event, Expired, LogRegressed, Presence, Reopened, Replied
from ledger.core.freezes import any_allowing
from ledger.core.grants import Recorded
from ledger.core.limits import LEASE_MS
from ledger.core.policy import Verdict
from ledger.log.freezes import Freezes
from ledger.log.inboxes import present_in, readable
from ledger.log.plans import NOTHING, SYSTEM, AppendPlan, Fold, Regression
from ledger.masks.masking import Masks, require_no_secret, with_masked_reason
from ledger.policy.stored_rules import RulesState, decide_rules, evolve_rules
from ledger.project import GrantInProject, ProjectCommand, ProjectState, decide_project, evolve_project, until_ms
from ledger.session.commands import Ask, ClaimCall, Connect, Judging, Live, OutdatedRulesError, Recheck, Repeat
from ledger.session.deadlines import needs_presence, settle
from ledger.session.decision import decide_repeat, records_clients
from ledger.session.evolve import deadline_ms, evolve
from ledger.session.masking import masked_command, masked_record, masked_repeat
from ledger.session.state import SessionState, claim_due_ms, next_due_ms
from ledger.stores.port import NOTHING_DUE, Due, StreamKey
from ledger.stores.store import Store


def masked_project_command(command: ProjectCommand, masks: Masks) -> ProjectCommand:
    """Return a command with masks in its reason. Raises InputError for a grant's pattern with a secret in it."""
    # The pattern of an answer comes from its request, which is in the log already.
    if isinstance(command, GrantInProject) and command.request_id is None:
        require_no_secret(command.pattern)
    masked: ProjectCommand = with_masked_reason(command, masks)
    return masked


S = TypeVar("S")

log = logging.getLogger(__name__)

_READ_PRESENCE: Final = frozenset((Ask, Recheck, ClaimCall, Connect))
_ENDS: Final = frozenset((Replied, Expired, Cancelled))
"""The events that end a pending request."""


class SessionFold:
    """The fold of a session's stream. It reads only leases from the store."""

    def __init__(self, store: Store, freezes: Freezes | None = None, masks: Masks | None = None) -> None:
        self._store = store
        self._freezes = freezes
        self._masks = masks

    def initial(self, key: StreamKey) -> SessionState:
        return SessionState(session_id=key.id)

    evolve = staticmethod(evolve)
    next_due_ms = staticmethod(next_due_ms)

    def decide(self, state: SessionState, command: Any, now_ms: int) -> AppendPlan:
        if type(command) is Repeat:
            return AppendPlan(decide_repeat(state, masked_repeat(command, self._masks)).events, command.actor)
        # Readers need no rules. Who asks has most of these modules already, by its handle of the session.
        from ledger.session.decide import decide  # noqa: PLC0415
        from ledger.session.freezing import under_freeze  # noqa: PLC0415

        if type(command) is Regression:
            return _regressed(command)
        if isinstance(command, Judging) and command.policy_digest not in (None, state.policy_digest):
            raise OutdatedRulesError(f"the rules of session `{state.session_id}` have changed; evaluate again")
        if type(command) in _READ_PRESENCE and records_clients(state) and not _covers(command.live, state):
            raise OutdatedRulesError(f"new clients connected to session `{state.session_id}`; read presence again")
        masks = self._masks
        if masks is not None:
            command = masked_command(command, masks)
        decision = decide(state, command, now_ms)
        freeze = None if self._freezes is None else self._freezes.over(state.project)
        if freeze is not None:
            decision = under_freeze(state, command, decision, freeze, now_ms)
        events = decision.events if masks is None else masked_record(state, decision.events, command, masks)
        live = command.live if type(command) in _READ_PRESENCE else None
        present = live.clients if live is not None and live.is_assumed and any(map(_has_tier, events)) else None
        return AppendPlan(events, command.actor, not_after_ms=decision.not_after_ms, present=present)

    async def settle(self, state: SessionState, now_ms: int) -> AppendPlan:
        due_ms = next_due_ms(state)
        if due_ms is None or due_ms > now_ms:
            return NOTHING
        live = await self.live(state, now_ms) if needs_presence(state, now_ms) else Live()
        settlement = settle(state, now_ms, live)
        return AppendPlan(settlement.events, SYSTEM, not_before_ms=settlement.not_before_ms, more=settlement.more)

    async def live(self, state: SessionState, now_ms: int) -> Live:
        """Return the presence by leases; unknown presence where they cannot be read."""
        return await read_live(state, self._leases(state), now_ms)

    async def _leases(self, state: SessionState) -> tuple[tuple[Presence, ...], tuple[Presence, ...]]:
        here, inboxes = await self._store.leases((state.session_id, None))
        return here, present_in(readable(inboxes), state.session_id, state.project)

    def due_hint(
        self,
        before: SessionState,
        due_ms: int | None,
        events: Sequence[Event],
        ahead: Callable[[], SessionState],
        after_ms: int,
    ) -> Due | str | None:
        """Return the new due hint; None when it need not change."""
        if len(events) > 1:
            events = [event for event in events if type(event) is not Asked or event.verdict is Verdict.ASK]
        if not events:
            return None
        kinds = set(map(type, events))
        if kinds == {Asked} and len(events) == 1:
            return _hint_of_ask(before, due_ms, events[0], after_ms)
        if kinds == {Claimed}:
            return _hint_of_claims(before, due_ms, after_ms)
        if kinds <= _ENDS:
            return _hint_of_ends(before, due_ms, events)
        return _hint(before, due_ms, ahead(), after_ms)

    def project_of(self, state: SessionState) -> str | None:
        return state.project


async def read_live(state: SessionState, read: Awaitable[Sequence[tuple[Presence, ...]]], now_ms: int) -> Live:
    """Return the presence in a session; unknown presence where a lease cannot be read.

    `read` are the clients with leases of the session, and those with an inbox that reaches it.

    A hint must not fail a command. Where connections are recorded, a client that connected less than one lease ago
    counts as present.
    """
    try:
        leases, reaching = await read
    except LedgerError as error:
        log.warning("the presence in session %s is unknown: %s", state.session_id, error)
        return Live(asked_for=frozenset(state.clients), is_known=False)
    here = {one.client_id: one for one in leases}
    if records_clients(state):
        for client in state.clients.values():
            if now_ms < client.since_ms + LEASE_MS:
                here.setdefault(client.client_id, Presence(client.client_id, client.name))
    return Live(tuple(here.values()), reaching, asked_for=frozenset(state.clients))


def _covers(live: Live | None, state: SessionState) -> bool:
    return live is None or (live.covers(state.clients) and not live.is_assumed)


def _has_tier(event: Event) -> bool:
    """Return whether an event rests on who is present."""
    return (type(event) is Asked or type(event) is Reopened) and event.tier is not None


def _hint(before: SessionState, due_ms: int | None, after: SessionState, after_ms: int) -> Due | str | None:
    had = before.pending or before.lock_request or before.open_claims
    if not (had or after.pending or after.lock_request or after.open_claims):
        return None
    due = next_due_ms(after)
    if due is None and not after.pending:
        return NOTHING_DUE if had else None
    if due == due_ms and bool(before.pending) == bool(after.pending):
        return None
    if due is None:
        return Due(None)
    return Due(due - after_ms, relative=True) if _begins_now(before, after, due) else Due(due)


def _hint_of_ask(before: SessionState, due_ms: int | None, event: Any, after_ms: int) -> Due | None:
    if event.verdict is not Verdict.ASK:
        return None
    lasts_ms = deadline_ms(0, event.tier or "unattended", event.duration_ms, event.cap_ms)
    if lasts_ms is None:
        return None if before.pending or due_ms is not None else Due(None)
    return Due(lasts_ms, relative=True) if due_ms is None or after_ms + lasts_ms < due_ms else None


def _hint_of_ends(before: SessionState, due_ms: int | None, events: Sequence[Any]) -> Due | str | None:
    """Return the due hint after the ends of pending requests, which have no claims."""
    ended = {event.request_id for event in events}
    left_ms = next_due_ms(before, without=ended)
    if left_ms is None and len(ended) == len(before.pending):
        return NOTHING_DUE
    return None if left_ms == due_ms else Due(left_ms)


def _hint_of_claims(before: SessionState, due_ms: int | None, after_ms: int) -> Due | str | None:
    """Return the due hint after new claims, which all end at the same time."""
    timeout_ms = before.settings.claim_timeout_ms
    return Due(timeout_ms, relative=True) if due_ms is None or after_ms + timeout_ms < due_ms else None


def _begins_now(before: SessionState, after: SessionState, due_ms: int) -> bool:
    """Return whether the earliest deadline starts with this append, whose time only the server knows."""
    request = after.pending.first_due()
    if request is not None and request.deadline_ms == due_ms:
        known = before.pending.get(request.request_id)
        return known is None or known.deadline_ms != due_ms
    if after.open_claims and claim_due_ms(after) == due_ms:
        return after.first_claim > before.claims_count
    return before.lock_request != after.lock_request


class _Undated(Generic[S]):
    """The parts of `Fold` for a stream without deadlines, in which nothing is allowed."""

    async def settle(self, state: S, now_ms: int) -> AppendPlan:
        return NOTHING

    def next_due_ms(self, state: S) -> int | None:
        return None

    def due_hint(
        self, before: S, due_ms: int | None, events: Sequence[Event], ahead: Callable[[], S], after_ms: int
    ) -> Due | str | None:
        return None

    def project_of(self, state: S) -> str | None:
        return None


class ProjectFold(_Undated[ProjectState]):
    """The fold of a project's stream: grants only, without deadlines."""

    def __init__(self, freezes: Freezes | None = None, masks: Masks | None = None) -> None:
        self._freezes = freezes
        self._masks = masks

    evolve = staticmethod(evolve_project)

    def initial(self, key: StreamKey) -> ProjectState:
        return ProjectState(project_id=key.id)

    def decide(self, state: ProjectState, command: Any, now_ms: int) -> AppendPlan:
        if isinstance(command, Regression):
            return _regressed(command)
        if self._masks is not None:
            command = masked_project_command(command, self._masks)
        events = decide_project(state, command, now_ms)
        if not events:
            return NOTHING
        freeze = None if self._freezes is None else self._freezes.over(state.project_id)
        if freeze is not None and any_allowing(events):
            raise freeze.error()
        fixed = command.event_id if isinstance(command, GrantInProject) else None
        return AppendPlan(events, command.actor, not_after_ms=until_ms(state, command), event_id=fixed)

    def project_of(self, state: ProjectState) -> str | None:
        return state.project_id


class RulesFold(_Undated[RulesState]):
    """The fold of a ruleset's stream."""

    evolve = staticmethod(evolve_rules)

    def initial(self, key: StreamKey) -> RulesState:
        return RulesState(policy_digest=key.id)

    def decide(self, state: RulesState, command: Any, now_ms: int) -> AppendPlan:
        if isinstance(command, Regression):
            # A stream that the server lost is begun again by the next writer of its rules, and by nothing else.
            return NOTHING
        return AppendPlan(decide_rules(state, command), command.actor)


class AccessStreamFold(_Undated[S]):
    """The fold of one access stream, by its pure functions. With `masks`, reasons of commands are masked."""

    def __init__(
        self,
        initial: Callable[[StreamKey], S],
        evolve: Callable[[S, Recorded], S],
        decide: Callable[[S, Any, int], tuple[Event, ...]],
        masks: Masks | None = None,
    ) -> None:
        self.initial, self.evolve = initial, evolve
        self._decide, self._masks = decide, masks

    def decide(self, state: S, command: Any, now_ms: int) -> AppendPlan:
        if isinstance(command, Regression):
            return _regressed(command)
        if self._masks is not None:
            command = with_masked_reason(command, self._masks)
        return AppendPlan(self._decide(state, command, now_ms), command.actor)


_ACCESS: Final[dict[str, tuple[Callable[[StreamKey], Any], Callable[..., Any], Callable[..., tuple[Event, ...]]]]] = {
    # Tokens expire without an event.
    ACCESS_ID: (lambda key: AccessState(access_id=key.id), evolve_access, decide_access),
    PASSKEYS_ID: (lambda _: PasskeysState(), evolve_passkeys, decide_passkeys),
    NOTIFICATIONS_ID: (
        lambda _: NotificationsState(),
        evolve_notifications,
        lambda state, command, _: decide_notifications(state, command),
    ),
    FREEZE_ID: (lambda _: FreezeState(), evolve_freeze, lambda state, command, _: decide_freeze(state, command)),
    HOLDS_ID: (lambda _: HoldState(), evolve_holds, lambda state, command, _: decide_holds(state, command)),
}


def access_folds(masks: Masks | None) -> dict[str, Fold[Any]]:
    """Return the folds of the access streams, by their ids."""
    return {one: AccessStreamFold(*parts, None if one == PASSKEYS_ID else masks) for one, parts in _ACCESS.items()}


def _regressed(command: Regression) -> AppendPlan:
    return AppendPlan((LogRegressed(seen_id=str(command.seen), found_id=str(command.found)),), SYSTEM)

"""Implementations of `Fold` for the kinds of streams, which `ledger.log.stream` drives."""

from __future__ import annotations

from typing import Any, Final

from ledger.access.passkeys.state import PasskeysState, decide_passkeys, evolve_passkeys
from ledger.access.state import AccessState, decide_access, evolve_access
from ledger.core.events import Asked, Event, LogRegressed
from ledger.core.grants import Recorded
from ledger.core.limits import LEASE_MS
from ledger.core.policy import Verdict
from ledger.log.inboxes import open_inboxes, present_in
from ledger.log.plans import NOTHING, SYSTEM, AppendPlan, Regression
from ledger.project.state import GrantInProject, ProjectState, decide_project, evolve_project
from ledger.session import SessionState, decide, evolve, needs_presence, next_due_ms, settle
from ledger.session.commands import Ask, Connect, Judging, Live, OutdatedRulesError, Recheck
from ledger.session.state import in_order
from ledger.stores.port import NOTHING_DUE, Due, Store, StreamKey

_LOOKED_WHO_IS_THERE: Final = frozenset((Ask, Recheck, Connect))


class SessionFold:
    """The fold of a session's stream. It reads only leases from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def initial(self, key: StreamKey) -> SessionState:
        return SessionState(session_id=key.id)

    evolve = staticmethod(evolve)

    def decide(self, state: SessionState, command: Any, now_ms: int) -> AppendPlan:
        if type(command) is Regression:
            return _regressed(command)
        if isinstance(command, Judging) and command.policy_digest not in (None, state.policy_digest):
            raise OutdatedRulesError(f"the rules of session `{state.session_id}` have changed; evaluate again")
        if type(command) in _LOOKED_WHO_IS_THERE and not command.live.covers(state.clients):
            raise OutdatedRulesError(f"new clients connected to session `{state.session_id}`; read presence again")
        decision = decide(state, command, now_ms)
        return AppendPlan(decision.events, command.actor, not_after_ms=decision.not_after_ms)

    async def settle(self, state: SessionState, now_ms: int) -> AppendPlan:
        due_ms = next_due_ms(state)
        if due_ms is None or due_ms > now_ms:
            return NOTHING
        live = await self.live(state, now_ms) if needs_presence(state, now_ms) else Live()
        settlement = settle(state, now_ms, live)
        return AppendPlan(settlement.events, SYSTEM, not_before_ms=settlement.not_before_ms, more=settlement.more)

    async def live(self, state: SessionState, now_ms: int) -> Live:
        """Return the presence by leases. A client that connected less than one lease ago counts as present."""
        fresh = {client.client_id for client in state.clients.values() if now_ms < client.since_ms + LEASE_MS}
        inbox = present_in(await open_inboxes(self._store), state.session_id, state.project)
        leases = await self._store.leases(state.session_id) if len(fresh) < len(state.clients) else ()
        here = frozenset(fresh.union(client.client_id for client in leases))
        return Live(here, inbox, asked_for=frozenset(state.clients))

    def next_due_ms(self, state: SessionState) -> int | None:
        return next_due_ms(state)

    def keeps_due(self, event: Event) -> bool:
        """Return whether events of this type leave all deadlines unchanged; an ask that is decided at once does."""
        return isinstance(event, Asked) and event.verdict is not Verdict.ASK

    def due_hint(self, before: SessionState, after: SessionState, after_ms: int) -> Due | str | None:
        """Return the new due hint; None when it need not change."""
        if not (before.pending or after.pending or before.lock_request or after.lock_request):
            return None
        due = next_due_ms(after)
        if due is None and not after.pending:
            return NOTHING_DUE if before.pending or before.lock_request else None
        if due == next_due_ms(before) and bool(before.pending) == bool(after.pending):
            return None
        if due is None:
            return Due(None)
        return Due(due - after_ms, relative=True) if _begins_now(before, after, due) else Due(due)


def _begins_now(before: SessionState, after: SessionState, due_ms: int) -> bool:
    """Return whether the earliest deadline starts with this append, whose time only the server knows."""
    for request in in_order(after.pending.values()):
        if request.deadline_ms == due_ms:
            known = before.pending.get(request.request_id)
            return known is None or known.deadline_ms != due_ms
    return before.lock_request != after.lock_request


class ProjectFold:
    """The fold of a project's stream: grants only, without deadlines."""

    def initial(self, key: StreamKey) -> ProjectState:
        return ProjectState(project_id=key.id)

    def evolve(self, state: ProjectState, recorded: Recorded) -> ProjectState:
        return evolve_project(state, recorded)

    def decide(self, state: ProjectState, command: Any, now_ms: int) -> AppendPlan:
        if isinstance(command, Regression):
            return _regressed(command)
        events = decide_project(state, command)
        fixed = command.event_id if isinstance(command, GrantInProject) else None
        return AppendPlan(events, command.actor, event_ids=(fixed,) if events and fixed else ())

    async def settle(self, state: ProjectState, now_ms: int) -> AppendPlan:
        return NOTHING

    def next_due_ms(self, state: ProjectState) -> int | None:
        return None

    def keeps_due(self, event: Event) -> bool:
        return True

    def due_hint(self, before: ProjectState, after: ProjectState, after_ms: int) -> Due | str | None:
        return None


class AccessFold:
    """The fold of the access stream: tokens only, which expire without an event."""

    def initial(self, key: StreamKey) -> AccessState:
        return AccessState(access_id=key.id)

    def evolve(self, state: AccessState, recorded: Recorded) -> AccessState:
        return evolve_access(state, recorded)

    def decide(self, state: AccessState, command: Any, now_ms: int) -> AppendPlan:
        if isinstance(command, Regression):
            return _regressed(command)
        return AppendPlan(decide_access(state, command, now_ms), command.actor)

    async def settle(self, state: AccessState, now_ms: int) -> AppendPlan:
        return NOTHING

    def next_due_ms(self, state: AccessState) -> int | None:
        return None

    def keeps_due(self, event: Event) -> bool:
        return True

    def due_hint(self, before: AccessState, after: AccessState, after_ms: int) -> Due | str | None:
        return None


class PasskeysFold:
    """The fold of the stream of passkeys, without deadlines."""

    def initial(self, key: StreamKey) -> PasskeysState:
        return PasskeysState()

    def evolve(self, state: PasskeysState, recorded: Recorded) -> PasskeysState:
        return evolve_passkeys(state, recorded)

    def decide(self, state: PasskeysState, command: Any, now_ms: int) -> AppendPlan:
        if isinstance(command, Regression):
            return _regressed(command)
        return AppendPlan(decide_passkeys(state, command, now_ms), command.actor)

    async def settle(self, state: PasskeysState, now_ms: int) -> AppendPlan:
        return NOTHING

    def next_due_ms(self, state: PasskeysState) -> int | None:
        return None

    def keeps_due(self, event: Event) -> bool:
        return True

    def due_hint(self, before: PasskeysState, after: PasskeysState, after_ms: int) -> Due | str | None:
        return None


def _regressed(command: Regression) -> AppendPlan:
    return AppendPlan((LogRegressed(seen_id=str(command.seen), found_id=str(command.found)),), SYSTEM)

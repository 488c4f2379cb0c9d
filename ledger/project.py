"""A project's stream: the grants that all its sessions share. Pure; see `ledger.session` for the terms."""

from __future__ import annotations

from msgspec.structs import replace

from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError, UnknownGrantError
from ledger.core.event_shapes import Proof, alike
from ledger.core.events import (
    Actor,
    Event,
    Granted,
    GrantedDetail,
    Imported,
    ReasonDetail,
    Redacted,
    Revoked,
    UseTaken,
    Value,
)
from ledger.core.grants import (
    Grants,
    Recorded,
    TakenUse,
    Taker,
    add_granted,
    add_uses,
    mark_imported,
    mark_redacted,
    mark_revoked,
    no_grants,
)


class ProjectState(Value, kw_only=True, frozen=True):
    """The fold of a project's stream. `newer`: it has events that this version cannot read.

    `judged_version` is the version of the last event that may change a judgement; a use that a call takes changes none
    of another call that was made.
    """

    project_id: str
    version: int = 0
    judged_version: int = 0
    last_ms: int = 0
    newer: bool = False
    grants: Grants = no_grants()


class GrantInProject(Value, kw_only=True, frozen=True):
    """Make a grant; a known id, also a revoked one, makes no event.

    `event_id` is set for the grant of a reply, so that a repeated one is recognised in the log. Such a
    grant expires at `expires_at_ms` (server ms), counted from the reply, however late it is written.
    """

    actor: Actor
    event_id: str | None = None
    grant_id: str
    permission: str
    pattern: str
    expires_in_ms: int | None = None
    expires_at_ms: int | None = None
    uses: int | None = None
    wider: bool = False
    session: str | None = None
    request_id: str | None = None
    reason: str | None = None
    proof: Proof | None = None
    salt: str = ""
    """The salt of the request, with which the digests in `proof` are keyed."""


class RevokeInProject(Value, kw_only=True, frozen=True):
    actor: Actor
    grant_id: str
    reason: str | None = None


class TakeUse(Value, kw_only=True, frozen=True):
    """Take one use of a grant for a call; a use that the call has taken already makes no event.

    Nor does a grant that is not in force: the caller judges the call again, without it.
    """

    actor: Actor
    grant_id: str
    session: str
    request_id: str
    claim_id: str = ""


ProjectCommand = GrantInProject | RevokeInProject | TakeUse


def require_readable_project(state: ProjectState) -> None:
    """Raise NewerSchemaError for a project with events of a newer schema: no decision may rest on it."""
    if state.newer:
        raise NewerSchemaError(
            f"project `{state.project_id}` holds events of a newer version; upgrade this worker",
            project=state.project_id,
        )


def decide_project(state: ProjectState, command: ProjectCommand, now_ms: int) -> tuple[Event, ...]:
    """Return the events of a command; none when there is nothing to do. Raises UnknownGrantError.

    `now_ms` is the writer's estimate of the server's clock; `until_ms` bounds a decision that depends on it.
    """
    require_readable_project(state)
    if isinstance(command, GrantInProject):
        return _grant(state, command, now_ms)
    if isinstance(command, TakeUse):
        return _take(state, command, now_ms)
    return _revoke(state, command)


def until_ms(state: ProjectState, command: ProjectCommand) -> int | None:
    """Return the server time (ms) after which the events of a command must not be written; None without a bound."""
    grant = state.grants.get(command.grant_id) if isinstance(command, TakeUse) else None
    return None if grant is None or grant.expires_ms is None else grant.expires_ms - 1


def _grant(state: ProjectState, command: GrantInProject, now_ms: int) -> tuple[Event, ...]:
    known = state.grants.get(command.grant_id)
    if known is not None:
        if (known.permission, known.pattern) != (command.permission, command.pattern):
            raise InputError(f"the grant id `{command.grant_id}` is taken by another grant", grant_id=command.grant_id)
        return ()
    detail = GrantedDetail(command.pattern, command.reason, salt=command.salt)
    lifetime_ms = _lifetime_ms(command, now_ms)
    return (alike(Granted, command, scope="project", expires_in_ms=lifetime_ms, detail=detail),)


def _lifetime_ms(command: GrantInProject, now_ms: int) -> int | None:
    """Return the lifetime from now on; 0 for a grant that has expired before it is written, and so never counts."""
    if command.expires_at_ms is None:
        return command.expires_in_ms
    left_ms = max(command.expires_at_ms - now_ms, 0)
    return left_ms if command.expires_in_ms is None else min(left_ms, command.expires_in_ms)


def _take(state: ProjectState, command: TakeUse, now_ms: int) -> tuple[Event, ...]:
    grant = state.grants.get(command.grant_id)
    taker = Taker(command.session, command.request_id, (command.claim_id,))
    if grant is None or grant.uses is None or grant.is_held(taker) or not grant.in_force(now_ms):
        return ()
    return (alike(UseTaken, command),)


def _revoke(state: ProjectState, command: RevokeInProject) -> tuple[Event, ...]:
    grant = state.grants.get(command.grant_id)
    if grant is None:
        raise UnknownGrantError(
            f"project `{state.project_id}` has no grant `{command.grant_id}`",
            grant_id=command.grant_id,
            project=state.project_id,
        )
    if grant.revoked_ms is not None:
        return ()
    return (Revoked(grant_id=command.grant_id, detail=ReasonDetail(command.reason) if command.reason else None),)


def evolve_project(state: ProjectState, recorded: Recorded) -> ProjectState:
    """Return the state after one more event; events that do not concern a project only advance the version."""
    event = recorded.event
    grants = state.grants
    if isinstance(event, Granted):
        grants = add_granted(grants, recorded, event, "project")
    elif isinstance(event, Revoked):
        grants = mark_revoked(grants, recorded, event)
    elif isinstance(event, UseTaken):
        use = TakenUse(event.session, event.request_id, event.claim_id, recorded.ms)
        grants = add_uses(grants, (event.grant_id,), use)
    elif isinstance(event, Imported):
        grants = mark_imported(grants)
    elif isinstance(event, Redacted):
        grants = mark_redacted(grants, frozenset(event.versions))
    return replace(
        state,
        version=recorded.version,
        judged_version=state.judged_version if isinstance(event, UseTaken) else recorded.version,
        last_ms=recorded.ms,
        newer=state.newer or isinstance(event, NewerEvent),
        grants=grants,
    )

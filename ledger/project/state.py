"""A project's stream: the grants that all its sessions share. Pure; see `ledger.session` for the terms."""

from __future__ import annotations

from msgspec.structs import replace

from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError, UnknownGrantError
from ledger.core.events import Actor, Event, Granted, GrantedDetail, Imported, ReasonDetail, Revoked, Value
from ledger.core.grants import Grants, Recorded, add_granted, mark_imported, mark_revoked, no_grants
from ledger.core.proofs import Proof


class ProjectState(Value, kw_only=True, frozen=True):
    """The fold of a project's stream. `newer`: it has events that this version cannot read."""

    project_id: str
    version: int = 0
    last_ms: int = 0
    newer: bool = False
    grants: Grants = no_grants()


class GrantInProject(Value, kw_only=True, frozen=True):
    """Make a grant; a known id, also a revoked one, makes no event.

    `event_id` is set for the grant of a reply, so that a repeated one is recognised in the log.
    """

    actor: Actor
    event_id: str | None = None
    grant_id: str
    permission: str
    pattern: str
    expires_in_ms: int | None = None
    session: str | None = None
    request_id: str | None = None
    reason: str | None = None
    proof: Proof | None = None


class RevokeInProject(Value, kw_only=True, frozen=True):
    actor: Actor
    grant_id: str
    reason: str | None = None


ProjectCommand = GrantInProject | RevokeInProject


def decide_project(state: ProjectState, command: ProjectCommand) -> tuple[Event, ...]:
    """Return the events of a command; none when there is nothing to do. Raises UnknownGrantError."""
    if state.newer:
        raise NewerSchemaError(
            f"project `{state.project_id}` holds events of a newer version; upgrade this worker",
            project=state.project_id,
        )
    if isinstance(command, GrantInProject):
        return _grant(state, command)
    return _revoke(state, command)


def _grant(state: ProjectState, command: GrantInProject) -> tuple[Event, ...]:
    known = state.grants.get(command.grant_id)
    if known is not None:
        if (known.permission, known.pattern) != (command.permission, command.pattern):
            raise InputError(f"the grant id `{command.grant_id}` is taken by another grant", grant_id=command.grant_id)
        return ()
    granted = Granted(
        grant_id=command.grant_id,
        permission=command.permission,
        scope="project",
        expires_in_ms=command.expires_in_ms,
        session=command.session,
        request_id=command.request_id,
        proof=command.proof,
        detail=GrantedDetail(command.pattern, command.reason),
    )
    return (granted,)


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
        grants = add_granted(grants, recorded, event)
    elif isinstance(event, Revoked):
        grants = mark_revoked(grants, recorded, event)
    elif isinstance(event, Imported):
        grants = mark_imported(grants)
    return replace(
        state,
        version=recorded.version,
        last_ms=recorded.ms,
        newer=state.newer or isinstance(event, NewerEvent),
        grants=grants,
    )

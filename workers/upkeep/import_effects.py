"""The effect of an import on permissions: grants it would bring in force, and people's answers it brings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ledger import Ledger
from ledger.client.results import Approved
from ledger.core import codec
from ledger.core.commitments import after_entry
from ledger.core.errors import InputError
from ledger.core.events import Actor, GrantBounds, Imported
from ledger.core.grants import StandingGrant, in_force
from ledger.core.ids import new_event_id, new_salt
from ledger.log.tail import fold_entries, nothing_folded
from ledger.log.verify import head_of
from ledger.project import ProjectState
from ledger.session.state import SessionState, Settled
from ledger.stores.port import Entry, StreamKey

State = SessionState | ProjectState

NAMED_MAX: Final = 10
"""The number of grants that a refusal names; a dry run lists them all."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one stream's entries that are not on the server yet."""

    key: StreamKey
    entries: int
    added: int
    grants: list[Approved]
    answers: int
    """The number of people's replies among them that allowed something."""
    made_by_replies: dict[str, Approved]
    """Grants of the project that its replies made, by id: a projector writes those that the project lacks."""
    known_grants: frozenset[str]
    """Of a project: the ids of all its grants, revoked ones too."""


def arrival_of(key: StreamKey, entries: list[Entry], there: int, now_ms: int) -> Arrival:
    """Fold a stream of a file whose first `there` entries are on the server. Raises DamageError."""
    if not key.has_calls:
        return _without_effect(key, entries, there)
    before, after = _folded(key, entries, there)
    known = {grant.grant_id for grant in in_force(before.grants, now_ms)}
    grants = [one for one in in_force(after.grants, now_ms) if one.grant_id not in known]
    replies = _replies_since(before, after)
    return Arrival(
        key=key,
        entries=len(entries),
        added=len(entries) - there,
        grants=[_approved(key, after, one) for one in grants],
        answers=sum(one.reply is not None and one.outcome == "allowed" for one in replies),
        made_by_replies={
            one.grant.grant_id: one
            for settled in replies
            for one in _made_by(after, settled)
            if one.grant.in_force(now_ms)
        },
        known_grants=frozenset(after.grants) if key.kind == "project" else frozenset(),
    )


def _without_effect(key: StreamKey, entries: list[Entry], there: int) -> Arrival:
    """Return the arrival of a stream without grants and answers: rules allow nothing until a session names them."""
    return Arrival(
        key=key,
        entries=len(entries),
        added=len(entries) - there,
        grants=[],
        answers=0,
        made_by_replies={},
        known_grants=frozenset(),
    )


async def in_force_by(ledger: Ledger, arrivals: Iterable[Arrival]) -> list[Approved]:
    """Return the grants that would be in force after an import and are not now, in the order of their making."""
    arrivals = list(arrivals)
    found = [one for arrival in arrivals for one in arrival.grants]
    in_file = {arrival.key.id: arrival.known_grants for arrival in arrivals if arrival.key.kind == "project"}
    for arrival in arrivals:
        for grant_id, made in arrival.made_by_replies.items():
            project = made.project or ""
            here = (await ledger.streams.project(project).refresh()).grants
            if grant_id not in here and grant_id not in in_file.get(project, frozenset()):
                found.append(made)
    return sorted(found, key=lambda one: (one.grant.at_ms, one.grant.grant_id))


def refusal(file: str, found: list[Approved]) -> InputError:
    """Return the error for an import that would bring grants in force unasked."""
    named = ", ".join(_told(one) for one in found[:NAMED_MAX])
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    count = "1 grant" if len(found) == 1 else f"{len(found)} grants"
    return InputError(
        f"`{file}` would bring {count} in force, so nothing was imported: {named}{more}",
        hint="`--dry-run` lists what would be in force; `--with-grants` imports it",
        grants=[one.as_json() for one in found],
    )


def mark(entries: list[Entry], actor: Actor, in_force_count: int, now_ms: int) -> Entry:
    """Return the entry that follows an imported stream and marks it as imported."""
    last = entries[-1]
    event = Imported(versions=last.version, hash=head_of(last).hash, in_force_count=in_force_count)
    prev = after_entry(last.ms, last.version, last.payload)
    fields = codec.encode(event, event_id=new_event_id(), prev=prev, actor=actor, salt=new_salt())
    return Entry(max(now_ms, last.ms), last.version + 1, *fields)


def _folded(key: StreamKey, entries: list[Entry], there: int) -> tuple[State, State]:
    """Return the state after the first `there` entries, and after all."""
    before = fold_entries(key, nothing_folded(key), entries[:there])
    return before.state, fold_entries(key, before, entries[there:]).state


def _replies_since(before: State, after: State) -> list[Settled]:
    if not isinstance(after, SessionState):
        return []
    return [one for one in after.settled.values() if one.version > before.version]


def _made_by(state: State, settled: Settled) -> list[Approved]:
    if not isinstance(state, SessionState) or state.project is None or not settled.granted_to_project:
        return []
    bounds = settled.bounds or GrantBounds()
    return [
        Approved(
            grant=StandingGrant(
                grant_id=grant_id,
                permission=settled.request.permission,
                pattern=pattern,
                scope="project",
                by=settled.by,
                at_ms=settled.at_ms,
                version=settled.version,
                expires_ms=None if bounds.expires_in_ms is None else settled.at_ms + bounds.expires_in_ms,
                uses=bounds.uses,
                wider=grant_id in settled.wider,
                session=state.session_id,
                request_id=settled.request.request_id,
            ),
            session=state.session_id,
            project=state.project,
        )
        for grant_id, pattern in zip(settled.grants, settled.granted_patterns, strict=False)
    ]


def _approved(key: StreamKey, state: State, grant: StandingGrant) -> Approved:
    if isinstance(state, SessionState):
        return Approved(grant=grant, session=key.id, project=state.project)
    return Approved(grant=grant, session=grant.session, project=key.id)


def _told(one: Approved) -> str:
    place = f"project `{one.project}`" if one.grant.scope == "project" else f"session `{one.session}`"
    return f"{one.grant.permission} `{one.grant.pattern}` in {place} by {one.grant.by.name}"

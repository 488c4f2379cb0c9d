"""The fold of `Granted` and `Revoked`, for sessions' and projects' streams alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.codec import NewerEvent
from ledger.core.events import Actor, Event, Granted, Revoked, Scope, Value
from ledger.core.policy import Grant
from ledger.core.proofs import Proof


class Recorded(NamedTuple):
    """An event as stored in the log, with its author, time (server ms) and version."""

    event: Event | NewerEvent
    actor: Actor
    ms: int
    version: int
    event_id: str


class StandingGrant(Value, kw_only=True, frozen=True):
    """A grant in state. `expires_ms` and `revoked_ms` are server times; None means never and not revoked."""

    grant_id: str
    permission: str
    pattern: str
    scope: Scope
    by: Actor
    at_ms: int
    version: int
    expires_ms: int | None = None
    revoked_ms: int | None = None
    session: str | None = None
    request_id: str | None = None
    reason: str | None = None
    imported: bool = False
    proof: Proof | None = None
    """The proof of a passkey's signature on the answer that made the grant."""

    def in_force(self, now_ms: int) -> bool:
        return self.revoked_ms is None and (self.expires_ms is None or now_ms < self.expires_ms)

    def as_policy_grant(self) -> Grant:
        return Grant(self.grant_id, self.permission, self.pattern, self.scope)


Grants: TypeAlias = "HashTrieMap[str, StandingGrant]"


def no_grants() -> Grants:
    return HashTrieMap()


def add_granted(grants: Grants, recorded: Recorded, event: Granted) -> Grants:
    """Fold a `Granted`; a known id is unchanged, so that a repeated event never revives a revoked grant."""
    if event.grant_id in grants:
        return grants
    expires_ms = None if event.expires_in_ms is None else recorded.ms + event.expires_in_ms
    return grants.insert(
        event.grant_id,
        StandingGrant(
            grant_id=event.grant_id,
            permission=event.permission,
            pattern=event.detail.pattern if event.detail else "",
            scope=event.scope,
            by=recorded.actor,
            at_ms=recorded.ms,
            version=recorded.version,
            expires_ms=expires_ms,
            session=event.session,
            request_id=event.request_id,
            reason=event.detail.reason if event.detail else None,
            proof=event.proof,
        ),
    )


def mark_revoked(grants: Grants, recorded: Recorded, event: Revoked) -> Grants:
    grant = grants.get(event.grant_id)
    if grant is None or grant.revoked_ms is not None:
        return grants
    return grants.insert(event.grant_id, replace(grant, revoked_ms=recorded.ms))


def mark_imported(grants: Grants) -> Grants:
    """Fold an `Imported`, which marks every earlier grant as imported."""
    for grant in list(grants.values()):
        grants = grants.insert(grant.grant_id, replace(grant, imported=True))
    return grants


def in_force(grants: Grants, now_ms: int) -> Iterator[StandingGrant]:
    """Iterate over the grants in force at a server time (ms), in order of creation."""
    live = [grant for grant in grants.values() if grant.in_force(now_ms)]
    live.sort(key=lambda grant: (grant.version, grant.grant_id))
    return iter(live)


def earliest_expiry(grants: Iterable[StandingGrant]) -> int | None:
    """Return the earliest expiry (server ms) of these grants, or None."""
    return min((grant.expires_ms for grant in grants if grant.expires_ms is not None), default=None)


def derived_grant_id(session: str, request_id: str, index: int) -> str:
    """Return the id of a grant made by the winning reply to a request; deterministic, so that writing is idempotent."""
    return "grn_" + sha256(f"{session}\n{request_id}\n{index}".encode()).hexdigest()[:26]


def derived_event_id(grant_id: str) -> str:
    """Return the event id of a reply's `Granted` in a project's stream, by which a repeated one is recognised."""
    return "evt_" + sha256(f"granted\n{grant_id}".encode()).hexdigest()[:32]

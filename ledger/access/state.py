"""The stream of access tokens of the gateway. Pure; see `ledger.session` for the terms.

One stream for a deployment. It has only the SHA-256 of a token's secret. A token's rights are fixed at its creation: to
change them, create another one and revoke this.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.access_events import Role, TokenUse
from ledger.core.characters import person_key
from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError, UnknownTokenError
from ledger.core.event_shapes import alike
from ledger.core.events import (
    Actor,
    Event,
    LinkKeyReplaced,
    ReasonDetail,
    TokenCreated,
    TokenRedeemed,
    TokenRevoked,
    Value,
)
from ledger.core.grants import Recorded

ACCESS_ID = "tokens"
"""The id of the stream."""


class Token(Value, kw_only=True, frozen=True):
    """A token in state. `expires_ms`, `revoked_ms` and `redeemed_ms` are server times; None means never and not.

    `claimed` is the project to which its first session in one bound an agent's token. `owner` is the person for whom it
    acts. `made_by` is the person who made it at a gateway under the name of another, None for the person's own.
    """

    token_id: str
    name: str
    role: Role
    digest: str
    use: TokenUse
    projects: tuple[str, ...]
    sessions: tuple[str, ...]
    brings_rules: bool
    by: Actor
    at_ms: int
    expires_ms: int | None = None
    made_from: str | None = None
    proof_digest: str | None = None
    revoked_ms: int | None = None
    redeemed_ms: int | None = None
    owner: str = ""
    everything: bool = False
    any_project: bool = False
    folders: tuple[str, ...] = ()
    claimed: str | None = None
    made_by: str | None = None

    @property
    def is_narrow(self) -> bool:
        """Return whether it only reaches the sessions that were opened with it."""
        return self.role == "agent" and not self.everything

    @property
    def claims_one(self) -> bool:
        """Return whether it is bound to the first project in which it opens a session."""
        return self.is_narrow and not self.any_project and not self.projects

    @property
    def root_id(self) -> str:
        """Return its own id, or for a browser token the id of the token it was made from."""
        return self.made_from or self.token_id

    def in_force(self, now_ms: int) -> bool:
        over = self.expires_ms is not None and now_ms >= self.expires_ms
        return self.revoked_ms is None and self.redeemed_ms is None and not over


TokensById: TypeAlias = "HashTrieMap[str, Token]"


class AccessState(Value, kw_only=True, frozen=True):
    """The fold of the access stream. `newer`: it has events that this version cannot read."""

    access_id: str = ACCESS_ID
    version: int = 0
    last_ms: int = 0
    newer: bool = False
    tokens: TokensById = HashTrieMap()
    links_replaced_ms: int | None = None
    """The server time (ms) at which the key of answer links was last replaced."""

    def token(self, token_id: str, now_ms: int) -> Token | None:
        """Return a token if it and the token it was made from are in force at a server time (ms)."""
        token = self.tokens.get(token_id)
        if token is None or not token.in_force(now_ms):
            return None
        if token.made_from is not None:
            root = self.tokens.get(token.made_from)
            # A sign-in token ends with its redemption; any other token ends its browser tokens with it.
            if root is None or root.revoked_ms is not None or (root.use == "bearer" and not root.in_force(now_ms)):
                return None
        return token


class CreateToken(Value, kw_only=True, frozen=True):
    """Create a token, idempotent for the same id and secret. `redeems` is the sign-in token that it redeems."""

    actor: Actor
    token_id: str
    name: str
    role: Role
    digest: str
    use: TokenUse = "bearer"
    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    brings_rules: bool = False
    expires_in_ms: int | None = None
    made_from: str | None = None
    redeems: str | None = None
    proof_digest: str | None = None
    owner: str | None = None
    everything: bool = False
    any_project: bool = False
    folders: tuple[str, ...] = ()


class ClaimProject(Value, kw_only=True, frozen=True):
    """Bind an agent's token to the project of its first session; a bound token is unchanged."""

    actor: Actor
    token_id: str
    project: str


class RevokeToken(Value, kw_only=True, frozen=True):
    actor: Actor
    token_id: str
    reason: str | None = None


class NoteLinkKey(Value, kw_only=True, frozen=True):
    """Record that the key of answer links was replaced."""

    actor: Actor
    reason: str | None = None


AccessCommand = CreateToken | ClaimProject | RevokeToken | NoteLinkKey


def decide_access(state: AccessState, command: AccessCommand, now_ms: int) -> tuple[Event, ...]:
    """Return the events of a command; none when there is nothing to do.

    Raises UnknownTokenError (also for a redeemed sign-in token), InputError for an id that is taken.
    """
    if state.newer:
        raise NewerSchemaError("the access stream holds events of a newer version; upgrade this worker")
    if isinstance(command, RevokeToken):
        return _revoke(state, command)
    if isinstance(command, NoteLinkKey):
        return (LinkKeyReplaced(detail=_reason(command.reason)),)
    if isinstance(command, ClaimProject):
        return _claim(state, command)
    known = state.tokens.get(command.token_id)
    if known is not None:
        if known.digest != command.digest:
            raise InputError(f"the token id `{command.token_id}` is taken", token_id=command.token_id)
        return ()
    created = alike(TokenCreated, command)
    if command.redeems is None:
        return (created,)
    if state.token(command.redeems, now_ms) is None:
        raise UnknownTokenError("this sign-in link was used, was revoked or has expired; ask for a new one")
    return (TokenRedeemed(token_id=command.redeems), created)


def _claim(state: AccessState, command: ClaimProject) -> tuple[Event, ...]:
    token = _known(state, command.token_id)
    if token.claimed is not None or not token.claims_one:
        return ()
    # A second `token_created` of the same id, which has the claim alone.
    again = TokenCreated(
        token_id=token.token_id, name=token.name, role=token.role, digest=token.digest, claims=command.project
    )
    return (again,)


def _known(state: AccessState, token_id: str) -> Token:
    token = state.tokens.get(token_id)
    if token is None:
        raise UnknownTokenError(f"there is no token with the id `{token_id}`", token_id=token_id)
    return token


def _revoke(state: AccessState, command: RevokeToken) -> tuple[Event, ...]:
    token = _known(state, command.token_id)
    if token.revoked_ms is not None:
        return ()
    return (TokenRevoked(token_id=command.token_id, detail=_reason(command.reason)),)


def _reason(text: str | None) -> ReasonDetail | None:
    return ReasonDetail(text) if text else None


def evolve_access(state: AccessState, recorded: Recorded) -> AccessState:
    """Return the state after one more event; events that do not concern tokens only advance the version."""
    event, tokens = recorded.event, state.tokens
    if isinstance(event, TokenCreated):
        tokens = _with_created(tokens, recorded, event)
    elif isinstance(event, TokenRedeemed) and event.token_id in tokens:
        tokens = tokens.insert(event.token_id, replace(tokens[event.token_id], redeemed_ms=recorded.ms))
    elif isinstance(event, TokenRevoked) and event.token_id in tokens:
        tokens = tokens.insert(event.token_id, replace(tokens[event.token_id], revoked_ms=recorded.ms))
    return replace(
        state,
        version=recorded.version,
        last_ms=recorded.ms,
        newer=state.newer or isinstance(event, NewerEvent),
        tokens=tokens,
        links_replaced_ms=recorded.ms if isinstance(event, LinkKeyReplaced) else state.links_replaced_ms,
    )


def _with_created(tokens: TokensById, recorded: Recorded, event: TokenCreated) -> TokensById:
    known = tokens.get(event.token_id)
    if known is not None:
        is_first_claim = event.claims is not None and known.claimed is None
        return tokens.insert(event.token_id, replace(known, claimed=event.claims)) if is_first_claim else tokens
    token = alike(
        Token,
        event,
        by=recorded.actor,
        at_ms=recorded.ms,
        expires_ms=None if event.expires_in_ms is None else recorded.ms + event.expires_in_ms,
        owner=event.owner or (recorded.actor.name if event.role == "agent" else event.name),
    )
    return tokens.insert(event.token_id, replace(token, made_by=_made_by(tokens, recorded.actor, token)))


def _made_by(tokens: TokensById, maker: Actor, token: Token) -> str | None:
    """Return who made a token under the name of another: who has the text of a token may be its maker.

    A browser's token is its root's. On the ledger's own machine, and after a provider's sign-in, no token makes it.
    """
    root = None if token.made_from is None else tokens.get(token.made_from)
    if root is not None:
        return root.made_by
    person = token.owner if token.role == "agent" else token.name
    if maker.token_id is None or person_key(maker.person) == person_key(person):
        return None
    return maker.person


def is_taken(state: AccessState, name: str, maker: Actor) -> bool:
    """Return whether a name is that of another person: somebody else has, or had, a token under it."""
    wanted, own = person_key(name), person_key(maker.person)
    return wanted != own and any(
        one.role != "agent" and person_key(one.name) == wanted and person_key(one.made_by or one.name) != own
        for one in state.tokens.values()
    )

"""Comparison of grants and tokens with the events that made them.

The chain of hashes shows that nobody changed a grant, and does not show that a person gave it. A grant names the request
whose answer made it. The author of an event names the token that was used. Grants and tokens that were made by a command
on the ledger's own machine, after a provider's sign-in, or by an import name neither, and are counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ledger.access.state import ACCESS_ID, AccessState, Token, evolve_access
from ledger.client.passkeys.audit import readable
from ledger.core.durations import MINUTE_MS
from ledger.core.events import Actor, Granted, Imported, Replied, TokenCreated
from ledger.core.grants import Recorded
from ledger.log.glances import may_spell_otherwise
from ledger.log.people import ANSWERING
from ledger.log.verify import Problem
from ledger.stores.port import Entry, StreamKey

TOKENS: Final = StreamKey("access", ACCESS_ID)

LATE_MS: Final = MINUTE_MS
"""The time after the end of a token in which a gateway may write what it had let in before."""

_GRANTED: Final = b'"granted"'
_REPLIED: Final = b'"replied"'


class Backing(NamedTuple):
    """Grants and tokens that nothing stands behind although they name it, and the number of those that name nothing."""

    problems: Sequence[Problem] = ()
    unnamed_count: int = 0


NOTHING: Final = Backing()


class Makers:
    """Reads what stands behind the grants and the tokens of a store's streams. The tokens are read once.

    What cannot be read is a problem of its own stream, and none here.
    """

    def __init__(self, read: Callable[[StreamKey], Awaitable[Sequence[Entry] | None]]) -> None:
        """`read` returns the entries of a stream in the ledger's own form; None where they cannot be read."""
        self._read = read
        self._tokens: AccessState | None = None

    async def of(self, key: StreamKey, entries: Sequence[Entry]) -> Backing:
        """Return what stands behind the grants or tokens in a stream. Raises StoreError."""
        if key == TOKENS:
            return _behind_tokens(readable(entries))
        if key.kind not in ("session", "project"):
            return NOTHING
        granted = [entry for entry in entries if _may_be(entry, _GRANTED)]
        if not granted:
            return NOTHING
        imported = max((one.event.versions for one in readable(entries) if isinstance(one.event, Imported)), default=0)
        problems, unnamed_count, answers = [], 0, dict[str, _Answers]()
        for one in readable(granted):
            event = one.event
            if not isinstance(event, Granted):
                continue
            if one.version <= imported or not (event.request_id or one.actor.token_id):
                unnamed_count += 1
            elif (why := await self._why_nobody(one, event, answers)) is not None:
                problems.append(
                    Problem(one.version, "unbacked", f"version {one.version}: grant `{event.grant_id}` {why}")
                )
        return Backing(problems, unnamed_count)

    async def _why_nobody(self, one: Recorded, event: Granted, answers: dict[str, _Answers]) -> str | None:
        if event.request_id is None:
            tokens = await self._tokens_read()
            return None if tokens is None else _why_not_in_force(tokens, one, ANSWERING)
        session = event.session or ""
        if session not in answers:
            answers[session] = await self._answers_in(session)
        known = answers[session]
        if known is None or (event.request_id, one.actor.name, event.grant_id) in known:
            return None
        return f"names request `{event.request_id}` of session `{session}`, which has no answer of `{one.actor.name}` that made it"

    async def _answers_in(self, session: str) -> _Answers:
        """Return the grants that the answers of a session name; None where it cannot be read."""
        entries = await self._read(StreamKey("session", session)) if session else ()
        if entries is None:
            return None
        return {
            (one.event.request_id, one.actor.name, grant_id)
            for one in readable(entry for entry in entries if _may_be(entry, _REPLIED))
            if isinstance(one.event, Replied)
            for grant_id in one.event.grants
        }

    async def _tokens_read(self) -> AccessState | None:
        if self._tokens is None:
            entries = await self._read(TOKENS)
            if entries is None:
                return None
            self._tokens = AccessState()
            for one in readable(entries):
                self._tokens = evolve_access(self._tokens, one)
        return self._tokens


_Answers = set[tuple[str, str, str]] | None


def _behind_tokens(recorded: Iterable[Recorded]) -> Backing:
    state, problems, unnamed_count = AccessState(), [], 0
    for one in recorded:
        before, event = state, one.event
        state = evolve_access(state, one)
        if not isinstance(event, TokenCreated) or event.token_id in before.tokens:
            continue
        token = state.tokens[event.token_id]
        if token.made_from is None and one.actor.token_id is None:
            unnamed_count += 1
        elif (why := _why_nobody_made(before, one, token)) is not None:
            problems.append(Problem(one.version, "unbacked", f"version {one.version}: token `{token.token_id}` {why}"))
    return Backing(problems, unnamed_count)


def _why_nobody_made(state: AccessState, one: Recorded, token: Token) -> str | None:
    if token.made_from is not None:
        root = state.tokens.get(token.made_from)
        if root is None:
            return f"is made from token `{token.made_from}`, which there was not"
        own, its = ((it.name, it.role, it.projects, it.sessions) for it in (token, root))
        return (
            None
            if own == its and not token.brings_rules
            else f"has other rights than `{root.token_id}`, of which it is made"
        )
    why = _why_not_in_force(state, one, ("admin",))
    maker = state.tokens.get(one.actor.token_id or "")
    if why is not None or maker is None:
        return why
    is_within = _is_within(token.projects, maker.projects) and _is_within(token.sessions, maker.sessions)
    return None if is_within else f"reaches further than token `{maker.token_id}`, with which it was made"


def _why_not_in_force(state: AccessState, one: Recorded, roles: Iterable[str]) -> str | None:
    """Return why the token of an event's author is not one of these roles that was in force then."""
    actor: Actor = one.actor
    token = state.tokens.get(actor.token_id or "")
    if token is None or token.at_ms > one.ms:
        return f"was made with token `{actor.token_id}`, which there was not"
    if token.name != actor.name or token.role not in roles:
        return f"was made by `{actor.name}` with token `{token.token_id}`, which is one of `{token.name}` with role {token.role}"
    ends = (one for one in (token.expires_ms, token.revoked_ms, token.redeemed_ms) if one is not None)
    if min(ends, default=one.ms) < one.ms - LATE_MS:
        return f"was made with token `{token.token_id}`, which had ended"
    return None


def _may_be(entry: Entry, type_of_event: bytes) -> bool:
    return type_of_event in entry.payload or may_spell_otherwise(entry.payload)


def _is_within(wanted: Sequence[str], own: Sequence[str]) -> bool:
    return not own or (bool(wanted) and set(wanted) <= set(own))

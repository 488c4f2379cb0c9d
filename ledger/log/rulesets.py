"""The rulesets of a ledger. Each is stored once, in a stream of its own, before the first session that names it.

A session's events hold the digest of its rules. The digest commits to the rules, so that a process may keep them: they
cannot become others. What is missing or damaged is never guessed: nothing is judged then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from ledger.core.errors import DamageError, RulesUnreadableError
from ledger.core.events import Actor
from ledger.core.policy import PolicySource
from ledger.log.stream import Stream
from ledger.log.tail import nothing_folded, read_folds
from ledger.policy.stored_rules import RulesState, StoreRules
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.stores.store import Store

StreamOfRules: TypeAlias = Callable[[str], Stream[RulesState]]
"""A getter of the stream of a digest, within the room that a process gives to folds."""


class Rulesets:
    """The rulesets that a process stores and reads, shared by all of its sessions."""

    def __init__(self, stream_of: StreamOfRules) -> None:
        self._stream_of = stream_of

    async def keep(self, source: PolicySource, policy_digest: str, actor: Actor) -> None:
        """Store rules unless they are stored, so that a session may name them; they are on the server afterwards.

        With the replication that `Durability` asks for: an allow may rest on them. Raises RulesUnreadableError,
        StoreError, InDoubtError.
        """
        stream = self._stream_of(policy_digest)
        try:
            done = await stream.submit(StoreRules(actor=actor, source=source))
            await stream.make_safe()
        except DamageError as error:
            raise _unreadable(policy_digest, error.text) from error
        why = done.state.why_unreadable
        if why is not None:
            raise _unreadable(policy_digest, why)
        self._stream_of(policy_digest)

    async def of(self, state: SessionState) -> PolicySource:
        """Return the rules of a session. Raises RulesUnreadableError, StoreError, InDoubtError."""
        if not _names_rules(state):
            return PolicySource()
        return await self.read(state.policy_digest, state.session_id)

    async def read(self, policy_digest: str, session_id: str | None = None) -> PolicySource:
        """Return the rules of a digest, read from the server only if this process has not yet. Errors as of `of`."""
        stream = self._stream_of(policy_digest)
        try:
            # Where they were missing, somebody may have brought them back since.
            is_known = stream.folded and stream.state.source is not None
            state = stream.state if is_known else await stream.refresh()
            if state.source is not None:
                await stream.make_safe()
        except DamageError as error:
            raise _unreadable(policy_digest, error.text, session_id) from error
        if state.source is None or state.newer:
            raise _unreadable(policy_digest, str(state.why_unreadable), session_id)
        if not is_known:
            # Counted anew within the room for folds, now that it holds the rules.
            self._stream_of(policy_digest)
        return state.source


class RecordedRules:
    """The rules of a session's past states, by what is on the server; those of the last digest are kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: tuple[str, PolicySource | None] = ("", None)

    async def of(self, state: SessionState) -> PolicySource | None:
        """Return the rules of a state; None where they are redacted, missing or damaged. Raises StoreError."""
        if not _names_rules(state):
            return None
        if self._last[0] != state.policy_digest:
            source = None
            with suppress(DamageError):
                source = (await read_ruleset(self._store, state.policy_digest)).source
            self._last = (state.policy_digest, source)
        return self._last[1]


def _names_rules(state: SessionState) -> bool:
    """Return whether the stream of a session's rules is known."""
    return bool(state.policy_digest) and not state.rules_redacted


async def read_ruleset(store: Store, policy_digest: str) -> RulesState:
    """Return the fold of a ruleset's stream as it is on the server. Raises StoreError, DamageError."""
    key = StreamKey("policy", policy_digest)
    begin = nothing_folded(key)
    state: RulesState = begin.state
    async for _, folded in read_folds(store, key, begin):
        state = folded.state
    return state


def _unreadable(policy_digest: str, why: str, session_id: str | None = None) -> RulesUnreadableError:
    whose = f"the rules of session `{session_id}`" if session_id else "these rules"
    return RulesUnreadableError(
        f"{whose} cannot be read, so nothing is allowed by them: stream `policy:{policy_digest}`: {why}",
        stream=f"policy:{policy_digest}",
        **({} if session_id is None else {"session": session_id}),
    )

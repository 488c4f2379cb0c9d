"""The stream of one ruleset, named by the digest of its rules. Pure; see `ledger.session` for the terms.

Its first event holds the rules, and nothing changes them: other rules have another digest, and so another stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ledger.core.codec import NewerEvent
from ledger.core.events import Actor, Event, RulesDetail, RulesStored, Value
from ledger.core.policy import PolicySource
from ledger.policy.digests import digest

if TYPE_CHECKING:
    from ledger.core.grants import Recorded


class RulesState(Value, kw_only=True, frozen=True):
    """The fold of a ruleset's stream. `source` is None unless the stream holds the rules that its id is the digest of."""

    policy_digest: str
    version: int = 0
    newer: bool = False
    source: PolicySource | None = None

    @property
    def why_unreadable(self) -> str | None:
        """Return why nothing can be judged by the rules; None if they are there."""
        if self.newer:
            return "it holds events of a newer version; upgrade this worker"
        if self.source is None:
            return "it holds other rules than those of its digest" if self.version else "there is no such stream"
        return None


class StoreRules(Value, kw_only=True, frozen=True):
    """Store a ruleset; one that is stored already makes no event."""

    actor: Actor
    source: PolicySource


def decide_rules(state: RulesState, command: StoreRules) -> tuple[Event, ...]:
    """Return the event that begins the stream; none where it was begun."""
    if state.version:
        return ()
    return (RulesStored(dialect=command.source.dialect, detail=RulesDetail(policy=command.source)),)


def evolve_rules(state: RulesState, recorded: Recorded) -> RulesState:
    event = recorded.event
    state = replace(state, version=recorded.version)
    if isinstance(event, NewerEvent):
        return replace(state, newer=True)
    if recorded.version == 1 and isinstance(event, RulesStored) and event.detail is not None:
        source = event.detail.policy
        return replace(state, source=source) if digest(source) == state.policy_digest else state
    return state

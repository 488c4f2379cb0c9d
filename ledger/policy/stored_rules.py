"""The rules of a session as a value: their digest, the folder and home by which they judge, and the stream of one ruleset. Pure.

The first event of that stream holds the rules, and nothing changes them: other rules have another digest, and so another
stream. Nothing here needs a dialect.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ledger.core.codec import NewerEvent
from ledger.core.events import Actor, Event, RulesDetail, RulesStored, Value
from ledger.core.policy import PolicySource

if TYPE_CHECKING:
    from ledger.core.grants import Recorded


def digest(source: PolicySource) -> str:
    """Return the lower-case hex SHA-256 of a source, which is equal after a round trip through the log.

    Options are sorted by name. The keys of a configuration are not: their order decides which rule is the last match,
    so two files that differ only in that order are different policies.
    """
    plain = {**msgspec.to_builtins(source), "options": dict(sorted(source.options.items()))}
    return sha256(json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


def placed(source: PolicySource, *, cwd: str | None, home: str | None) -> PolicySource:
    """Return the source with the session's folder and home as options, unless its own options name others.

    A session that works in `/` has no project: every path would be inside it. A home in the project is left out, since
    `~` would then resolve inside the project for every file.
    """
    known = source.options
    if cwd is not None and cwd.rstrip("/") == "":
        cwd = None
    folder = known.get("cwd", cwd)
    if isinstance(folder, str) and home is not None and _is_in(home, folder):
        home = None
    found = {name: value for name, value in (("cwd", cwd), ("home", home)) if value is not None and name not in known}
    return replace(source, options={**known, **found}) if found else source


def _is_in(path: str, folder: str) -> bool:
    base = folder.rstrip("/")
    return path.rstrip("/") == base or path.startswith(f"{base}/")


def home_of(source: PolicySource) -> str | None:
    """Return the home directory by which a placed source judges; None while it is unknown."""
    home = source.options.get("home")
    return home if isinstance(home, str) else None


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

"""A freeze: while it is in force, nothing is allowed and nothing is claimed within its reach. Pure.

Also the events that let a call run: those that a freeze stops, and those that need confirmed replication (`Durability`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from ledger.core.codec import NewerEvent
from ledger.core.errors import FrozenError
from ledger.core.events import (
    Agreed,
    Asked,
    Claimed,
    Event,
    Frozen,
    Granted,
    HoldLifted,
    HoldPlaced,
    Reopened,
    Replied,
    Revoked,
    ToolFinished,
    Unfrozen,
    UseTaken,
    Value,
)
from ledger.core.policy import Verdict
from ledger.core.times import format_time

FREEZE: Final = "a freeze"
"""The decider of the opinion that holds a request back. No plugin may have this name."""

EVERYTHING: Final = "all"
"""The name of the reach of a freeze of the whole ledger. Also in `ledger/stores/redis/append.lua`."""

_PROJECT: Final = "p:"


class Freeze(Value, kw_only=True, frozen=True):
    """A freeze in force. `project` None is the whole ledger; `by` is who froze it, `at_ms` when (server time)."""

    by: str
    at_ms: int
    project: str | None = None
    reason: str | None = None

    @property
    def reach(self) -> str:
        """Return the name of its reach, under which the flags hold it."""
        return EVERYTHING if self.project is None else reach_of(self.project)

    @property
    def place(self) -> str:
        """Return its reach in words."""
        return "the ledger" if self.project is None else f"project `{self.project}`"

    @property
    def sentence(self) -> str:
        """Return who froze what, when and why."""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.place} was frozen by {self.by} at {format_time(self.at_ms)}{why}"

    def encoded(self) -> bytes:
        """Return the freeze as the flags hold it."""
        return _encoder.encode(self)

    def as_json(self) -> dict[str, Any]:
        """Return one JSON object, for people and programs."""
        return {"project": self.project, "by": self.by, "at": format_time(self.at_ms), "reason": self.reason}

    def error(self, **about: Any) -> FrozenError:
        """Return the refusal of what would allow or claim something; `about` adds members to its data."""
        return FrozenError(
            f"nothing is allowed now: {self.sentence}",
            **about,
            agent="stop",
            by=self.by,
            at_ms=self.at_ms,
            reason=self.reason,
            project=self.project,
            reasons=[self.as_json()],
        )


_encoder: Final = msgspec.json.Encoder()
_freezes: Final = msgspec.json.Decoder(Freeze)


def reach_of(project: str | None) -> str:
    """Return the name of a project's reach; for None a name that no freeze has."""
    return f"{_PROJECT}{project or ''}"


def decode_freeze(text: bytes) -> Freeze:
    """Return a freeze from a flag; one that cannot be read is a freeze of the whole ledger."""
    try:
        return _freezes.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Freeze(by="unknown", at_ms=0, reason="the flag cannot be read")


def any_binding(events: Iterable[Event]) -> bool:
    """Return whether an event lets a tool call run, now or later, or ends such a permission.

    Losing a reject or an expiry in a failover is harmless: the request is pending again, and nothing was allowed.
    Losing a revoke or a use is not: the grant would allow more than it should. Nor is losing a claim or the end of its run: the call
    could be claimed again. Nor is losing a freeze, or a legal hold: what it keeps could be redacted.
    """
    return any(_is_binding(event) for event in events)


def _is_binding(event: Event) -> bool:
    match event:
        case Granted() | Revoked() | Claimed() | UseTaken():
            return True
        case Frozen() | Unfrozen() | HoldPlaced() | HoldLifted():
            return True
        case ToolFinished():
            return event.claim_id is not None
        case Replied():
            return event.outcome == "allowed"
        case Asked() | Reopened():
            return event.verdict is Verdict.ALLOW
        case _:
            return False


def any_allowing(events: Iterable[Event | NewerEvent]) -> bool:
    """Return whether an event allows a call, now or later, or claims one."""
    for event in events:
        allows = _ALLOWS.get(type(event))
        if allows is not None and allows(event):
            return True
    return False


_ALLOWS: Final[Mapping[type, Callable[[Any], bool]]] = {
    Agreed: lambda _: True,
    Asked: lambda event: event.verdict is Verdict.ALLOW,
    Claimed: lambda _: True,
    Reopened: lambda event: event.verdict is Verdict.ALLOW,
    Replied: lambda event: event.outcome == "allowed" or bool(event.grants),
    # That of an answer in its project's stream was allowed by the answer.
    Granted: lambda event: event.scope == "session" or event.request_id is None,
}

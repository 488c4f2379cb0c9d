"""The protocol of a projection: a pure function from an event of a stream to changes of a view's data.

What depends on the state alone and not on each event, as the summary of a session, is made once for a run of events.

A view is stored in the partition of its stream, so that its changes and the stream's checkpoint are one atomic step.
The same history always gives the same bytes: JSON has sorted keys, and the only inputs are the event and the fold, no
clock and no configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from ledger.access.state import AccessState
from ledger.core.codec import canonical_json
from ledger.core.grants import Recorded
from ledger.policy.stored_rules import RulesState
from ledger.project import ProjectState
from ledger.session.state import SessionState, Settled
from ledger.stores.port import StreamKey, ViewWrite

DecisionLabel = Literal["auto_allow", "auto_deny", "user_allow", "user_deny", "timeout", "cancelled"]

DECISIONS: Final[tuple[DecisionLabel, ...]] = (
    "auto_allow",
    "auto_deny",
    "user_allow",
    "user_deny",
    "timeout",
    "cancelled",
)
"""The values of the label `decision` of CONTRACT's metric."""


def decision_of(settled: Settled) -> DecisionLabel:
    """Return the decision label: by rules (auto), by a person (user, cascades included), or by timeout."""
    match settled.outcome:
        case "allowed":
            return "auto_allow" if settled.reply is None or _by_rules(settled) else "user_allow"
        case "denied":
            return "auto_deny"
        case "rejected" | "corrected":
            return "user_deny"
        case "expired":
            return "timeout"
        case "cancelled":
            return "cancelled"


def _by_rules(settled: Settled) -> bool:
    """Return whether the end of a freeze let a request go, which rules or grants allowed."""
    return settled.cause is not None and settled.cause.kind == "unfrozen"


StreamState: TypeAlias = SessionState | ProjectState | AccessState | RulesState

COUNTS: Final = "counts"
"""The view of counts. Several projections add to it, each under names of its own, so that one read shows all."""


class LateRow(NamedTuple):
    """The change that sets a row, made only when it is written: most rows change again within the same step."""

    view: str
    field: str
    value: Callable[[], dict[str, Any]]
    kind: Literal["hash"] = "hash"

    def write(self) -> ViewWrite:
        return row(self.view, self.field, self.value())


class Seen(msgspec.Struct, frozen=True):
    """An event to project, with the fold before and after it.

    `was` and `now` are how its request was settled before and after it; both None if that is unchanged.
    """

    before: StreamState
    recorded: Recorded
    after: StreamState
    was: Settled | None = None
    now: Settled | None = None


def seen(before: StreamState, recorded: Recorded, after: StreamState) -> Seen:
    """Return an event to project."""
    was = now = None
    if not isinstance(before, SessionState) or not isinstance(after, SessionState) or before.settled is after.settled:
        return Seen(before, recorded, after)
    request_id = getattr(recorded.event, "request_id", None)
    if isinstance(request_id, str):
        was, now = before.settled.get(request_id), after.settled.get(request_id)
        if was is now or (was is not None and now is not None and was.version == now.version):
            was = now = None
    return Seen(before, recorded, after, was, now)


Change: TypeAlias = ViewWrite | LateRow


UsesProjection: TypeAlias = Callable[[SessionState, int, Iterable[str]], Iterable[ViewWrite]]
"""The changes of one view by a call that grants let through: by the state after it, its time (ms), and the grants' ids."""

Projection: TypeAlias = Callable[[StreamKey, Seen], Iterable[Change]]
"""The changes of one view, event by event."""

RunProjection: TypeAlias = Callable[[StreamKey, StreamState, StreamState], Iterable[ViewWrite]]
"""The changes of one view by all events between two folds. A run that is cut makes the same of a view in the end."""


def row(view: str, field: str, value: dict[str, Any] | None) -> ViewWrite:
    """Return the change that sets a row, or removes it (None)."""
    return ViewWrite(view, field, None if value is None else canonical_json(value))


def listed(view: str, field: str) -> ViewWrite:
    """Return the change that adds a name to a view that is searched by prefix."""
    return ViewWrite(view, field, 0, "sorted")


def counted(view: str, field: str, by: int) -> ViewWrite:
    return ViewWrite(view, field, by, "count")

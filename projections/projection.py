"""The protocol of a projection: a pure function from an event of a stream to changes of a view's data.

A view is stored in the partition of its stream, so that its changes and the stream's checkpoint are one atomic step.
The same history always gives the same bytes: JSON has sorted keys, and the only inputs are the event and the fold, no
clock and no configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from ledger.access.state import AccessState
from ledger.core.codec import canonical_json
from ledger.core.grants import Recorded
from ledger.policy.stored_rules import RulesState
from ledger.project.state import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite

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


Change: TypeAlias = ViewWrite | LateRow


class Projection(Protocol):
    """The changes of one view, event by event."""

    def __call__(self, key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> Iterable[Change]:
        """Return the changes of an event, given the fold before and after it."""
        ...


def row(view: str, field: str, value: dict[str, Any] | None) -> ViewWrite:
    """Return the change that sets a row, or removes it (None)."""
    return ViewWrite(view, field, None if value is None else canonical_json(value))


def listed(view: str, field: str) -> ViewWrite:
    """Return the change that adds a name to a view that is searched by prefix."""
    return ViewWrite(view, field, 0, "sorted")


def counted(view: str, field: str, by: int) -> ViewWrite:
    return ViewWrite(view, field, by, "count")

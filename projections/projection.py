"""What a projection is: a pure function from one more event of a stream to changes of a view's data.

A view lives in the partition of the stream that it comes from, so that its changes and the stream's checkpoint are
one atomic step. The same history always gives the same bytes: JSON is written with sorted keys, and nothing but the
event and the fold goes in, no clock and no configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

from ledger.access.state import AccessState
from ledger.core.codec import canonical_json
from ledger.core.grants import Recorded
from ledger.project.state import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite

State: TypeAlias = SessionState | ProjectState | AccessState

SEPARATOR = "\n"
"""Between the parts of a field's name: no id holds white space."""


class Projection(Protocol):
    """One view's data, event by event."""

    def __call__(self, key: StreamKey, before: State, recorded: Recorded, after: State) -> Iterable[ViewWrite]:
        """The changes that an event makes, given the fold before it and after it."""
        ...


def field_of(*parts: str) -> str:
    """The name of a field that several ids make up."""
    return SEPARATOR.join(parts)


def parts_of(field: str) -> tuple[str, ...]:
    return tuple(field.split(SEPARATOR))


def row(view: str, field: str, value: dict[str, Any] | None) -> ViewWrite:
    """Set a row, or remove it (None)."""
    return ViewWrite(view, field, None if value is None else canonical_json(value))


def listed(view: str, field: str) -> ViewWrite:
    """Put a name into a list that is looked up by how names begin."""
    return ViewWrite(view, field, 0, "sorted")


def counted(view: str, field: str, by: int) -> ViewWrite:
    return ViewWrite(view, field, by, "count")

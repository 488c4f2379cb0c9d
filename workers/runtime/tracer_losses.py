"""The counts of spans that were lost, as tracers note them and gateways show them.

Each tracer notes its own counts, so none overwrites those of another; one that lost nothing notes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

TracerLoss = Literal["refused", "gaps"]
"""`refused`: spans that the collector refused for good. `gaps`: feeds that had dropped lines before they were read."""

LOSSES: Final[tuple[TracerLoss, ...]] = get_args(TracerLoss)


def loss_field(loss: TracerLoss, consumer: str) -> str:
    """Return the field of a tracer's note."""
    return f"{loss} {consumer}"


def losses_in(notes: Mapping[str, bytes]) -> dict[TracerLoss, int]:
    """Return the counts of all tracers together; what is no count counts for nothing."""
    found: dict[TracerLoss, int] = dict.fromkeys(LOSSES, 0)
    for field, value in notes.items():
        for loss in LOSSES:
            if field.startswith(f"{loss} ") and value.isdigit():
                found[loss] += int(value)
    return found

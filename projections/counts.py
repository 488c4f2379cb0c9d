"""View `counts`: decisions by CONTRACT's metric labels, summed over the sessions of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.grants import Recorded
from ledger.stores.port import StreamKey, ViewWrite
from projections.outcomes import decision_of, settled_change
from projections.projection import StreamState, counted

COUNTS: Final = "counts"


def project_counts(key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> Iterator[ViewWrite]:
    was, now = settled_change(before, recorded, after)
    if was is not None:
        # An allow that a change of the project's grants reversed before it was returned to anybody.
        yield counted(COUNTS, decision_of(was), -1)
    if now is not None:
        yield counted(COUNTS, decision_of(now), 1)

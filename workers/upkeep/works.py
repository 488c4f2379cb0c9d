"""Work on all streams that several processes can share: its portions, and what becomes of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ledger import Ledger
from ledger.access.passkeys.state import Passkey
from ledger.log.verify import Head
from ledger.stores.port import StreamKey
from projections.engine import CaughtUp, Engine, project_anew
from workers.projector.repairs import Repairs
from workers.upkeep.stream_checks import Checked, Depth, StreamChecker, read_anchors
from workers.upkeep.transfer_works import (
    CheckedPortion,
    CheckImport,
    ExportedStream,
    ExportStreams,
    FilePortion,
    ImportedStream,
    PortionToImport,
    StreamsToExport,
    WriteImport,
)

CHECKED_AT_ONCE_COUNT: Final = 500
"""Streams of a portion that is checked."""


class StreamsToCheck(msgspec.Struct, frozen=True):
    """Streams, and the head of each that was kept from before."""

    keys: list[StreamKey]
    heads: list[Head | None]


class PartitionToRebuild(msgspec.Struct, frozen=True):
    """A partition with its streams, and the names of its views besides the fixed ones."""

    partition: int
    keys: list[StreamKey]
    names: Sequence[str]


class RebuiltPartition(msgspec.Struct):
    """The number of streams and events whose views were rebuilt, and the texts of what could not be read."""

    partition: int
    streams: int = 0
    events: int = 0
    problems: list[str] = []


class CheckStreams(msgspec.Struct, frozen=True, tag="check"):
    """The check of streams; `kept` are the passkeys to trust alone."""

    depth: Depth
    kept: dict[str, Passkey] | None = None

    async def done_by(self, ledger: Ledger, portion: StreamsToCheck) -> list[Checked]:
        """Return what was found in each stream, in this order. Raises StoreError, MissingExtraError."""
        known = {key: head for key, head in zip(portion.keys, portion.heads, strict=True) if head is not None}
        anchors = await read_anchors(ledger.store, self.kept)
        checker = StreamChecker(ledger.store, known, anchors, self.depth)
        return [one async for one in checker.check_all(portion.keys)]


class RebuildViews(msgspec.Struct, frozen=True, tag="rebuild"):
    """The rebuilding of all views."""

    async def done_by(self, ledger: Ledger, portion: PartitionToRebuild) -> RebuiltPartition:
        """Drop the views of a partition and build them again from its streams. Raises StoreError."""
        found = RebuiltPartition(portion.partition, len(portion.keys))

        def count(caught: CaughtUp) -> None:
            found.events += caught.events

        engine = Engine(ledger.store, before_step=Repairs(ledger))
        problems = await project_anew(
            ledger.store, engine, portion.partition, portion.keys, done=count, names=portion.names
        )
        found.problems = [problem.text for problem in problems]
        return found


SharedWork = CheckStreams | RebuildViews | ExportStreams | CheckImport | WriteImport

PORTIONS: Final[dict[type, Any]] = {
    CheckStreams: StreamsToCheck,
    RebuildViews: PartitionToRebuild,
    ExportStreams: StreamsToExport,
    CheckImport: FilePortion,
    WriteImport: PortionToImport,
}
RESULTS: Final[dict[type, Any]] = {
    CheckStreams: list[Checked],
    RebuildViews: RebuiltPartition,
    ExportStreams: list[ExportedStream],
    CheckImport: CheckedPortion,
    WriteImport: list[ImportedStream],
}
"""The types of the portions and of their results, as messages have them."""


def portions_to_check(keys: Sequence[StreamKey], known: dict[StreamKey, Head]) -> list[StreamsToCheck]:
    """Return streams in portions, each with what is known of them."""
    portions = [keys[start : start + CHECKED_AT_ONCE_COUNT] for start in range(0, len(keys), CHECKED_AT_ONCE_COUNT)]
    return [StreamsToCheck(list(some), [known.get(key) for key in some]) for some in portions]

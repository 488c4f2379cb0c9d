"""Exports and imports in portions that several processes can share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from io import BytesIO
from typing import Final

import msgspec

from ledger import Ledger
from ledger.core.errors import InputError
from ledger.core.events import Actor
from ledger.core.regular_files import open_regular
from ledger.log.surveys import StreamProblem, problem_of
from ledger.log.verify import Head, head_of
from ledger.stores.port import Entry, Store, StreamKey
from workers.presentation.text import json_line
from workers.upkeep.import_effects import Arrival, arrival_of, mark
from workers.upkeep.stream_checks import Checked, StreamChecker
from workers.upkeep.transfer import Exported, already_there, export_stream, not_exported, read_streams, restore_stream

EXPORTED_AT_ONCE_COUNT: Final = 64
"""Streams of a portion that is exported."""

EXPORTED_AT_ONCE_BYTES: Final = 32 * 1024 * 1024
"""Size of a portion's lines; streams beyond it are left to the command, which writes them line by line."""

IMPORTED_AT_ONCE_COUNT: Final = 100
IMPORTED_AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""Size of a portion of a file; one stream alone may be larger."""


class ExportedStream(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lines of a stream; without them and without a problem, it is too long to be sent."""

    key: StreamKey
    lines: bytes | None = None
    problem: StreamProblem | None = None


class StreamsToExport(msgspec.Struct, frozen=True):
    """Streams to be written in this order."""

    keys: list[StreamKey]


class ExportStreams(msgspec.Struct, frozen=True):
    """The export of streams: each is checked, and its lines are returned."""

    async def done_by(self, ledger: Ledger, portion: StreamsToExport) -> list[ExportedStream]:
        """Return the streams in this order. Raises StoreError, MissingExtraError, DamageError."""
        found: list[ExportedStream] = []
        room_bytes = EXPORTED_AT_ONCE_BYTES
        async for checked, entries in StreamChecker(ledger.store).read_all(portion.keys):
            if not checked.ok:
                found.append(ExportedStream(checked.key, problem=problem_of(checked.key, not_exported(checked))))
                continue
            lines = await _lines_of(ledger.store, checked, entries, room_bytes)
            room_bytes -= len(lines or b"")
            found.append(ExportedStream(checked.key, lines))
        return found


async def _lines_of(store: Store, checked: Checked, entries: Sequence[Entry] | None, room_bytes: int) -> bytes | None:
    """Return the lines of a stream; None if they take more room."""
    lines: list[bytes] = []
    async for line in export_stream(store, checked, entries):
        lines.append(f"{json_line(line)}\n".encode())
        room_bytes -= len(lines[-1])
        if room_bytes < 0:
            return None
    return b"".join(lines)


class FilePortion(msgspec.Struct, frozen=True):
    """Whole streams of a file: the place of their first byte, their size, the number of their first line, their names."""

    start: int
    size: int
    line: int
    keys: list[StreamKey]


class CheckedPortion(msgspec.Struct, frozen=True):
    """The content of a portion, and the SHA-256 of its bytes."""

    arrivals: list[Arrival]
    digest: str


class PortionToImport(msgspec.Struct, frozen=True):
    """A portion that was checked, with the number of grants that each stream brings in force."""

    portion: FilePortion
    digest: str
    in_force: list[int]


class ImportedStream(msgspec.Struct, frozen=True):
    """A stream that is on the server whole; `added` are its entries that were not there before."""

    key: StreamKey
    entries: int
    added: int
    head: Head


class CheckImport(msgspec.Struct, frozen=True):
    """The check of a file against the server. `path` is where it is read, `name` how errors call it."""

    path: str
    name: str

    async def done_by(self, ledger: Ledger, portion: FilePortion) -> CheckedPortion:
        """Return what the streams would bring. Raises InputError, DamageError, StoreError."""
        text = _bytes_of(self.path, self.name, portion)
        now_ms = ledger.store.clock.now_ms()
        arrivals = []
        for exported in _streams(text, self.name, portion):
            there = await already_there(ledger.store, exported)
            arrivals.append(arrival_of(exported.key, exported.entries, there, now_ms))
        return CheckedPortion(arrivals, sha256(text).hexdigest())


class WriteImport(msgspec.Struct, frozen=True):
    """The import of a file that was checked; `actor` imports it."""

    path: str
    name: str
    actor: Actor

    async def done_by(self, ledger: Ledger, checked: PortionToImport) -> list[ImportedStream]:
        """Write the missing entries of each stream. Raises InputError, DamageError, StoreError, InDoubtError."""
        text = _bytes_of(self.path, self.name, checked.portion)
        if sha256(text).hexdigest() != checked.digest:
            raise InputError(f"`{self.name}` changed while it was imported; import it again")
        found = []
        streams = _streams(text, self.name, checked.portion)
        for exported, in_force_count in zip(streams, checked.in_force, strict=True):
            marked = mark(exported.entries, self.actor, in_force_count, ledger.store.clock.now_ms())
            added = await restore_stream(ledger.store, exported, marked)
            found.append(ImportedStream(exported.key, len(exported.entries), added, head_of(exported.entries[-1])))
        return found


def _bytes_of(path: str, name: str, portion: FilePortion) -> bytes:
    try:
        with open_regular(path) as file:
            file.seek(portion.start)
            text = file.read(portion.size)
    except OSError as error:
        raise InputError(f"`{name}` cannot be read: {error.strerror}") from error
    if len(text) < portion.size:
        raise InputError(f"`{name}` became shorter while it was imported; import it again")
    return text


def _streams(text: bytes, name: str, portion: FilePortion) -> Iterator[Exported]:
    return read_streams(BytesIO(text), name, portion.line, len(portion.keys))

"""Exports and imports in portions that several processes can share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from io import BytesIO
from typing import Final, NamedTuple

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


ExportedStream = tuple[StreamKey, bytes | StreamProblem | None]
"""The lines of a stream, or its problem; neither for one that is too long to be sent."""


async def export_streams(ledger: Ledger, keys: Sequence[StreamKey]) -> list[ExportedStream]:
    """Check streams, and return their lines, in this order. Raises StoreError, MissingExtraError, DamageError."""
    found: list[ExportedStream] = []
    room_bytes = EXPORTED_AT_ONCE_BYTES
    async for checked, entries in StreamChecker(ledger.store).read_all(keys):
        if checked.ok:
            lines = await _lines_of(ledger.store, checked, entries, room_bytes)
            room_bytes -= len(lines or b"")
            found.append((checked.key, lines))
        else:
            found.append((checked.key, problem_of(checked.key, not_exported(checked))))
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


class FilePortion(NamedTuple):
    """Whole streams of a file: the place of their first byte, their size, the number of their first line, their names."""

    start: int
    size: int
    line: int
    keys: list[StreamKey]


class FileToImport(NamedTuple):
    """The path of a file, and its name in errors."""

    path: str
    name: str


class CheckedPortion(NamedTuple):
    """A portion that was checked: what it would bring, and the SHA-256 of its bytes."""

    portion: FilePortion
    arrivals: list[Arrival]
    digest: str


class ImportedStream(NamedTuple):
    """A stream that is on the server whole; `added` are its entries that were not there before."""

    key: StreamKey
    entries: int
    added: int
    head: Head


async def check_import(file: FileToImport, ledger: Ledger, portion: FilePortion) -> CheckedPortion:
    """Check a portion against the server. Raises InputError, DamageError, StoreError."""
    text = _bytes_of(file, portion)
    now_ms = ledger.store.clock.now_ms()
    arrivals = []
    for exported in _streams(text, file, portion):
        there = await already_there(ledger.store, exported)
        arrivals.append(arrival_of(exported.key, exported.entries, there, now_ms))
    return CheckedPortion(portion, arrivals, sha256(text).hexdigest())


async def write_import(
    file: FileToImport, actor: Actor, ledger: Ledger, checked: tuple[FilePortion, str, Sequence[int]]
) -> list[ImportedStream]:
    """Write the missing entries of each stream of a portion that was checked; `actor` imports it.

    With the portion come its SHA-256, and the number of grants that each stream brings in force.
    Raises InputError, DamageError, StoreError, InDoubtError.
    """
    portion, digest, in_force = checked
    text = _bytes_of(file, portion)
    if sha256(text).hexdigest() != digest:
        raise InputError(f"`{file.name}` changed while it was imported; import it again")
    found = []
    for exported, in_force_count in zip(_streams(text, file, portion), in_force, strict=True):
        marked = mark(exported.entries, actor, in_force_count, ledger.store.clock.now_ms())
        added = await restore_stream(ledger.store, exported, marked)
        found.append(ImportedStream(exported.key, len(exported.entries), added, head_of(exported.entries[-1])))
    return found


def _bytes_of(file: FileToImport, portion: FilePortion) -> bytes:
    try:
        with open_regular(file.path) as opened:
            opened.seek(portion.start)
            text = opened.read(portion.size)
    except OSError as error:
        raise InputError(f"`{file.name}` cannot be read: {error.strerror}") from error
    if len(text) < portion.size:
        raise InputError(f"`{file.name}` became shorter while it was imported; import it again")
    return text


def _streams(text: bytes, file: FileToImport, portion: FilePortion) -> Iterator[Exported]:
    return read_streams(BytesIO(text), file.name, portion.line, len(portion.keys))

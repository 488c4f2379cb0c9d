"""The bytes of a file of the archive, and of the manifest beside it. Pure.

A file is an export, in zstd frames that each hold whole sessions. Its manifest says which streams it has, and the hashes
of their entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from ledger.core import codec
from ledger.core.errors import DamageError
from ledger.core.events import Redacted
from ledger.log.exported import CompleteLine, EntryId, HeaderLine, stream_lines, streams_in
from ledger.log.verify import Head, head_of
from ledger.stores.port import Entry, Position, StreamKey

FRAME_BYTES: Final = 256 * 1024
"""The lines of a usual frame. A smaller one is read faster, a larger one takes less; a long session has one of its own."""

LEVEL: Final = 6

READ_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The most that a frame, or a whole file, is unpacked to: more is not what the archive has written."""


class FrameSlice(NamedTuple):
    """The place of a stream: its frame in the file, and its lines in what the frame holds. All are bytes."""

    frame: int
    frame_bytes: int
    lines: int
    lines_bytes: int


def packed_streams(streams: Iterable[tuple[StreamKey, Sequence[Entry]]]) -> tuple[bytes, list[FrameSlice]]:
    """Return a file of these streams, and the place of each. Raises DamageError for one that no version has written."""
    compress = _zstd().compress
    file = bytearray(compress(_line(HeaderLine()), LEVEL))
    places: list[FrameSlice] = []
    waiting: list[bytes] = []

    def end_frame() -> None:
        if waiting:
            frame, at = compress(b"".join(waiting), LEVEL), 0
            for lines in waiting:
                places.append(FrameSlice(len(file), len(frame), at, len(lines)))
                at += len(lines)
            file.extend(frame)
            waiting.clear()

    count = 0
    for key, entries in streams:
        lines = stream_lines(key, entries)
        if sum(map(len, waiting)) + len(lines) > FRAME_BYTES:
            end_frame()
        waiting.append(lines)
        count += 1
    end_frame()
    file.extend(compress(_line(CompleteLine(complete=True, streams=count)), LEVEL))
    return bytes(file), places


def unpacked_stream(frame: bytes, place: FrameSlice) -> tuple[str, list[Entry]]:
    """Return the name and the entries of the stream at a place in its frame. Raises DamageError for another frame."""
    end = place.lines + place.lines_bytes
    if end > READ_BYTES_MAX:
        raise DamageError(f"would have {end} bytes of lines in one frame")
    lines = _unpacked(_zstd().ZstdDecompressor(), frame, end)[place.lines :]
    found = _streams_in(lines)
    if len(found) != 1:
        raise DamageError(f"has {len(found)} streams in the place of one")
    return found[0]


def unpacked_streams(file: bytes) -> list[tuple[str, list[Entry]]]:
    """Return all streams of a file in their order. Raises DamageError for a file that cannot be read."""
    lines, left = bytearray(), file
    while left:
        frame = _zstd().ZstdDecompressor()
        lines += _unpacked(frame, left, READ_BYTES_MAX - len(lines))
        if not frame.eof:
            raise DamageError("is cut off, or too large")
        left = frame.unused_data
    return _streams_in(bytes(lines))


def _unpacked(frame: Any, data: bytes, bytes_max: int) -> bytes:
    try:
        unpacked: bytes = frame.decompress(data, bytes_max)
    except (_zstd().ZstdError, EOFError) as error:
        raise DamageError(f"is not a file of the archive that can be read: {str(error)[:200]}") from error
    return unpacked


def _streams_in(lines: bytes) -> list[tuple[str, list[Entry]]]:
    try:
        return list(streams_in(lines))
    except ValueError as error:
        raise DamageError(f"has lines that are no export: {str(error)[:200]}") from error


def _line(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"


@cache
def _zstd() -> Any:
    """Return zstd: of the standard library from Python 3.14 on, before it of the extra."""
    try:
        return import_module("compression.zstd")
    except ModuleNotFoundError:
        return import_module("backports.zstd")


MANIFEST: Final = "permission-ledger archive"
FORMAT: Final = 1

_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_Bytes = Annotated[int, msgspec.Meta(ge=0)]


class ArchivedStream(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A stream of a file. `first` and `last` are entry ids, `hash` is the hash that the next entry would have as `prev`.

    `sha256` is `entries_digest`; `at` is the place in the file. `redacted` are the versions whose content was taken out.
    """

    stream: str
    versions: Annotated[int, msgspec.Meta(ge=1)]
    first: EntryId
    last: EntryId
    hash: _Digest
    sha256: _Digest
    at: tuple[_Bytes, _Bytes, _Bytes, _Bytes]
    redacted: tuple[int, ...] = ()

    @property
    def key(self) -> StreamKey:
        return StreamKey.parse(self.stream)

    @property
    def head(self) -> Head:
        return Head(Position.parse(self.last), self.hash)

    @property
    def place(self) -> FrameSlice:
        return FrameSlice(*self.at)


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a file of the archive. `sha256` and `size_bytes` are the file's, `written_ms` is server time.

    `replaces` are the files from which all of these streams came, the oldest first: each was written anew without
    something.
    """

    manifest: str = MANIFEST
    format: int = FORMAT
    file: str
    sha256: _Digest
    entries: int
    size_bytes: int
    written_ms: int
    streams: tuple[ArchivedStream, ...]
    replaces: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


_REDACTED: Final = b'"redacted"'
"""Is in every payload of a `redacted`, and in few others."""

_decoder = msgspec.json.Decoder(Manifest)


def decode_manifest(data: bytes, file: str) -> Manifest:
    """Return the manifest of a file. Raises DamageError for any other content."""
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamageError(f"the manifest of the archive's file `{file}` cannot be read: {error}", file=file) from error
    if (found.manifest, found.format, found.file) != (MANIFEST, FORMAT, file):
        raise DamageError(f"the manifest of the archive's file `{file}` is of another file or format", file=file)
    return found


def archived_stream(key: StreamKey, entries: Sequence[Entry], place: FrameSlice) -> ArchivedStream:
    """Return the line of a manifest for a stream, which has entries."""
    last = entries[-1]
    return ArchivedStream(
        stream=key.name,
        versions=last.version,
        first=str(entries[0].position),
        last=str(last.position),
        hash=head_of(last).hash,
        sha256=entries_digest(entries),
        at=place,
        redacted=tuple(sorted(_redacted_in(entries))),
    )


def _redacted_in(entries: Sequence[Entry]) -> set[int]:
    """Return the versions whose content was taken out, as the stream itself records."""
    found: set[int] = set()
    for entry in entries:
        if _REDACTED in entry.payload:
            event = codec.decode(entry.payload).event
            if isinstance(event, Redacted):
                found.update(event.versions)
    return found


def entries_digest(entries: Sequence[Entry]) -> str:
    r"""Return the lower-case hex SHA-256 over all entries: `<id> LF <bytes of d> LF <bytes of x, or -> LF`, `d`, `x`."""
    digest = sha256()
    for ms, version, payload, content in entries:
        size = b"-" if content is None else b"%d" % len(content)
        digest.update(b"%d-%d\n%d\n%b\n%b%b" % (ms, version, len(payload), size, payload, content or b""))
    return digest.hexdigest()

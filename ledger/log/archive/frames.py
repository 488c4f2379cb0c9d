"""The bytes of a file of the archive: an export, in zstd frames that each hold whole sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

import msgspec

from ledger.core.errors import DamageError
from ledger.log.exported import CompleteLine, HeaderLine, stream_lines, streams_in
from ledger.stores.port import Entry, StreamKey

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

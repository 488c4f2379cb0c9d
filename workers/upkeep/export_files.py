"""The places of streams in an export, found without reading what their entries say, and their portions for an import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import IO, Final, NamedTuple

import msgspec

from ledger.core.errors import InputError
from ledger.log.exported import FORMAT, HEADER, StreamName
from ledger.stores.port import StreamKey
from workers.presentation.text import json_line
from workers.upkeep.transfer import IMPORTED_AT_ONCE_BYTES, IMPORTED_AT_ONCE_COUNT, FilePortion, header, read_export


class StreamPlace(NamedTuple):
    """A stream's lines in a file: where they start and end, and the number of the first one."""

    key: StreamKey
    start: int
    end: int
    line: int


class _Line(msgspec.Struct):
    """The members that tell the lines of an export apart; those of entries are passed over."""

    file: str | None = None
    format: int | None = None
    stream: StreamName | None = None
    id: str | None = None
    end: str | None = None
    entries: int = 0
    complete: bool | None = None
    streams: int | None = None


class _OutOfPlaceError(InputError):
    """A line that an export does not have there, or that is cut off."""

    def __init__(self) -> None:
        super().__init__("a line is out of place")


_decoder: Final = msgspec.json.Decoder(_Line)
HEADER_LINE: Final = f"{json_line(header())}\n".encode()


def places_in(file: IO[bytes], name: str) -> list[StreamPlace]:
    """Return the places of all streams. Raises InputError for a file that is not whole, or names a stream twice."""
    file.seek(0)
    try:
        places = list(_places(file))
    except _OutOfPlaceError:
        file.seek(0)
        for _ in read_export(file, name):
            pass  # it says what is wrong, and where
        raise InputError(f"`{name}` is not an export that this version can read") from None
    seen: set[StreamKey] = set()
    for place in places:
        if place.key in seen:
            raise InputError(f"`{name}` line {place.line}: `{place.key.name}` is in this file twice", line=place.line)
        seen.add(place.key)
    return places


def portions_of(places: Sequence[StreamPlace]) -> list[FilePortion]:
    """Return streams that follow each other in portions, each of streams of one kind."""
    portions: list[FilePortion] = []
    for _, some in groupby(places, lambda place: place.key.kind):
        portion: list[StreamPlace] = []
        for place in some:
            is_full = len(portion) == IMPORTED_AT_ONCE_COUNT
            if portion and (is_full or place.end - portion[0].start > IMPORTED_AT_ONCE_BYTES):
                portions.append(_portion(portion))
                portion = []
            portion.append(place)
        portions.append(_portion(portion))
    return portions


def _portion(some: Sequence[StreamPlace]) -> FilePortion:
    return FilePortion(some[0].start, some[-1].end - some[0].start, some[0].line, [place.key for place in some])


def _places(file: IO[bytes]) -> Iterator[StreamPlace]:
    """Yield the streams of a file, in order. Raises _OutOfPlaceError at the first line that is out of place."""
    text, head = _next(file)
    if head.file != HEADER or head.format != FORMAT:
        raise _OutOfPlaceError
    start, number, count = len(text), 2, 0
    while True:
        text, line = _next(file)
        if line.stream is None:
            break
        key, end, entries = StreamKey.parse(line.stream), start + len(text), 0
        while True:
            text, line = _next(file)
            end += len(text)
            if line.id is None:
                break
            entries += 1
        if line.end != key.name or line.entries != entries:
            raise _OutOfPlaceError
        yield StreamPlace(key, start, end, number)
        start, number, count = end, number + entries + 2, count + 1
    if not line.complete or line.streams != count or file.readline():
        raise _OutOfPlaceError


def _next(file: IO[bytes]) -> tuple[bytes, _Line]:
    text = file.readline()
    if not text.endswith(b"\n"):
        raise _OutOfPlaceError
    try:
        return text, _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _OutOfPlaceError from error

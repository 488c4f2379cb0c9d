"""The places of streams in an export, found without reading what their entries say.

What a whole file holds is cut into portions for an import. What an interrupted export wrote is kept up to its last
complete stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import IO, Final, NamedTuple

import msgspec

from ledger.core.errors import InputError
from ledger.log.verify import head_of
from ledger.stores.port import Store, StreamKey
from workers.presentation.text import json_line
from workers.upkeep.stream_checks import plain, raw_entries
from workers.upkeep.transfer import FORMAT, HEADER, READABLE_FORMATS, StreamName, header, read_export
from workers.upkeep.transfer_works import IMPORTED_AT_ONCE_BYTES, IMPORTED_AT_ONCE_COUNT, FilePortion


class StreamPlace(NamedTuple):
    """A stream's lines in a file: where they start and end, the number of the first one, and what the last one says."""

    key: StreamKey
    start: int
    end: int
    line: int
    entries: int
    hash: str


class _Line(msgspec.Struct):
    """The members that tell the lines of an export apart; those of entries are passed over."""

    file: str | None = None
    format: int | None = None
    stream: StreamName | None = None
    id: str | None = None
    end: str | None = None
    entries: int = 0
    hash: str = ""
    complete: bool | None = None
    streams: int | None = None


class _OutOfPlaceError(InputError):
    """A line that an export does not have there, or that is cut off."""

    def __init__(self) -> None:
        super().__init__("a line is out of place")


_decoder: Final = msgspec.json.Decoder(_Line)
HEADER_LINE: Final = f"{json_line(header())}\n".encode()


# --- a whole file ----------------------------------------------------------------------------------------------------


def places_in(file: IO[bytes], name: str) -> list[StreamPlace]:
    """Return the places of all streams. Raises InputError for a file that is not whole, or names a stream twice."""
    file.seek(0)
    try:
        places = list(_places(file, READABLE_FORMATS, is_whole=True))
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
            if portion and not _has_room(portion, place):
                portions.append(_portion(portion))
                portion = []
            portion.append(place)
        portions.append(_portion(portion))
    return portions


def _has_room(portion: Sequence[StreamPlace], place: StreamPlace) -> bool:
    first, last = portion[0], portion[-1]
    return (
        len(portion) < IMPORTED_AT_ONCE_COUNT
        and place.end - first.start <= IMPORTED_AT_ONCE_BYTES
        and place.start == last.end  # an interrupted import may have done what lies between
    )


def _portion(some: Sequence[StreamPlace]) -> FilePortion:
    return FilePortion(some[0].start, some[-1].end - some[0].start, some[0].line, [place.key for place in some])


# --- the file of an interrupted export -------------------------------------------------------------------------------


def cut_to_complete_streams(file: IO[bytes], name: str) -> list[StreamPlace]:
    """Truncate a file to its last complete stream, and return the streams in it; an empty file gets its first line.

    Raises InputError, and changes nothing, for a file that no export of this version has begun.
    """
    file.seek(0)
    found: list[StreamPlace] = []
    if not HEADER_LINE.startswith(begin := file.read(len(HEADER_LINE))):
        raise InputError(f"`{name}` is not a file that an interrupted `export --all --resume` left")
    if begin == HEADER_LINE:
        file.seek(0)
        found = list(_until_cut_off(_places(file, (FORMAT,), is_whole=False)))
    file.seek(found[-1].end if found else 0)
    file.truncate()
    if not found:
        file.write(HEADER_LINE)
    return found


def _until_cut_off(places: Iterator[StreamPlace]) -> Iterator[StreamPlace]:
    with suppress(_OutOfPlaceError):
        yield from places


async def require_same_ledger(store: Store, name: str, place: StreamPlace) -> None:
    """Raise InputError unless the ledger holds the stream as it is in a file. Raises StoreError."""
    async for raw in raw_entries(store, place.key):
        entry = plain(raw)
        if entry is None or entry.version >= place.entries:
            if entry is not None and entry.version == place.entries and head_of(entry).hash == place.hash:
                return
            break
    raise InputError(f"`{name}` holds another `{place.key.name}` than this ledger; give another file")


# --- lines -----------------------------------------------------------------------------------------------------------


def _places(file: IO[bytes], formats: Sequence[int], *, is_whole: bool) -> Iterator[StreamPlace]:
    """Yield the complete streams of a file, in order. Raises _OutOfPlaceError at the first line that is out of place."""
    text, head = _next(file)
    if head.file != HEADER or head.format not in formats:
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
        yield StreamPlace(key, start, end, number, entries, line.hash)
        start, number, count = end, number + entries + 2, count + 1
    if is_whole and (not line.complete or line.streams != count or file.readline()):
        raise _OutOfPlaceError


def _next(file: IO[bytes]) -> tuple[bytes, _Line]:
    text = file.readline()
    if not text.endswith(b"\n"):
        raise _OutOfPlaceError
    try:
        return text, _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _OutOfPlaceError from error

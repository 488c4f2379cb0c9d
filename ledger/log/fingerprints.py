"""Fingerprints of ids in the views: that of a request or grant, with that of its stream behind it.

A whole id takes three to ten times the memory, and nothing is listed by the ids of past requests. Two ids may have one
fingerprint, so it only says which streams to read. A field is found by the fingerprint of its id as a number; it begins
with the same fingerprint as text, so that each request of a stream has a field of its own.
"""

from __future__ import annotations

import asyncio
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from typing import Final
from zlib import crc32

from ledger.stores.admin import FoundField
from ledger.stores.divided import CHECKPOINTS_VIEW
from ledger.stores.port import Store, StreamKey

_ID_CHARS: Final = 5
_STREAM_CHARS: Final = 3
"""Six bits each, from the upper end of a checksum, as the part of a divided view is."""

_ID_REST_BITS: Final = 32 - 6 * _ID_CHARS
_STREAM_REST_BITS: Final = 32 - 6 * _STREAM_CHARS
"""The bits at the lower end of a checksum that are in no fingerprint."""

_FINGERPRINT: Final = re.compile(rf"[A-Za-z0-9+/]{{{_STREAM_CHARS}}}", re.ASCII)


def fingerprint_of(one: str) -> str:
    """Return the fingerprint of an id, with which the fields begin that lead from it to its streams."""
    return fingerprint_at(crc32(one.encode()))


def fingerprint_at(checksum: int) -> str:
    """Return the fingerprint of the ids with a checksum (CRC-32)."""
    return b2a_base64(checksum.to_bytes(4), newline=False)[:_ID_CHARS].decode()


def number_of(one: str) -> int:
    """Return the fingerprint of an id as a number, by which those fields are found."""
    return number_at(crc32(one.encode()))


def number_at(checksum: int) -> int:
    """Return that number for the ids with a checksum (CRC-32)."""
    return checksum >> _ID_REST_BITS


def fingerprints_of(one: str, stream_id: str) -> str:
    """Return the field that leads from an id to a stream in the same partition."""
    return fingerprint_of(one) + fingerprint_of_stream(stream_id)


def fingerprint_of_stream(stream_id: str) -> str:
    """Return the fingerprint of a stream's id: the end of the fields that lead to it."""
    return fingerprint_of(stream_id)[:_STREAM_CHARS]


def _number_of_stream(of_stream: str) -> int | None:
    """Return the fingerprint of a stream's id as a number; None for anything else."""
    return int.from_bytes(a2b_base64(of_stream + "A")) >> 6 if _FINGERPRINT.fullmatch(of_stream) else None


async def streams_led_to(store: Store, found: Iterable[FoundField]) -> dict[FoundField, list[StreamKey]]:
    """Return the streams that each field may lead to: one, seldom more; none where the views were dropped meanwhile."""
    numbers = {one: _number_of_stream(one.field[_ID_CHARS:]) for one in found}
    streams: dict[tuple[int, int], list[StreamKey]] = {
        (one.partition, number): [] for one, number in numbers.items() if number is not None
    }
    # The part has all streams with a fingerprint, because its number comes from the same bits.
    places = {(partition, CHECKPOINTS_VIEW.at(number << _STREAM_REST_BITS)) for partition, number in streams}
    names = await asyncio.gather(*(store.views.names(partition, [part]) for partition, part in places))
    for (partition, _), some in zip(places, names, strict=True):
        for name in some:
            # A part has hundreds of names, of which one or two are parsed.
            alike = streams.get((partition, crc32(name.partition(":")[2].encode()) >> _STREAM_REST_BITS))
            if alike is not None:
                alike.append(StreamKey.parse(name))
    return {one: [] if number is None else streams[one.partition, number] for one, number in numbers.items()}

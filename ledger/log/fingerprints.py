"""Fingerprints of ids in the views: that of a request or grant, with that of its stream behind it.

A whole id takes three to ten times the memory, and nothing is listed by the ids of past requests. Two ids may have one
fingerprint, so it only says which streams to read.
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

_FINGERPRINT: Final = re.compile(rf"[A-Za-z0-9+/]{{{_STREAM_CHARS}}}", re.ASCII)


def fingerprint_of(one: str) -> str:
    """Return the fingerprint of an id: the beginning of the fields that lead from it to its streams."""
    return fingerprint_at(crc32(one.encode()))


def fingerprint_at(checksum: int) -> str:
    """Return the fingerprint of the ids with a checksum (CRC-32)."""
    return b2a_base64(checksum.to_bytes(4), newline=False)[:_ID_CHARS].decode()


def fingerprints_of(one: str, stream_id: str) -> str:
    """Return the field that leads from an id to a stream in the same partition."""
    return fingerprint_of(one) + fingerprint_of_stream(stream_id)


def fingerprint_of_stream(stream_id: str) -> str:
    """Return the fingerprint of a stream's id: the end of the fields that lead to it."""
    return fingerprint_of(stream_id)[:_STREAM_CHARS]


def _part_of(of_stream: str) -> str | None:
    """Return the part of the checkpoints that has all streams with a fingerprint; None for anything else."""
    if not _FINGERPRINT.fullmatch(of_stream):
        return None
    return CHECKPOINTS_VIEW.at(int.from_bytes(a2b_base64(of_stream + "A")) << 8)


async def streams_led_to(store: Store, found: Iterable[FoundField]) -> dict[FoundField, list[StreamKey]]:
    """Return the streams that each field may lead to: one, seldom more; none where the views were dropped meanwhile."""
    ends = {one: (one.partition, one.field[_ID_CHARS:]) for one in found}
    places = {(partition, part) for partition, end in ends.values() if (part := _part_of(end)) is not None}
    names = await asyncio.gather(*(store.views.names(partition, [part]) for partition, part in places))
    streams: dict[tuple[int, str], list[StreamKey]] = {}
    for (partition, _), some in zip(places, names, strict=True):
        for key in map(StreamKey.parse, some):
            streams.setdefault((partition, fingerprint_of_stream(key.id)), []).append(key)
    return {one: streams.get(end, []) for one, end in ends.items()}

"""Views that are divided: several hashes or sorted sets in each partition instead of one.

The server finds a field of a packed set by passing over its fields, so a large set is kept unpacked, where each field
takes two to five times the memory. A checksum of an id says in which set its fields are.

The partition of a session comes from the lower half of its checksum, so a part comes from the upper half: the sessions
of a partition, whose ids agree in the lower half, would all be in one part otherwise.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import msgspec

from ledger.stores.port import START, Position

_PARTITION_BITS: Final = 16


class DividedView(msgspec.Struct, frozen=True):
    """The names of a view's parts."""

    parts: tuple[str, ...]

    def of(self, one: str) -> str:
        """Return the part that has the fields of an id."""
        return self.at(crc32(one.encode()))

    def at(self, checksum: int) -> str:
        """Return the part that has the fields of the ids with a checksum; its lower half does not matter."""
        return self.parts[(checksum >> _PARTITION_BITS) % len(self.parts)]


def divided(name: str, count: int) -> DividedView:
    """Return a view of some parts, numbered in hexadecimal."""
    return DividedView(tuple(f"{name}-{number:x}" for number in range(count)))


CHECKPOINTS_VIEW: Final = divided("checkpoints", 16)
"""The entry that each stream's views are as of, and a summary of the stream, under its name, by the stream's id.

Unlike a version, the id of an entry reveals a lost history. One field for both takes a third less memory than two.
"""

_SEPARATOR: Final = b" "

NO_ENTRY: Final = Position(-1, 0)
"""The checkpoint in place of a broken one: no stream holds it, so that its views are taken for lost, and made anew."""


def checkpoint_value(at: Position, summary: bytes | None) -> bytes:
    """Return the field of a stream, also made in `project.lua`."""
    return str(at).encode() + (b"" if summary is None else _SEPARATOR + summary)


def checkpoint_in(value: bytes | None) -> Position:
    """Return the checkpoint that a field holds: START without one, NO_ENTRY where it is broken."""
    if value is None:
        return START
    try:
        return Position.parse(value.partition(_SEPARATOR)[0].decode())
    except ValueError:
        return NO_ENTRY


def summary_in(value: bytes | None) -> bytes | None:
    """Return the summary that a field holds, if any."""
    _, separator, summary = (value or b"").partition(_SEPARATOR)
    return summary if separator else None

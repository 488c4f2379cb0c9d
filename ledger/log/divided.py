"""Views that are divided: several sorted sets in each partition instead of one.

The server finds a field of a packed set by passing over its fields, so a large set is kept unpacked, where each field
takes two to five times the memory. A checksum of an id says in which set its fields are.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32


class DividedView(NamedTuple):
    """The names of a view's parts."""

    parts: tuple[str, ...]

    def of(self, one: str) -> str:
        """Return the part that has the fields of an id."""
        return self.parts[crc32(one.encode()) % len(self.parts)]


def _divided(name: str, count: int) -> DividedView:
    return DividedView(tuple(f"{name}-{number:x}" for number in range(count)))


REQUESTS_VIEW: Final = _divided("requests", 16)
"""The sessions of each request id, by that id."""

GRANTS_VIEW: Final = _divided("grants", 4)
"""The stream of each grant, revoked ones included, by the grant's id."""

PEOPLE_VIEW: Final = _divided("people", 4)
"""The sessions in which each person has answered, by the session."""

LATEST_VIEW: Final = _divided("latest", 4)
"""All sessions in order of their last event, by the session."""

LATEST_WITHIN_VIEW: Final = _divided("latest-within", 4)
"""The sessions in order of their last event in each list of some, by the session."""

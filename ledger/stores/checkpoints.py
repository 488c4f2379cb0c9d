"""The view of checkpoints: the entry that each stream's views are as of, under the stream's name.

The store itself compares them. Unlike a version, the id of an entry reveals a lost history.
"""

from __future__ import annotations

from typing import Final

from ledger.stores.port import START, Position

CHECKPOINTS_VIEW: Final = "checkpoints"

NO_ENTRY: Final = Position(-1, 0)
"""The checkpoint in place of a broken one: no stream holds it, so that its views are taken for lost, and made anew."""


def checkpoint_in(value: bytes | None) -> Position:
    """Return the checkpoint that a field holds: START without one, NO_ENTRY where it is broken."""
    if value is None:
        return START
    try:
        return Position.parse(value.decode())
    except ValueError:
        return NO_ENTRY

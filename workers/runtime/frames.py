"""Messages between a process and those that it starts: their length in four bytes, then JSON."""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 4


def framed(message: bytes) -> bytes:
    """Return the message with its length in front."""
    return len(message).to_bytes(HEAD_BYTES, "big") + message


def length_of(head: bytes) -> int:
    """Return the length of the message that follows."""
    return int.from_bytes(head, "big")

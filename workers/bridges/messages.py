"""Protocols of one JSON object a line: parsed and built. No I/O."""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]


def parse(line: bytes) -> Message | None:
    """Return a line as an object; None for anything else."""
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def line_of(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"

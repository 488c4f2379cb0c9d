"""The modes of ACP agents in which they run tools without asking. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_SILENT: Final = frozenset(
    {
        "acceptedits",
        "auto",
        "autoaccept",
        "autoedit",
        "autopilot",
        "bypasspermissions",
        "dontask",
        "fullaccess",
        "agentfullaccess",
        "smartapprove",
        "yolo",
    }
)
"""Ids in lower case without punctuation, since each agent spells them differently. Any other mode counts as one that
asks."""


def mode_begun(result: Mapping[str, Any]) -> str | None:
    """Return the mode that an answer to `session/new` or `session/load` names."""
    modes = result.get("modes")
    mode = modes.get("currentModeId") if isinstance(modes, dict) else None
    return mode if isinstance(mode, str) else None


def mode_changed(update: Mapping[str, Any]) -> str | None:
    """Return the mode that a `current_mode_update` names."""
    mode = update.get("currentModeId") if update.get("sessionUpdate") == "current_mode_update" else None
    return mode if isinstance(mode, str) else None


def is_silent(mode: str) -> bool:
    """Return whether an agent decides by itself in this mode what it would ask about in another."""
    return "".join(filter(str.isalnum, mode.lower())) in _SILENT

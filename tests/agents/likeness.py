"""Comparison of two runs of a client: all messages, with ids and times replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

IDS: Final = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])"
    r"|\b(?:ses|msg|prt|per|evt|que)_[0-9A-Za-z]{20,}"
    r"|(?<=Chunk ID: )[0-9a-f]{6}\b|(?<=PGID: )\d+"
    r"|(?<!\d)\d{13}_\d+(?!\d)"
)
"""UUIDs, OpenCode's ids, Codex's for pieces of output, Gemini's for processes and calls."""

TIMES: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d[:-]\d\d(?:[:-]\d\d(?:\.\d+)?)?Z?"
    r"|\b1\d{12}\b"
    r"|(?<=Wall time: )[\d.]+(?= seconds)"
)
TIME_NAMES: Final = re.compile(r"^(?:time|timestamp|created|updated|start|end|completed)$|(?:At|Ms)$")
ID_NAMES: Final = frozenset({"processId", "slug"})


class Likeness:
    """One run. Ids are named by first occurrence, so that one id in the place of two is a difference."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}

    def of(self, messages: Iterable[Any]) -> list[str]:
        """Return each message as text."""
        return [json.dumps(self._value(one), sort_keys=True) for one in messages]

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._text(name): self._member(name, one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._value(one) for one in value]
        return self._text(value) if isinstance(value, str) else value

    def _member(self, name: str, value: Any) -> Any:
        if TIME_NAMES.search(name) and isinstance(value, int | float) and not isinstance(value, bool):
            return "<time>"
        if name in ID_NAMES and isinstance(value, str):
            return self._name(value)
        return self._value(value)

    def _text(self, text: str) -> str:
        return TIMES.sub("<time>", IDS.sub(lambda found: self._name(found[0]), text))

    def _name(self, found: str) -> str:
        return self._named.setdefault(found, f"<{len(self._named) + 1}>")

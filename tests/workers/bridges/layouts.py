"""Settings of an agent, written in any layout that JSON has: generated from a seed."""

from __future__ import annotations

import json
import random
from typing import Any, Final

EVENTS: Final = ("PreToolUse", "PostToolUse", "Stop")
COMMENTS: Final = ("// one\n", "/* two */", "/* three\n   lines */", "//\n")


def settings_of(chance: random.Random) -> dict[str, Any]:
    """Settings with hooks of others, empty lists of them, or none."""
    found: dict[str, Any] = {name: chance.choice(_VALUES) for name in chance.sample(_NAMES, chance.randrange(4))}
    if chance.random() < 0.6:
        found["hooks"] = {event: _entries(chance) for event in chance.sample(EVENTS, chance.randrange(3))}
    items = list(found.items())
    chance.shuffle(items)
    return dict(items)


def written(value: Any, chance: random.Random, *, comments: bool) -> str:
    """The value with blanks, line ends, indentation, a mark and comments as they come."""
    layout = _Layout(chance, comments=comments)
    mark = "\ufeff" if chance.random() < 0.1 else ""
    text = layout.gap(0) + layout.value(value, 0) + chance.choice(["", "\n", "\n\n", " "])
    return mark + (text.replace("\n", "\r\n") if chance.random() < 0.3 else text)


_NAMES: Final = ("model", "größe", "a/b~c", "permissions", "")
_VALUES: Final[tuple[Any, ...]] = (
    1,
    1.50,
    None,
    "x // y",
    "\u2028 /* z */",
    [],
    {},
    ["Bash(ls)", {"a": []}],
    {"deny": ["x"], "": {}},
)


def _entries(chance: random.Random) -> list[Any]:
    hook = {"type": "command", "command": "./check.sh"}
    return [{"matcher": "Bash", "hooks": [hook] * chance.randrange(3)} for _ in range(chance.randrange(3))]


class _Layout:
    def __init__(self, chance: random.Random, *, comments: bool) -> None:
        self._chance = chance
        self._comments = comments
        self._style = chance.choice(["one line", "packed", "indented", "wild"])
        self._step = chance.choice(["  ", "    ", "\t"])

    def value(self, value: Any, depth: int) -> str:
        if isinstance(value, dict):
            pairs = [
                json.dumps(name, ensure_ascii=False)
                + self.gap(depth, " ")
                + ":"
                + self.gap(depth, " ")
                + self.value(one, depth + 1)
                for name, one in value.items()
            ]
            return self._bracketed("{", pairs, "}", depth)
        if isinstance(value, list):
            return self._bracketed("[", [self.value(one, depth + 1) for one in value], "]", depth)
        return json.dumps(value, ensure_ascii=self._chance.random() < 0.5)

    def _bracketed(self, opening: str, parts: list[str], closing: str, depth: int) -> str:
        text = opening
        for number, part in enumerate(parts):
            text += ("," if number else "") + self.gap(depth + 1) + part
            if self._chance.random() < 0.2:
                text += self.gap(depth, "")
        if parts and self._comments and self._chance.random() < 0.3:
            text += ","
        return text + (self.gap(depth) if parts or self._chance.random() < 0.3 else "") + closing

    def gap(self, depth: int, narrow: str | None = None) -> str:
        usual = {
            "one line": "" if narrow is None and depth == 0 else " ",
            "packed": "",
            "indented": "\n" + self._step * depth if narrow is None and depth else narrow or "",
            "wild": self._chance.choice(["", " ", "\n", "\t", "\n\n  "]),
        }[self._style]
        if self._comments and self._chance.random() < 0.15:
            return usual + self._chance.choice(COMMENTS) + usual
        return usual

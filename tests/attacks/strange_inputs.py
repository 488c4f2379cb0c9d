"""Random inputs of tool calls, from a seed: known names in odd places, long and odd texts, many members."""

from __future__ import annotations

import random
from typing import Any

NAMES = ["command", "cmd", "file_path", "path", "content", "patch", "diff", "old_string", "new_string", "url", "query", "plan", "description", "edits", "questions", "options", "changes", "env", "__proto__", "constructor"]  # fmt: skip
LETTERS = [
    *"abcxyz019 -_./'\"$;|&<>{}[]\\`~*?!#%=:,\n\t",
    *"\u0430\u03bf\u202e\u200b\u00a0\u0301\u2028\uff0f\u05d0\U0001f600",
]


def some_text(chance: random.Random) -> str:
    size = chance.choice([0, 1, 3, 12, 60, 200, 900, 2500])
    return "".join(chance.choices(LETTERS, k=size))


def some_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.choice(["text", "text", "text", "number", "list", "object"] if depth < 3 else ["text", "number"])
    if kind == "list":
        return [some_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == "object":
        return some_input(chance, depth + 1)
    return some_text(chance) if kind == "text" else chance.choice([0, -1, 1.5, True, None])


def some_input(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    names = chance.sample(NAMES, chance.randrange(1, 7))
    more = [f"n{index}{some_text(chance)[:5]}" for index in range(chance.choice([0, 0, 2, 70]) if depth == 0 else 0)]
    return {name: some_value(chance, depth) for name in [*names, *more]}

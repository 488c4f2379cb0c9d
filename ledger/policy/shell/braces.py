"""Brace expansion (`{a,b}`, `{1..3}`) of the text of a word, bounded. For deny rules only."""

from __future__ import annotations

import re
from typing import Final

EXPANSIONS_MAX: Final = 64
UNKNOWN: Final = "**"
"""Stands for any text, slashes included, where an expansion is not written out."""

_RANGE = re.compile(r"[^{},]*\.\.[^{},]*")


def expanded(text: str) -> tuple[str, ...]:
    """Return the words that braces make of a text; beyond `EXPANSIONS_MAX` the braces stand for any text."""
    if "{" not in text or "}" not in text:
        return (text,)
    done: list[str] = []
    todo = [text]
    while todo:
        if len(done) + len(todo) > EXPANSIONS_MAX:
            return (text[: text.index("{")] + UNKNOWN + text[text.rindex("}") + 1 :],)
        one = todo.pop()
        place = _first_group(one)
        if place is None:
            done.append(one)
            continue
        start, end = place
        inside = one[start + 1 : end]
        parts = [UNKNOWN] if _RANGE.fullmatch(inside) else _alternatives(inside)
        todo += [one[:start] + part + one[end + 1 :] for part in parts]
    return tuple(dict.fromkeys(done))


def _first_group(text: str) -> tuple[int, int] | None:
    """Return where the first group with a comma or a range begins and ends."""
    opened: list[int] = []
    groups = []
    for at, character in enumerate(text):
        if character == "{" and text[at - 1 : at] != "$":
            opened.append(at)
        elif character == "}" and opened:
            groups.append((opened.pop(), at))
    found = [one for one in groups if len(_alternatives(text[one[0] + 1 : one[1]])) > 1 or ".." in text[slice(*one)]]
    return min(found, default=None)


def _alternatives(inside: str) -> list[str]:
    """Return the texts between the commas that stand in no inner group."""
    depth, parts = 0, [""]
    for character in inside:
        depth += (character == "{") - (character == "}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts

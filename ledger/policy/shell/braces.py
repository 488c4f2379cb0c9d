"""Bounded brace expansion (`{a,b}`, `{1..3}`) of a word's text. For deny rules only."""

from __future__ import annotations

from typing import Final

from ledger.core.late_patterns import late_pattern

EXPANSIONS_MAX: Final = 64
UNKNOWN: Final = "**"
"""A placeholder for any text, slashes included, in place of an expansion that is not enumerated."""

_RANGE = late_pattern(r"[^{},]*\.\.[^{},]*")


def expanded(text: str) -> tuple[str, ...]:
    """Return the words of a brace expansion; beyond `EXPANSIONS_MAX` words, `UNKNOWN` replaces the braces."""
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
    """Return the start and end of the first group with a comma or a range; None without one."""
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
    """Return the texts between the commas outside inner groups."""
    depth, parts = 0, [""]
    for character in inside:
        depth += (character == "{") - (character == "}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts

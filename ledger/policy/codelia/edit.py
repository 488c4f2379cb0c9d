"""Insertion of rules into the text of a `config.json`; everything else in it is kept (codelia.md 8)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.policy.checks import NOWHERE, RuleOrigin, shown
from ledger.policy.codelia.remember import same_rule
from ledger.policy.codelia.rule import VERSION, read_config, rule_text
from ledger.policy.jsonc import JsonSyntaxError, parse

_BLANK = late_pattern(r"[ \t\r\n]*")
_INDENT: Final = "  "
_MARK: Final = "\ufeff"  # some editors write it first; JSON does not define it

_decoder: Final = json.JSONDecoder()


class _Place(NamedTuple):
    """The span of a value in a text: from its first character to behind its last."""

    start: int
    end: int


def remembered(config_text: str, rules: Sequence[Mapping[str, str]], origin: RuleOrigin = NOWHERE) -> str:
    """Return `config_text` with `rules` appended to `permissions.allow`; rules that it already has are left out.

    An empty text becomes a whole configuration. The existing text keeps its order, spelling and indentation. Raises
    PolicyError for a text that is no configuration; nothing is ever replaced.
    """
    body = config_text.removeprefix(_MARK)
    mark = config_text[: len(config_text) - len(body)]
    if not body.strip():
        return (
            mark
            + json.dumps({"version": VERSION, "permissions": {"allow": _new([], rules)}}, ensure_ascii=False, indent=2)
            + "\n"
        )
    before = _parsed(body, origin)
    standing = before.get("permissions", {}).get("allow", [])
    new = _new(standing, rules)
    if not new:
        return config_text
    after = _inserted(body, new)
    expected = {**before, "permissions": {**before.get("permissions", {}), "allow": [*standing, *new]}}
    assert json.loads(after) == expected
    return mark + after


def _new(standing: Sequence[Any], rules: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    new: list[Mapping[str, str]] = []
    for rule in rules:
        if not any(isinstance(other, Mapping) and same_rule(other, rule) for other in (*standing, *new)):
            new.append(rule)
    return new


def _parsed(text: str, origin: RuleOrigin) -> dict[str, Any]:
    try:
        value = parse(text, comments=False).value
    except JsonSyntaxError as problem:
        raise RuleOrigin(origin.layer, origin.file, {"": problem.line}).problem(problem.text, ()) from None
    read_config(value, origin, strict=False)
    if not isinstance(value, dict):  # read_config has refused it
        raise origin.problem(f"a configuration is an object, not {shown(value)}", ())
    return value


def _inserted(text: str, rules: Sequence[Mapping[str, str]]) -> str:
    root = _Place(*_value(text, 0))
    permissions = _member(text, root, "permissions")
    if permissions is None:
        return _appended(text, root, [f'"permissions": {{"allow": [{_on_one_line(rules)}]}}'])
    allow = _member(text, permissions, "allow")
    if allow is None:
        return _appended(text, permissions, [f'"allow": [{_on_one_line(rules)}]'])
    return _appended(text, allow, list(map(rule_text, rules)))


def _on_one_line(rules: Sequence[Mapping[str, str]]) -> str:
    return ", ".join(map(rule_text, rules))


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> tuple[int, int]:
    start = _skip(text, at)
    return start, _decoder.raw_decode(text, start)[1]


def _member(text: str, place: _Place, wanted: str) -> _Place | None:
    """Return the span of a member's value in the object at `place`."""
    at = _skip(text, place.start + 1)
    while text[at] != "}":
        name, end = _decoder.raw_decode(text, at)
        value = _Place(*_value(text, _skip(text, end) + 1))
        if name == wanted:
            return value
        at = _skip(text, value.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return None


def _appended(text: str, place: _Place, entries: Sequence[str]) -> str:
    """Return the text with entries appended to the list or object at `place`, in the layout of its first entry."""
    first = _skip(text, place.start + 1)
    last = len(text[: place.end - 1].rstrip(" \t\r\n"))
    if first == place.end - 1:
        line = _line_start(text, place.start)
        inner = "\n" + line + _INDENT
        return text[: place.start + 1] + inner + ("," + inner).join(entries) + "\n" + line + text[place.end - 1 :]
    gap = text[place.start + 1 : first]
    separator = "," + (gap if "\n" in gap else " ")
    return text[:last] + "".join(separator + entry for entry in entries) + text[last:]


def _line_start(text: str, at: int) -> str:
    """Return the indentation of the line of a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]

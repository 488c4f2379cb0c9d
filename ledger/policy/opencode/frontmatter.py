"""The head of an agent's Markdown file: the subset of YAML in which rules are written. Pure.

A form outside that subset is an error in the members of rules, and ignored elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import Document, pointer

_FENCE: Final = "---"
_MERGE: Final = "<<"
_KEPT: Final = ("name", "permission", "tools")
_MEMBER: Final = late_pattern(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'\#{}\[\]|>&!%@`,-][^"']*?|\*)\s*:(?:\s+(?P<value>.*))?""",
    re.VERBOSE,
)
_SCALAR: Final = late_pattern(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'\#{}\[\]|>&*!%@`][^\#]*?)(?:\s+\#.*)?"""
)
_BOOLEANS: Final = {"true": True, "false": False}


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def read_frontmatter(text: str, file: str) -> Document:
    """Return `name`, `permission` and `tools` of the head, each with its line; empty without a head.

    Raises PolicyError.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        return Document({}, {})
    end = next((index for index, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise PolicyError(f"{shown(file)} line 1: the head does not end with `---`", file=file, line=1)
    kept = [_Line(number, len(line) - len(line.lstrip(" ")), line.strip()) for number, line in _written(lines[1:end])]
    return _Reader(file).top(kept)


def _written(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 2):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[str, int] = {}

    def top(self, lines: Sequence[_Line]) -> Document:
        value: dict[str, Any] = {}
        for first, inner in _blocks(lines):
            found = _MEMBER.fullmatch(first.text)
            if (found is None and not first.text.startswith("-")) or first.text.startswith(_MERGE):
                raise self._problem(first)  # it may hold any key
            if found and _unquoted(found["key"]) in _KEPT:
                self._add(value, (), first, inner)
        return Document(value, self.places)

    def _mapping(self, lines: Sequence[_Line], keys: tuple[str, ...]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for first, inner in _blocks(lines):
            if first.indent != lines[0].indent:
                raise self._problem(first)
            self._add(value, keys, first, inner)
        return value

    def _add(self, value: dict[str, Any], keys: tuple[str, ...], line: _Line, inner: Sequence[_Line]) -> None:
        found = _MEMBER.fullmatch(line.text)
        if found is None:
            raise self._problem(line)
        key, written = _unquoted(found["key"]), (found["value"] or "").strip()
        if key in value:
            raise self._problem(line, f"the key {shown(key)} is given twice")
        scalar = _SCALAR.fullmatch(written)
        nested = not written or written.startswith("#")
        if (scalar is None) is not nested or bool(inner) is not nested:
            raise self._problem(line)
        self.places[pointer(*keys, key)] = line.number
        text = scalar["text"] if scalar else ""
        value[key] = self._mapping(inner, (*keys, key)) if nested else _BOOLEANS.get(text, _unquoted(text))

    def _problem(
        self, line: _Line, text: str = "this form of YAML is not supported; write `key: action`"
    ) -> PolicyError:
        return PolicyError(f"{shown(self.file)} line {line.number}: {text}", file=self.file, line=line.number)


def _blocks(lines: Sequence[_Line]) -> Iterator[tuple[_Line, Sequence[_Line]]]:
    """Yield each line with the more deeply indented lines after it."""
    index = 0
    while index < len(lines):
        end = index + 1
        while end < len(lines) and lines[end].indent > lines[index].indent:
            end += 1
        yield lines[index], lines[index + 1 : end]
        index = end


def _unquoted(text: str) -> str:
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text[1:-1].replace("''", "'") if text.startswith("'") else text

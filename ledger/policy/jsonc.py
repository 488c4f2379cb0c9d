"""A JSON parser, with or without comments and trailing commas, that records the position of each value in the text.

The standard parser drops lines, silently keeps the last of two equal keys, and accepts no comments. In a policy an
overlooked second `"bash"` is a hole, so duplicate keys are refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.core.limits import JSON_DEPTH_LEVELS

_TOKEN: Final = late_pattern(
    r"""(?P<blank>[ \t\r\n]+)
      | (?P<comment>//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
      | (?P<string>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")
      | (?P<punctuation>[{}\[\]:,])
      | (?P<scalar>[^\s{}\[\]:,"/]+)""",
    re.VERBOSE,
)


class JsonSyntaxError(ValueError):
    """Malformed JSON; `line` is 1-based."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.text = text
        self.line = line


JsonKeys = tuple[str | int, ...]
"""The path of a value in a document: names of members and indexes of items."""


class TextSpan(NamedTuple):
    """Characters from `start` to before `end`. Of a member, `start` is its name's and `value` its value's."""

    start: int
    value: int
    end: int


@dataclass(frozen=True)
class Document:
    """A value, with the line (1-based) and span of each member and item by JSON pointer (RFC 6901)."""

    value: Any
    lines: dict[str, int]
    places: dict[str, TextSpan] = field(default_factory=dict)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int
    start: int


def pointer(*keys: str | int) -> str:
    """Return the JSON pointer of a member."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def parse(text: str, *, comments: bool) -> Document:
    """Parse one value. `comments` allows `//`, `/* */` and a comma after the last member. Raises JsonSyntaxError."""
    parser = _Parser(_tokens(text, comments=comments), trailing_commas=comments)
    value = parser.value("", depth=0)
    parser.expect_end()
    return Document(value, parser.lines, parser.places)


def _tokens(text: str, *, comments: bool) -> list[_Token]:
    tokens: list[_Token] = []
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise JsonSyntaxError(f"{_shown(text[at : at + 12])} cannot be read", line)
        kind = found.lastgroup or ""
        if kind == "comment" and not comments:
            raise JsonSyntaxError("comments are allowed in .jsonc files only", line)
        if kind not in {"blank", "comment"}:
            tokens.append(_Token(kind, found[0], line, at))
        line += found[0].count("\n")
        at = found.end()
    tokens.append(_Token("end", "", line, at))
    return tokens


class _Parser:
    def __init__(self, tokens: list[_Token], *, trailing_commas: bool) -> None:
        self.lines: dict[str, int] = {}
        self.places: dict[str, TextSpan] = {}
        self._tokens = tokens
        self._at = 0
        self._trailing_commas = trailing_commas

    def value(self, where: str, *, depth: int) -> Any:
        token = self._next()
        self.lines[where] = token.line
        if depth > JSON_DEPTH_LEVELS:
            raise JsonSyntaxError(f"values are nested deeper than {JSON_DEPTH_LEVELS} levels", token.line)
        value = self._value_of(token, where, depth)
        last = self._tokens[self._at - 1]
        self.places[where] = TextSpan(token.start, token.start, last.start + len(last.text))
        return value

    def _value_of(self, token: _Token, where: str, depth: int) -> Any:
        if token.text == "{":
            return self._members(where, depth)
        if token.text == "[":
            return self._items(where, depth)
        if token.kind in {"string", "scalar"}:
            return _scalar(token)
        raise _unexpected(token, "a value")

    def expect_end(self) -> None:
        token = self._next()
        if token.kind != "end":
            raise _unexpected(token, "the end of the file")

    def _members(self, where: str, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not self._closed("}", first=not members):
            name = self._next()
            if name.kind != "string":
                raise _unexpected(name, "a name in double quotes")
            key = _scalar(name)
            if key in members:
                raise JsonSyntaxError(f"`{key}` is given twice; keep one of them", name.line)
            self._expect(":")
            inner = where + pointer(key)
            members[key] = self.value(inner, depth=depth + 1)
            self.lines[inner] = name.line
            self.places[inner] = self.places[inner]._replace(start=name.start)
        return members

    def _items(self, where: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._closed("]", first=not items):
            items.append(self.value(where + pointer(len(items)), depth=depth + 1))
        return items

    def _closed(self, bracket: str, *, first: bool) -> bool:
        """Step over the comma between two members, or over the closing bracket; True for the bracket."""
        if self._peek().text == bracket:
            self._at += 1
            return True
        if first:
            return False
        self._expect(",", or_else=bracket)
        if self._peek().text != bracket:
            return False
        if not self._trailing_commas:
            raise JsonSyntaxError("a comma after the last member is allowed in .jsonc files only", self._peek().line)
        self._at += 1
        return True

    def _expect(self, text: str, *, or_else: str | None = None) -> None:
        token = self._next()
        if token.text != text:
            raise _unexpected(token, f"`{text}`" + (f" or `{or_else}`" if or_else else ""))

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token


def _scalar(token: _Token) -> Any:
    try:
        return json.loads(token.text, parse_constant=_refuse_constant)
    except ValueError:
        raise _unexpected(token, "a JSON value") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _unexpected(token: _Token, wanted: str) -> JsonSyntaxError:
    found = "the end of the file" if token.kind == "end" else _shown(token.text)
    return JsonSyntaxError(f"expected {wanted}, found {found}", token.line)


def _shown(text: str) -> str:
    return f"`{text if text.isprintable() else ascii(text)[1:-1]}`"

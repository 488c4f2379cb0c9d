"""A JSON parser, with or without comments and trailing commas, that records positions; edits that keep all other text.

The standard parser drops lines, silently keeps the last of two equal keys, and accepts no comments. In a policy an
overlooked second `"bash"` is a hole, so duplicate keys are refused. Edits keep comments and a comma after the last member.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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


_LINE_COMMENT: Final = r"//[^\n]*?(?=\r?(?:\n|\Z))"
_COMMENT: Final = rf"(?:{_LINE_COMMENT}|/\*(?:[^*]|\*(?!/))*\*/)"
_GAP: Final = late_pattern(rf"(?:[ \t\r\n]+|{_COMMENT})*")
_TO_COMMENT_END: Final = late_pattern(rf"(?:[ \t\r\n]*{_COMMENT})*")
_SAME_LINE: Final = late_pattern(rf"(?:[ \t]*(?:{_LINE_COMMENT}|/\*(?:[^*\r\n]|\*(?!/))*\*/))*")
_STRING_OR_COMMENT: Final = late_pattern(rf'"[^"\\]*(?:\\.[^"\\]*)*"|({_COMMENT})')
_LAST_COMMENT: Final = late_pattern(r"//[^\n]*\Z")
_INDENT: Final = "  "


class Edit(NamedTuple):
    """Replace `removed`, at character `at` of a text, by `inserted`."""

    at: int
    removed: str
    inserted: str


class Insertion(NamedTuple):
    """A value to be inserted into an object under `name`, or into a list (`name` None)."""

    name: str | None
    value: Any
    on_one_line: bool = False


def applied(text: str, edits: Sequence[Edit]) -> str:
    """Return the text after edits, which must not overlap."""
    for edit in sorted(edits, reverse=True):
        assert text.startswith(edit.removed, edit.at)
        text = text[: edit.at] + edit.inserted + text[edit.at + len(edit.removed) :]
    return text


def appending(text: str, document: Document, where: str, entries: Sequence[Insertion]) -> Edit:
    """Return the edit that appends entries to the object or list at the pointer `where`, in its existing layout."""
    container = document.places[where]
    inner = _children(document, where)
    newline = "\r\n" if "\r\n" in text else "\n"
    if not inner:
        return _into_empty(text, container, entries, newline)
    first, last = document.places[inner[0]], document.places[inner[-1]]
    comma = _comma(text, last.end)
    end = _end(_SAME_LINE, text, comma or last.end)
    kept = text[last.end : end]
    lined = "\n" in text[container.value : first.start]
    margin = _margin(text, first.start)
    gap = newline + margin if lined or (kept.strip(" \t,") and _starts_line(text, end)) else " "
    step = _step(margin, _margin(text, container.value)) if lined else None
    written = [gap + _written(entry, step, newline, margin) for entry in entries]
    inserted = (kept if comma else "," + kept) + ",".join(written) + ("," if comma else "")
    return Edit(last.end, kept, inserted)


def without(text: str, where: str) -> str:
    """Return the text without the member or item at the pointer `where` and its comma. Comments are kept."""
    document = parse(text, comments=True)
    outer = where.rpartition("/")[0]
    inner = _children(document, outer)
    at, ours = inner.index(where), document.places[where]
    opened, closed = document.places[outer].value + 1, document.places[outer].end - 1
    before = None if at == 0 else _comma(text, document.places[inner[at - 1]].end)
    behind = _comma(text, ours.end)
    start = _end(_TO_COMMENT_END, text, before or opened)
    if behind is not None:
        between = text[ours.end : behind - 1]
        return _joined(text[:start] + (between if between.strip() else ""), text[start:], text[behind:])
    if before is not None:
        # The last member: remove the comma before it.
        return _joined(text[: before - 1] + text[before:start], text[start:], text[ours.end :])
    rest = text[ours.end :]
    if start == opened and not text[ours.end : closed].strip():
        rest = text[closed:]
    return _joined(text[:start], text[start:], rest)


def _joined(head: str, followed_by: str, rest: str) -> str:
    """Join head and rest, keeping a line end after the head so that its comment does not extend into the rest."""
    ended = _starts_line(followed_by, 0) and not _starts_line(rest, 0)
    return head + ("\n" if ended and _LAST_COMMENT.search(head) else "") + rest


def comments_in(text: str) -> list[str]:
    """Return the comments of a JSON text, or of a part that begins and ends between two of its tokens."""
    return [found[1] for found in _STRING_OR_COMMENT.finditer(text) if found[1] is not None]


def indentation(text: str) -> str:
    """Return one indentation step of a text; two spaces if it has none."""
    for line in text.splitlines()[1:]:
        margin = line[: len(line) - len(line.lstrip(" \t"))]
        if margin and line.strip():
            return margin
    return _INDENT


def _into_empty(text: str, place: TextSpan, entries: Sequence[Insertion], newline: str) -> Edit:
    outer = _margin(text, place.value)
    step = indentation(text)
    at = _end(_TO_COMMENT_END, text, place.value + 1)
    written = [newline + outer + step + _written(entry, step, newline, outer + step) for entry in entries]
    end = "" if "\n" in text[at : place.end - 1] else newline + outer
    return Edit(at, "", ",".join(written) + end)


def _written(entry: Insertion, step: str | None, newline: str, margin: str) -> str:
    """Return an entry as JSON; on one line if `step` is None."""
    value = json.dumps(entry.value, indent=None if entry.on_one_line else step, ensure_ascii=False).replace(
        "\n", newline + margin
    )
    return value if entry.name is None else f"{json.dumps(entry.name, ensure_ascii=False)}: {value}"


def _found(value: Any, where: str) -> Any:
    for key in where.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def _children(document: Document, where: str) -> list[str]:
    """Return the pointers of the children of an object or list, in order."""
    value = _found(document.value, where)
    keys = range(len(value)) if isinstance(value, list) else value
    return [where + pointer(key) for key in keys]


def _comma(text: str, at: int) -> int | None:
    """Return the position behind the comma that follows; None if none does."""
    end = _end(_GAP, text, at)
    return end + 1 if text[end : end + 1] == "," else None


def _starts_line(text: str, at: int) -> bool:
    """Return whether only blanks stand between a position and the end of its line."""
    return text[at:].lstrip(" \t\r").startswith("\n")


def _margin(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _step(inner: str, outer: str) -> str:
    return inner.removeprefix(outer) or _INDENT if inner.startswith(outer) else _INDENT


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at

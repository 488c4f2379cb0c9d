"""The description of a request on one line, for rows, timelines and titles, from the tool's input, else its patterns.

The texts are complete, with their line breaks, written `⏎` on a line; `cut` shortens one and adds the count of omitted
characters. `ledger.session.would_run.description` gives all of a request in sections, for the person who answers. Every
display of the two uses its own escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from ledger.core.events import Asked
from ledger.core.late_patterns import late_pattern
from ledger.session.state import Request
from ledger.session.would_run.members import (
    ADDRESS_TOOLS,
    AFTER_NAMES,
    BEFORE_NAMES,
    FILE_TOOLS,
    PATCH_NAMES,
    PATH_NAMES,
    PLAN_TOOLS,
    QUERY_TOOLS,
    QUESTION_TOOLS,
    SEARCH_TOOLS,
    SHELL_TOOLS,
    CallKind,
    call_in_words,
    compact_json,
    joined_command,
    one_line,
    pieces_of,
    tool_in_words,
)

LINE_CHARS: Final = 200
"""Characters of a description in lists and lines; the request has all of it."""

EMPTY: Final = "(empty)"
"""An empty text on a line, where it would be two backticks and begin another."""

Input = Mapping[str, Any]

_ANYTHING: Final = "*"
_BACKTICKS: Final = late_pattern("`+")
_SPELLING: Final = str.maketrans("", "", " \t\n\"'\\")


class WouldRun(msgspec.Struct, frozen=True):
    """The effect of a request.

    `texts` are displayed in order, with their line breaks. `others` are the other members of the input, each after its
    name. `judged_as` are the judged patterns that the texts do not contain. Displays show all three.
    `names_tool` is the tool whose name the texts begin with.
    """

    kind: CallKind
    texts: tuple[str, ...]
    judged_as: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    names_tool: str | None = None

    def in_words(self, limit_chars: int | None = LINE_CHARS) -> str:
        """Return the description as plain text on one line."""
        shown = cut(one_line(", ".join(self.texts)), limit_chars)
        return shown + self._also(lambda texts: cut(one_line(", ".join(texts)), limit_chars))

    def in_line(self, limit_chars: int | None = LINE_CHARS) -> str:
        """Return the description on one line, each text in backticks."""
        return quoted(map(one_line, self.texts), limit_chars) + self._also(
            lambda texts: quoted(map(one_line, texts), limit_chars)
        )

    def as_call(self, permission: str, limit_chars: int | None = LINE_CHARS) -> str:
        """Return the permission and the description on one line; the permission is left out if the texts name it."""
        if self.texts == (permission,):
            return permission
        said = self.in_line(limit_chars)
        return said if self.names_tool == permission else f"{permission} {said}"

    def _also(self, write: Callable[[tuple[str, ...]], str]) -> str:
        beside = f" (beside it {write(self.others)})" if self.others else ""
        return beside + (f" (judged as {write(self.judged_as)})" if self.judged_as else "")


def cut(text: str, limit_chars: int | None) -> str:
    """Return the text, or its beginning with the count of omitted characters; None is no limit."""
    if limit_chars is None or len(text) <= limit_chars:
        return text
    return f"{text[:limit_chars]}… ({len(text) - limit_chars} more characters)"


def quoted(texts: Iterable[str], limit_chars: int | None = LINE_CHARS) -> str:
    """Return texts in backticks, cut to the limit of a line."""
    return cut(", ".join(map(in_backticks, texts)), limit_chars)


def in_backticks(text: str) -> str:
    """Return a text in more backticks than stand together in it, as CommonMark does, so that one never reads as two."""
    if "`" not in text:
        return f"`{text}`" if text else EMPTY
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(text))))
    space = " " if "`" in (text[0], text[-1]) else ""
    return f"{fence}{space}{text}{space}{fence}"


def would_run(request: Request) -> WouldRun:
    """Describe a request; a settled one by the stored summary of it, one that was redacted by its name."""
    if request.redacted:
        name = request.tool_name or request.permission
        return WouldRun("tool", (f"{tool_in_words(name)} (content redacted)",), names_tool=name)
    if request.input is None and request.summary:
        return _with_patterns(_of_summary(request), request.patterns, request.permission)
    return describe(
        request.permission,
        request.patterns,
        tool_name=request.tool_name,
        tool_input=request.input,
        metadata=request.metadata,
    )


def _of_summary(request: Request) -> WouldRun:
    name = request.tool_name or request.permission
    is_named = request.summary[0].startswith(f"{tool_in_words(name)}, ")
    return WouldRun("tool", request.summary, names_tool=name if is_named else None)


def summary_of(request: Request) -> tuple[str, ...]:
    """Return the texts to keep of a request whose input is dropped, each cut to a line; none where patterns suffice."""
    if request.input is None:
        return request.summary
    found = would_run(request)
    texts = (*found.texts, *found.others)
    return () if texts == request.patterns else tuple(cut(text, LINE_CHARS) for text in texts)


def describe_asked(event: Asked) -> WouldRun:
    """Describe the call of an event, by its name if the free text was redacted."""
    detail = event.detail
    if detail is None:
        return describe(event.permission, tool_name=event.tool_name)
    return describe(
        event.permission, detail.patterns, tool_name=event.tool_name, tool_input=detail.input, metadata=detail.metadata
    )


def describe(
    permission: str,
    patterns: Iterable[str] = (),
    *,
    tool_name: str | None = None,
    tool_input: Any = None,
    metadata: Input | None = None,
) -> WouldRun:
    """Describe a call by its tool and input, else by its patterns, else by its metadata, else by its name."""
    judged = tuple(patterns)
    said = metadata or {}
    found = None if tool_input is None else _of_input(permission, tool_name or permission, tool_input, said)
    if found is not None:
        # A dialect may judge a call by its input as JSON, whose words the description has all the same.
        return _with_patterns(found, judged, permission, compact_json(tool_input) if found.kind == "tool" else "")
    if judged:
        return WouldRun("patterns", judged)
    command = _command(said)
    if command is not None:
        return WouldRun("command", (command,))
    name = tool_name or permission
    return WouldRun("tool", (tool_in_words(name),), names_tool=name)


class _Described(NamedTuple):
    """The texts of a call, and the members that they include."""

    texts: tuple[str, ...]
    used: frozenset[str]


def _of_input(permission: str, tool: str, given: Any, metadata: Input) -> WouldRun | None:
    if not isinstance(given, Mapping):
        return WouldRun("tool", (f"{tool_in_words(tool)} {compact_json(given)}",), names_tool=tool)
    names = {tool.lower(), permission.lower()}
    for kind, known, describe in _DESCRIBED_BY:
        described = describe(given, metadata) if names & known else None
        if described is not None:
            return WouldRun(kind, described.texts, others=tuple(_others(given, described.used)))
    return WouldRun("tool", (call_in_words(tool, given),), names_tool=tool) if given else None


def _others(given: Input, used: frozenset[str]) -> Iterator[str]:
    """Iterate over the other members, without the agent's remark on its command, which runs nothing."""
    for piece in pieces_of(given, "input"):
        if piece.text and piece.kind != "remark" and piece.text not in used:
            yield f"{piece.label}: {piece.text}"


def _with_patterns(found: WouldRun, patterns: Iterable[str], permission: str, as_json: str = "") -> WouldRun:
    """Add the judged patterns that neither the texts nor the input's JSON, whose words the texts are, contain."""
    hidden = tuple(one for one in patterns if one not in (_ANYTHING, permission) and not _is_seen(one, found, as_json))
    return msgspec.structs.replace(found, judged_as=hidden) if hidden else found


def _is_seen(pattern: str, found: WouldRun, as_json: str) -> bool:
    """Return whether a command contains the pattern, ignoring quotes and blanks, or a line equals it.

    Dialects differ in quotes and blanks. A match inside a plan or a file does not count.
    """
    if found.kind in ("command", "tool"):
        return pattern.translate(_SPELLING) in "\n".join((*found.texts, as_json)).translate(_SPELLING)
    lines = [line for text in found.texts for line in (text, text.partition("\n")[0])]
    return any(line == pattern or (found.kind == "file" and line.endswith(f"/{pattern}")) for line in lines)


def _command(given: Input) -> str | None:
    for name in ("command", "cmd"):
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if (joined := joined_command(value)) is not None:
            return joined
    return None


def _described(*texts: str) -> _Described:
    return _Described(texts, frozenset(texts))


def _commands(given: Input, _: Input) -> _Described | None:
    command = _command(given)
    return None if command is None else _described(command)


def _questions(given: Input, _: Input) -> _Described | None:
    asked = given.get("questions")
    if not isinstance(asked, list) or not asked:
        return None
    texts = [one.get("question") if isinstance(one, Mapping) else None for one in asked]
    known = [text for text in texts if isinstance(text, str)]
    return _described(*known) if len(known) == len(texts) else None


def _plan(given: Input, _: Input) -> _Described | None:
    plan = given.get("plan")
    return _described(plan) if isinstance(plan, str) and plan.strip() else None


def _file(given: Input, metadata: Input) -> _Described | None:
    """Return the path and the change: `-` and `+` lines, the new content, or the unchanged patch."""
    path = _text(given, *PATH_NAMES)
    marked = list(_changes(given))
    patches = [] if marked else [one for one in (_text(given, *PATCH_NAMES), _text(metadata, "diff")) if one][:1]
    changes = [*(_marked(mark, text) for mark, text in marked), *patches]
    shown = [path, *changes] if path is not None else changes
    used = {*patches, *(text for _, text in marked), *([path] if path is not None else [])}
    return _Described(("\n".join(shown),), frozenset(used)) if shown else None


def _changes(given: Input) -> Iterator[tuple[str, str]]:
    edits = given.get("edits")
    for one in edits if isinstance(edits, list) else [given]:
        if not isinstance(one, Mapping):
            continue
        before, after = _text(one, *BEFORE_NAMES), _text(one, *AFTER_NAMES)
        if before:
            yield "-", before
        if after:
            yield "+", after
    if content := _text(given, "content"):
        yield "+", content


def _marked(mark: str, text: str) -> str:
    return "\n".join(f"{mark} {line}" for line in text.split("\n"))


def _search(given: Input, _: Input) -> _Described | None:
    pattern, path = _text(given, "pattern", "query"), _text(given, *PATH_NAMES)
    if pattern is None:
        return None
    return _described(pattern) if path is None else _Described((f"{pattern} in {path}",), frozenset({pattern, path}))


def _member(*names: str) -> Callable[[Input, Input], _Described | None]:
    def describe(given: Input, _: Input) -> _Described | None:
        text = _text(given, *names)
        return _described(text) if text else None

    return describe


_DESCRIBED_BY: Final[tuple[tuple[CallKind, frozenset[str], Callable[[Input, Input], _Described | None]], ...]] = (
    ("question", QUESTION_TOOLS, _questions),
    ("plan", PLAN_TOOLS, _plan),
    ("command", SHELL_TOOLS, _commands),
    ("file", FILE_TOOLS, _file),
    ("search", SEARCH_TOOLS, _search),
    ("address", ADDRESS_TOOLS, _member("url")),
    ("query", QUERY_TOOLS, _member("query")),
)
"""Kinds, their tools by lower-case name, and their texts; the input of any other tool is shown in full."""


def _text(given: Input, *names: str) -> str | None:
    return next((value for name in names if isinstance(value := given.get(name), str)), None)

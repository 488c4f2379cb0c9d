"""The description of a request on a page without scripts: whole, or with a fold that holds the allow buttons too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import unified_diff
from typing import Any, Final

import msgspec

from ledger.policy.shell.facts import DangerKind
from ledger.session.state import Request
from ledger.session.would_run.description import LONG_CHARS, LONG_LINES, Description, Section, describe_request
from ledger.session.would_run.marks import Mark
from workers.presentation.dangers import DANGERS
from workers.presentation.hidden_characters import lines, text, warning

OPEN_LINES: Final = 60
"""Lines of a request before the fold; further lines stand behind it."""

OPEN_CHARS: Final = 6_000

DIFF_LINES_MAX: Final = 2000
"""Limit of a comparison in lines; longer texts are shown before and after, because comparing takes time."""

BRIEF_CHARS: Final = 60

_ELSEWHERE: Final = frozenset({"tool", "permission", "asker", "agent", "folder", "offered"})
"""Sections that are shown in the heading, the facts and the buttons."""

_CHANGES: Final = {"before": "-", "after": "+", "content": "+"}


class Shown(msgspec.Struct, frozen=True):
    """The open part and the folded part of a page; `folded_lines` counts the lines of the folded part."""

    at_once: str
    folded: str = ""
    folded_lines: int = 0


def what_runs(request: Request) -> Shown:
    """Return all of a request as HTML: its dangers, its deceptive characters, and every section."""
    description = describe_request(request)
    sections = [one for one in description.sections if not _is_elsewhere(one, request)]
    count = _fitting(sections)
    head = _dangers(description) + warning(description)
    at_once, rest = sections[:count], sections[count:]
    if not rest:
        return Shown(head + _drawn(at_once))
    preview = _preview(rest[0])
    return Shown(head + _drawn(at_once) + preview, _drawn(rest), sum(one.lines for one in rest))


def block(value: str, marks: Iterable[Mark] | None = None) -> str:
    """Return a text as HTML that keeps line breaks."""
    return f"<pre>{lines(value, marks)}</pre>"


def is_question(request: Request) -> bool:
    """Return whether a person is to choose an option, instead of approving a call."""
    asked = request.input.get("questions") if isinstance(request.input, Mapping) else None
    return request.tool_name is not None and isinstance(asked, list) and bool(asked)


def is_plan(request: Request) -> bool:
    """Return whether it is a plan to start, which is never approved beyond this once."""
    return isinstance(request.input, Mapping) and isinstance(request.input.get("plan"), str)


def _is_elsewhere(section: Section, request: Request) -> bool:
    is_name = section.kind == "pattern" and section.text in (request.permission, request.tool_name)
    return section.repeats or section.kind in _ELSEWHERE or is_name


def _fitting(sections: list[Section]) -> int:
    """Return the number of sections before the fold; the two texts of one change stay together."""
    line_count = char_count = 0
    for index, one in enumerate(sections):
        line_count += max(one.lines, len(one.rows))
        char_count += one.chars
        if line_count > OPEN_LINES or char_count > OPEN_CHARS:
            return index - 1 if _is_pair(sections, index - 1) else index
    return len(sections)


def _preview(section: Section) -> str:
    beginning = "\n".join(section.text.split("\n")[:LONG_LINES])[:LONG_CHARS]
    cut = lines(beginning, section.marks)
    return f'<p><b>{text(section.label, section.label_marks)}</b> begins with</p><pre class="begins">{cut} …</pre>'


def _drawn(sections: list[Section]) -> str:
    return "".join(_pieces(sections))


def _pieces(sections: list[Section]) -> Iterator[str]:
    index = 0
    while index < len(sections):
        if _is_pair(sections, index):
            yield _change(sections[index], sections[index + 1])
            index += 2
        else:
            yield _section(sections[index])
            index += 1


def _is_pair(sections: list[Section], index: int) -> bool:
    """Return whether this text is removed and the next one replaces it."""
    if index < 0 or index + 1 >= len(sections):
        return False
    before, after = sections[index], sections[index + 1]
    stems = {one.label.rpartition(".")[0] for one in (before, after)}
    return (before.kind, after.kind) == ("before", "after") and len(stems) == 1


def _section(section: Section) -> str:
    match section.kind:
        case "remark":
            return f"<p><i>“{lines(section.text, section.marks)}”</i></p>"
        case "command":
            return _label(section, unless="command") + _rows(section)
        case "pattern" if section.origin == "patterns":
            return block(section.text, section.marks)
        case "question" | "plan":
            return f'<div class="prose">{lines(section.text, section.marks)}</div>'
        case "option":
            return f'<p class="option">{_name(section)} {lines(section.text, section.marks)}</p>'
        case "before" | "after" | "content":
            sign = _CHANGES[section.kind]
            return _label(section) + _difference([f"{sign}{line}" for line in section.text.split("\n")], section)
        case "patch":
            return _label(section) + _difference(section.text.split("\n"), section)
        case _:
            return _member(section)


def _rows(section: Section) -> str:
    """Return a command as HTML, one of its parts a line."""
    if len(section.rows) < 2:
        return block(section.text, section.marks)
    start, drawn = 0, []
    for row in section.rows:
        inside = [
            Mark(one.start - start, one.end - start, one.kind)
            for one in section.marks
            if one.start < start + len(row) and one.end > start
        ]
        drawn.append(f'<span class="row">{lines(row, inside)}</span>')
        start += len(row)
    return f"<pre>{''.join(drawn)}</pre>"


def _member(section: Section) -> str:
    if len(section.text) <= BRIEF_CHARS and "\n" not in section.text:
        return f"<p>{_name(section)} <code>{text(section.text, section.marks)}</code></p>"
    return _label(section) + block(section.text, section.marks)


def _label(section: Section, *, unless: str | None = None) -> str:
    return "" if section.label == unless else f"<p>{_name(section)}</p>"


def _name(section: Section) -> str:
    of = "<small>metadata</small> " if section.origin == "metadata" else ""
    return f"{of}<b>{text(section.label, section.label_marks)}</b>"


def _change(before: Section, after: Section) -> str:
    old, new = before.text.split("\n"), after.text.split("\n")
    label = f"<p>{_name(before)} → {_name(after)}</p>"
    if len(old) + len(new) > DIFF_LINES_MAX:
        return label + block(before.text, before.marks) + block(after.text, after.marks)
    # Include all lines of both texts: unchanged lines are as much a part of the request as changed ones.
    changed = list(unified_diff(old, new, lineterm="", n=len(old) + len(new)))[3:]
    return label + _difference(changed or [f" {line}" for line in old], before, after)


def _difference(changed: list[str], *sections: Section) -> str:
    kinds = {"+": "came", "-": "gone"}
    odd = {letter: mark.kind for one in sections for mark in one.marks for letter in one.text[mark.start : mark.end]}
    rows = (
        f'<span class="{kinds.get(line[:1], "same")}">{lines(line, _marks_of(line, odd))}</span>' for line in changed
    )
    return f'<pre class="diff">{"".join(rows)}</pre>'


def _marks_of(line: str, odd: Mapping[str, Any]) -> list[Mark]:
    """Return the marks of one line, from those of the whole text."""
    return [Mark(at, at + 1, odd[letter]) for at, letter in enumerate(line) if letter in odd] if odd else []


def _dangers(description: Description) -> str:
    found: dict[DangerKind, list[str]] = {}
    for one in description.dangers:
        found.setdefault(one.kind, []).append(text(one.says))
    rows = "".join(f"<li><b>{DANGERS[kind]}</b> {'; '.join(says)}</li>" for kind, says in found.items())
    return f'<ul class="dangers">{rows}</ul>' if rows else ""

"""The complete description of a request in sections, so that nothing is answered unseen. Pure; linear in its size.

The gateway serves it as the member `description` of a request (`docs/reference/http.md`). Offsets count code points: in
JavaScript, `for (const one of text)` counts the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.core.operands import operand_text
from ledger.core.policy import counted_effect
from ledger.policy.demands import PASSKEY
from ledger.policy.opencode.requests import prefix
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.facts import (
    Danger,
    address_dangers,
    command_dangers,
    gravest_first,
    patch_dangers,
    path_dangers,
)
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.model import ShellCommand
from ledger.session.state import Request
from ledger.session.would_run import would_run
from ledger.session.would_run.members import (
    BEHIND,
    SHELL_TOOLS,
    CallKind,
    MemberText,
    Origin,
    SectionKind,
    pieces_behind,
    pieces_of,
)
from ledger.session.would_run.odd_characters import Mark, OddCharacter, marks_of, odd_characters

# A row and the operator after it, in one match, so that a long line costs one step per row. Comments and quotes are
# matched whole. An unclosed quote extends to the end.
_ROW: Final = late_pattern(
    r"""(?:
        [^\s'"\\;&|\#<>`()$]++|\\.|\$'(?:[^'\\]|\\.)*+(?:'|\Z)|'[^']*+(?:'|\Z)|"(?:[^"\\]|\\.)*+(?:"|\Z)|[<>]&?|&>>?
        |(?<![^\s;&|()])\#[^\n]*+
        |[^;&|\n]
    )*+
    (?:&&|\|\||\|&|;;?&?|\||&|\n)[ \t]*+\n?""",
    re.DOTALL | re.VERBOSE,
)


ROWS_COUNT: Final = 500
"""Maximum rows of a line; the last one holds the rest."""


def rows_of(command: str) -> tuple[str, ...]:
    """Return the parts of a command line, each with the operator after it. Joined, they are the line byte for byte."""
    rows: list[str] = []
    begin = 0
    while len(rows) + 1 < ROWS_COUNT:
        row = _ROW.match(command, begin)
        if row is None or row.end() == len(command):
            break
        rows.append(row[0])
        begin = row.end()
    rows.append(command[begin:])
    return tuple(rows)


LONG_LINES: Final = 14
"""A section of more lines may be folded."""

LONG_CHARS: Final = 1600
"""A section of more characters may be folded."""

SHAPE_CHARS: Final = 16
"""Characters of a shape, enough that two different ones of an inbox are never equal by chance."""

INNER_COUNT: Final = 4
"""Runners within runners (`npx`, `uv run`) that are looked into; a deeper command is compared word for word."""

_ALONE: Final[frozenset[CallKind]] = frozenset({"question", "plan"})
_WORD_FOR_WORD: Final = frozenset({"before", "after", "content", "patch", "question", "option", "plan"})
"""Kinds of sections that differ as a whole: requests are alike only where these are equal."""

_ASIDE: Final = frozenset({"offered", "folder", "asker", "agent"})
"""Kinds of sections that say who asks and where, not what."""

_FILES: Final = frozenset({"read", "edit", "write", "list", "external_directory"})
"""Permissions whose patterns are files or folders."""


class Section(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One complete text of a request.

    `kind` determines its display and `origin` the member of the request it is from; `label` determines neither, because
    an agent may name a member `folder`. `label` is the member's own name (`command`, `edits[2].old_string`) or, for
    origins other than `input` and `metadata`, a word of ours (`pattern`, `folder`, `asked by`). `text` is unchanged;
    where `is_json` is true it is the JSON of a value that is no text. Commands have `rows`: the text with one part on
    each line; joined, they equal `text` byte for byte. `lines` and `chars` are its size. `may_fold` marks a long text:
    a display that folds it shows the size of the folded part, and accepts no allow before it is opened. `repeats` marks
    a text that an earlier section contains word for word, so that a display may omit it. `marks` and `label_marks` are
    spans of misleading characters. `dangers` are facts about this text. In JSON, false and empty members are omitted.
    """

    kind: SectionKind
    origin: Origin
    label: str
    text: str
    is_json: bool = False
    lines: int
    chars: int
    may_fold: bool = False
    repeats: bool = False
    rows: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    label_marks: tuple[Mark, ...] = ()
    dangers: tuple[Danger, ...] = ()


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The complete description of a request, in display order.

    Every key and value of its input and metadata is in a section, and so are every pattern, the folder, the asker's
    token and the agent's own name. `dangers` are those of all sections, the gravest first, displayed above everything.
    `odd` are the distinct marked characters of all texts; `odd_left` counts those beyond the limit. `shape` is equal for
    requests that a person may answer together; None for one that is answered alone.
    """

    kind: CallKind
    dangers: tuple[Danger, ...]
    odd: tuple[OddCharacter, ...]
    odd_left: int
    sections: tuple[Section, ...]
    shape: str | None = None


def describe_request(request: Request) -> Description:
    """Return the description of input, metadata, patterns, folder and asker, in display order."""
    asked = [MemberText("member", "request", "what was asked", one) for one in request.summary if request.input is None]
    if request.redacted:
        asked = [MemberText("member", "request", "what was asked", "content redacted")]
    behind = request.metadata.get(BEHIND)
    before = pieces_behind(behind) if isinstance(behind, Mapping) else []
    said = {name: value for name, value in request.metadata.items() if name != BEHIND or not before}
    pieces = [
        *pieces_of(request.input, "input"),
        *asked,
        *before,
        *(
            MemberText("operand", "request", "file that it runs", operand_text(one, request.cwd))
            for one in request.operands or ()
        ),
        *_patterns(request),
        *_around(request),
    ]
    pieces += pieces_of(said or None, "metadata")
    sections = _sections(pieces, request)
    odd, left = odd_characters(
        pair for one in sections for pair in ((one.label, one.label_marks), (one.text, one.marks))
    )
    kind = would_run(request).kind
    return Description(
        kind=kind,
        dangers=gravest_first(danger for one in sections for danger in one.dangers),
        odd=odd,
        odd_left=left,
        sections=tuple(sections),
        shape=shape_of(request, kind, sections),
    )


def description_json(request: Request) -> dict[str, Any]:
    """Return the description as the gateway serves it."""
    built: dict[str, Any] = msgspec.to_builtins(describe_request(request))
    return built


def _patterns(request: Request) -> Iterator[MemberText]:
    is_all = request.input is None and not request.summary and _is_shell(request)
    for pattern in request.patterns:
        yield MemberText("command" if is_all else "pattern", "patterns", "command" if is_all else "judged as", pattern)
    for offered in request.always:
        yield MemberText("offered", "always", "an `always` would allow", offered)


def _is_shell(request: Request) -> bool:
    return request.permission.lower() in SHELL_TOOLS or (request.tool_name or "").lower() in SHELL_TOOLS


def _around(request: Request) -> Iterator[MemberText]:
    if request.cwd is not None:
        yield MemberText("folder", "request", "folder", request.cwd)
    yield MemberText(
        "tool" if request.tool_name else "permission", "request", "tool", request.tool_name or request.permission
    )
    if request.tool_name:
        yield MemberText("permission", "request", "permission", request.permission)
    yield MemberText("asker", "request", "asked by", request.asker.name)
    if request.agent:
        yield MemberText("agent", "request", "calls itself", request.agent)


def _sections(pieces: Iterable[MemberText], request: Request) -> list[Section]:
    sections: list[Section] = []
    seen: set[str] = set()
    for piece in pieces:
        section = _section(piece, request, repeats=_may_repeat(piece) and piece.text in seen)
        sections.append(section)
        if piece.origin in ("input", "patterns"):
            seen.update((piece.text, *(row.strip(" \t\n;&|") for row in section.rows)))
    return sections


def _may_repeat(piece: MemberText) -> bool:
    return piece.kind == "pattern" or (
        piece.origin == "metadata" and piece.kind != "rest" and not piece.label.startswith(f"{BEHIND}.")
    )


def _section(piece: MemberText, request: Request, *, repeats: bool) -> Section:
    lines, chars = piece.text.count("\n") + 1, len(piece.text)
    return Section(
        kind=piece.kind,
        origin=piece.origin,
        label=piece.label,
        text=piece.text,
        is_json=piece.is_json,
        lines=lines,
        chars=chars,
        may_fold=lines > LONG_LINES or chars > LONG_CHARS,
        repeats=repeats,
        rows=rows_of(piece.text) if piece.kind == "command" else (),
        marks=marks_of(piece.text),
        label_marks=marks_of(piece.label),
        dangers=() if repeats else _dangers(piece, request),
    )


def _dangers(piece: MemberText, request: Request) -> tuple[Danger, ...]:
    match piece.kind:
        case "command":
            return command_dangers(piece.text, request.cwd)
        case "path":
            return path_dangers(piece.text, request.cwd)
        case "patch":
            return patch_dangers(piece.text, request.cwd)
        case "address":
            return address_dangers(piece.text)
        case "pattern" if _is_shell(request):
            return command_dangers(piece.text, request.cwd)
        case "pattern" if request.permission.lower() in _FILES:
            return path_dangers(piece.text, request.cwd)
        case _:
            return ()


def shape_of(request: Request, kind: CallKind, sections: Sequence[Section]) -> str | None:
    """Return what a request has in common with requests that a person may answer together; None for one answered alone.

    A display that groups requests by it shows, of every member, all that differs from the first. So a shape decides what
    is comfortable, never what is safe.

    Alone are questions and plans, requests whose answer a passkey signs, reopened and redacted ones, those with a text
    that may be folded, and those with a misleading character.
    """
    is_signed = any(one.answer_by == PASSKEY for one in request.demands)
    if kind in _ALONE or is_signed or request.round > 1 or request.redacted:
        return None
    if any(one.may_fold or one.marks or one.label_marks for one in sections):
        return None
    common = [
        request.permission,
        request.tool_name,
        kind,
        counted_effect(request.evaluation),
        sorted(request.always),
        sorted({danger.kind for one in sections for danger in one.dangers}),
        msgspec.to_builtins(request.demands),
        [[one.kind, one.origin, one.label, _essence(one)] for one in sections if one.kind not in _ASIDE],
    ]
    return hashlib.sha256(msgspec.json.encode(common)).hexdigest()[:SHAPE_CHARS]


def _essence(section: Section) -> Any:
    """Return what two alike requests have in common of a section: a command's form, a change's text, or nothing."""
    if section.kind == "command":
        return list(_forms(section.text))
    return section.text if section.kind in _WORD_FOR_WORD else None


def _forms(text: str) -> Iterator[Any]:
    """Yield the form of each command of a line; the line itself where it is not completely understood."""
    analysis = analyse(text)
    if analysis.cut or not analysis.plain or analysis.flow is not None:
        yield text
        return
    yield analysis.operators
    for command in analysis.commands:
        yield _form(command, text, INNER_COUNT)


def _form(command: ShellCommand, text: str, deeper: int) -> Any:
    """Return program, sub-commands, names of options and kinds of operands; the text where a word is not understood."""
    form = form_of(command)
    if command.assignments or command.redirects or not command.words or command.name is None:
        return text
    if form is None:
        words = [word.raw for word in command.words]
        named = prefix(words)
        return [named, sorted(word for word in words[len(named) :] if word.startswith("-"))]
    if form.unclear or (form.inner is not None and not deeper):
        return text
    inner = None if form.inner is None else _form(form.inner, text, deeper - 1)
    kinds = [one.kind.value for one in form.operands]
    return [form.program, form.path, sorted(one.name for one in form.options), sorted(set(kinds)), inner]

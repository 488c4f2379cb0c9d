"""The complete description of a request in sections, so that nothing is answered unseen. Pure; linear in its size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ledger.core.operands import operand_text
from ledger.policy.shell.facts import (
    Danger,
    address_dangers,
    command_dangers,
    gravest_first,
    patch_dangers,
    path_dangers,
)
from ledger.policy.shell.layout import rows_of
from ledger.session.state import Request
from ledger.session.would_run.lines import would_run
from ledger.session.would_run.marks import marks_of, odd_characters
from ledger.session.would_run.members import MemberText, pieces_behind, pieces_of
from ledger.session.would_run.model import LONG_CHARS, LONG_LINES, Description, Section
from ledger.session.would_run.names import BEHIND, SHELL_TOOLS
from ledger.session.would_run.shape import shape_of

_FILES: Final = frozenset({"read", "edit", "write", "list", "external_directory"})
"""Permissions whose patterns are files or folders."""


def describe_request(request: Request) -> Description:
    """Return the description of input, metadata, patterns, folder and asker, in display order."""
    told = [MemberText("member", "request", "what was asked", one) for one in request.told if request.input is None]
    if request.redacted:
        told = [MemberText("member", "request", "what was asked", "content redacted")]
    behind = request.metadata.get(BEHIND)
    before = pieces_behind(behind) if isinstance(behind, Mapping) else []
    said = {name: value for name, value in request.metadata.items() if name != BEHIND or not before}
    pieces = [
        *pieces_of(request.input, "input"),
        *told,
        *before,
        *_operands(request),
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
    is_all = request.input is None and not request.told and _is_shell(request)
    for pattern in request.patterns:
        yield MemberText("command" if is_all else "pattern", "patterns", "command" if is_all else "judged as", pattern)
    for offered in request.always:
        yield MemberText("offered", "always", "an `always` would allow", offered)


def _operands(request: Request) -> Iterator[MemberText]:
    for operand in request.operands or ():
        yield MemberText("operand", "request", "file that it runs", operand_text(operand, request.cwd))


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

"""The shape of a request: what it has in common with requests that a person may answer together. Pure.

A display that groups requests by their shape shows, of every member, all that differs from the first. So a shape decides
what is comfortable, never what is safe. Requests that must be read one by one have none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ledger.policy.demands import PASSKEY
from ledger.policy.opencode.arity import prefix
from ledger.policy.shell import ShellCommand, analyse
from ledger.policy.shell.forms import form_of
from ledger.session.state import Request
from ledger.session.would_run.model import Section
from ledger.session.would_run.names import CallKind

SHAPE_CHARS: Final = 16
"""Characters of a shape, enough that two different ones of an inbox are never equal by chance."""

INNER_COUNT: Final = 4
"""Runners within runners (`npx`, `uv run`) that are looked into; a deeper command is compared word for word."""

_ALONE: Final[frozenset[CallKind]] = frozenset({"question", "plan"})
_WORD_FOR_WORD: Final = frozenset({"before", "after", "content", "patch", "question", "option", "plan"})
"""Kinds of sections that differ as a whole: requests are alike only where these are equal."""

_ASIDE: Final = frozenset({"offered", "folder", "asker", "agent"})
"""Kinds of sections that say who asks and where, not what."""


def shape_of(request: Request, kind: CallKind, sections: Sequence[Section]) -> str | None:
    """Return the shape of a request by its description; None for one that is answered alone.

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

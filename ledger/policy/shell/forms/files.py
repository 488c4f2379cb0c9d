"""Paths that a command names, by the table of its program, or by their shape if it has none. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.forms.model import NormalForm
from ledger.policy.shell.forms.nodes import Effect, OperandKind
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.words import loosen

_PATH_EFFECTS = frozenset({Effect.READ, Effect.WRITE, Effect.OUTPUT, Effect.FOLDER})
_PATH_KINDS = frozenset(
    {OperandKind.READ, OperandKind.WRITE, OperandKind.EDIT, OperandKind.OUTPUT, OperandKind.FOLDER, OperandKind.SCRIPT}
)
_MAYBE_PATHS = frozenset({OperandKind.NAME, OperandKind.URL})
_LEAVES = late_pattern(r"(?:\.\.|~)(?:/|\Z)")
_GLUED = late_pattern(r"-[A-Za-z](?=[/~.])")


def named_paths(command: ShellCommand) -> tuple[str, ...]:
    """Return the paths that a command reads, writes or works in, without repeats, as written."""
    form = form_of(command)
    words = [loosen(word) for word in command.words[1:]]
    found = _of_words(words) if form is None else _of_form(form)
    return tuple(dict.fromkeys(found))


def _of_form(form: NormalForm) -> Iterator[str]:
    for given in form.options:
        if given.value is not None and (given.effect in _PATH_EFFECTS or leaves(given.value)):
            yield given.value
    for operand in form.operands:
        if operand.kind in _PATH_KINDS or (operand.kind in _MAYBE_PATHS and leaves(operand.text)):
            yield operand.text
        elif operand.kind is OperandKind.WORDS:
            yield from paths_in(operand.text)
    if form.inner is not None:
        yield from named_paths(form.inner)


def leaves(text: str) -> bool:
    """Return whether a name or a value is spelled as a path out of the folder: `../other`, `~/other`."""
    return _LEAVES.match(text) is not None


def _of_words(words: list[str]) -> Iterator[str]:
    for word in words:
        yield from paths_in(word)


def paths_in(word: str) -> list[str]:
    """Return the possible paths in a word of unknown meaning.

    They are the word itself, a value attached to an option letter, and the texts after separators.
    """
    found = [] if word.startswith("-") else [word]
    found += re.split(r"[=:,@]", word)[1:]
    glued = _GLUED.match(word)
    if glued is not None:
        found.append(word[glued.end() :])
    return [one for one in found if one]

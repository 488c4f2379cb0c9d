"""Read-only commands, which run without a rule, and the files that a command names. Both are judged by the tables of programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.data_files import WordSet, read_file
from ledger.policy.shell.forms import Effect, NormalForm, OperandKind, form_of
from ledger.policy.shell.model import Access, ShellCommand, Word
from ledger.policy.shell.unknown import unknown_word
from ledger.policy.shell.unwrap import inmost


class _ReadOnly(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `readonly.toml`."""

    anything: WordSet
    patterns: WordSet
    programs: WordSet
    docker: WordSet
    git: frozenset[str]
    git_lists: dict[str, WordSet]
    lines: frozenset[str]
    fed: WordSet
    safe_variables: WordSet


LISTS: Final = read_file(_ReadOnly, "policy/claude/readonly.toml")
CHANGES: Final = frozenset({"mkdir", "touch", "rm", "rmdir", "mv", "cp", "sed"})
"""Programs that need no rule in the mode `acceptEdits`."""

_EXPANDS = late_pattern(r"[$`]")
_NUMBER = late_pattern(r"\$[?$!#]")
_XARGS_OPTIONS: Final = frozenset({"-0", "-r", "-t", "-x"})
_HARMLESS: Final = frozenset({Effect.PLAIN, Effect.READ, Effect.FOLDER})
_LOOKED_AT: Final = frozenset({OperandKind.TEXT, OperandKind.NAME, OperandKind.READ, OperandKind.FOLDER})
_EFFECTS: Final = {
    Effect.READ: Access.READ,
    Effect.FOLDER: Access.READ,
    Effect.WRITE: Access.EDIT,
    Effect.OUTPUT: Access.EDIT,
}
_KINDS: Final = {
    OperandKind.READ: Access.READ,
    OperandKind.FOLDER: Access.READ,
    OperandKind.WRITE: Access.EDIT,
    OperandKind.EDIT: Access.EDIT,
    OperandKind.OUTPUT: Access.EDIT,
}


def is_read_only(command: ShellCommand) -> bool:
    """Return whether a command runs without a rule, if the files that it names may be read."""
    name, words = command.name, command.words
    if name == "xargs":
        inner = inmost(command)
        options = words[1 : len(words) - len(inner.words) + 1]
        known = inner is not command and all(word.raw in _XARGS_OPTIONS for word in options)
        return known and inner.name in LISTS.fed and _only_looks(inner, inner.words[:-1])
    if name is None:
        return False
    return " ".join(word.raw for word in words) in LISTS.lines or _only_looks(command, words)


def _only_looks(command: ShellCommand, words: Sequence[Word]) -> bool:
    name, form = command.name or "", form_of(command)
    if not _is_listed(name, form) or any(word.resolved is None and not _may_be_unknown(name, word) for word in words):
        return False
    if name not in LISTS.anything:
        if any(word.resolved is not None and _EXPANDS.search(word.raw) for word in words):
            return False
        if name not in LISTS.patterns and any(word.glob for word in words):
            return False
    if form is None:
        return all(word.resolved is not None for word in words)
    return (
        unknown_word(command, form) is None
        and not form.unclear
        and not form.edits
        and form.inner is None
        and all(option.effect in _HARMLESS for option in form.options)
        and all(operand.kind in _LOOKED_AT for operand in form.operands)
    )


def _may_be_unknown(name: str, word: Word) -> bool:
    told = name == "echo" and not word.several and _NUMBER.search(word.raw) is None
    return told or (word.inside and word.several)


def _is_listed(name: str, form: NormalForm | None) -> bool:
    if name not in ("git", "docker"):
        return name in LISTS.anything or name in LISTS.patterns or name in LISTS.programs
    if form is None or form.path_at != tuple(range(1, len(form.path) + 1)):
        return False
    path = " ".join(form.path)
    if name == "docker":
        return path in LISTS.docker
    known: frozenset[str] = LISTS.git_lists.get(path, WordSet())
    lists = not form.operands or not form.names.isdisjoint(LISTS.git_lists["needs"])
    return path in LISTS.git or (bool(known) and form.names <= known and lists)


def files_of(command: ShellCommand) -> Iterator[tuple[Access, str, Word | None]]:
    """Yield the files that a command names, by the table of its program; the word is None for the value of an option."""
    if command.name == "cd":
        yield from ((Access.READ, word.resolved or word.raw, word) for word in command.words[1:2])
        return
    form = form_of(command)
    if form is None:
        return
    for option in form.options:
        if option.effect in _EFFECTS and option.value is not None:
            yield _EFFECTS[option.effect], option.value, None
    for unclear in form.unclear if command.name in CHANGES else ():
        if not unclear.text.startswith("-"):
            yield Access.EDIT, unclear.text, command.words[unclear.at]
    for operand in form.operands:
        if operand.kind in _KINDS:
            changed = form.edits and operand.kind is OperandKind.READ
            yield (Access.EDIT if changed else _KINDS[operand.kind]), operand.text, command.words[operand.at]

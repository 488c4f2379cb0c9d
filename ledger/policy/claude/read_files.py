"""Files that a read-only command reads; the hardened profile keeps them inside the project."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.claude.places import ClaudePlaces
from ledger.policy.shell.forms import Effect, NormalForm, OperandKind, form_of_words
from ledger.policy.shell.model import Access, Word
from ledger.policy.shell.words import loosen

_FILES: Final = frozenset(
    {OperandKind.READ, OperandKind.WRITE, OperandKind.OUTPUT, OperandKind.FOLDER, OperandKind.SCRIPT, OperandKind.WORDS}
)
_OF_FILES: Final = frozenset({Effect.READ, Effect.WRITE, Effect.OUTPUT, Effect.FOLDER, Effect.ASKS})
_NAME_NO_FILES: Final = frozenset({
    "[", "[[", "cal", "echo", "free", "git", "help", "hostname", "ifconfig", "locale", "netstat", "pgrep", "printf", "ps",
    "ss", "test", "tput", "tr", "type", "uptime", "which",
})  # fmt: skip
"""Programs whose words are texts, numbers, or names that they look up themselves."""

_BEGINS_WITH_TEXT: Final = frozenset({"jq"})
_INSIDE_OPTION = late_pattern(r"-[^=/~.]*=?(?=[/~.]|.*=)(?:[^=]*=)?(.*)", re.DOTALL)


def looks_outside(words: Sequence[Word], places: ClaudePlaces) -> bool:
    """Return whether a read-only command names a file outside the project that no rule allows the tool Read to read."""
    return any(not _may_see(places, path) for path in named_paths(words))


def named_paths(words: Sequence[Word]) -> Iterator[str]:
    """Yield every word, or part of one, that may be a file; without words that are texts in the program's table."""
    name = loosen(words[0]) if words else ""
    if name in _NAME_NO_FILES:
        return
    form = form_of_words(words)
    if form is not None:
        yield from _of_form(form)
        return
    skipped = name in _BEGINS_WITH_TEXT
    for word in words[1:]:
        text = loosen(word)
        if text.startswith("-"):
            yield from _of_option(text)
        elif skipped:
            skipped = False
        else:
            yield text


def _of_form(form: NormalForm) -> Iterator[str]:
    for operand in form.operands:
        if operand.kind in _FILES:
            yield operand.text
    for option in form.options:
        if option.effect in _OF_FILES and option.value is not None:
            yield option.value
    for unclear in form.unclear:
        yield from _of_option(unclear.text) if unclear.text.startswith("-") else (unclear.text,)


def _of_option(text: str) -> Iterator[str]:
    """Yield the value in the word of an option that is in no table: `--from=/x`, `-f/x`."""
    found = _INSIDE_OPTION.fullmatch(text)
    if found is not None and found[1]:
        yield found[1]


def _may_see(places: ClaudePlaces, path: str) -> bool:
    if path == "-":
        return True
    full = places.absolute(path)
    return places.inside(full) or bool(places.allowing(Access.READ, full))

"""Other spellings of the commands of a rule with options: reordered or separate letters, or options after operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ledger.policy.dialect import Dialect
from ledger.policy.lint.meant import table_of

_OPERAND: Final = "x"
_LETTERS_MIN: Final = 2
_WORDS_MAX: Final = 16
"""Maximum words of a rule whose other spellings are tried."""


class Siblings(NamedTuple):
    """Other spellings of a command.

    `command` is the text before the first option; `spellings` are whole command lines. `names` are all names of the
    single option and of options that imply it; empty if there are several options.
    """

    command: str
    names: tuple[str, ...]
    spellings: list[str]


def siblings(dialect: Dialect, pattern: str) -> Siblings | None:
    """Return other spellings of one command that a pattern matches; None for a pattern without options."""
    words = _sample(dialect, pattern)
    options = [word for word in words[1:] if _is_option(word)]
    first = next((at for at, word in enumerate(words) if _is_option(word)), 0)
    if not options or not first or len(words) > _WORDS_MAX or not words[0].strip(_OPERAND):
        return None
    own = " ".join(words)
    names = _names(words[:first], options[0]) if len(options) == 1 and not _is_cluster(options[0]) else ()
    renamed = ([name if word == options[0] else word for word in words] for name in names)
    found = (" ".join(spelling) for spelling in (*_spellings(words, first), *renamed))
    return Siblings(" ".join(words[:first]), names, [line for line in dict.fromkeys(found) if line != own])


def _names(command: Sequence[str], option: str) -> tuple[str, ...]:
    """Return every name of an option of a known program, its own first, without values."""
    node = table_of(command)
    known = node.options.get(option) if node is not None else None
    if node is None or known is None:
        return (option,)
    implied = [name for name, means in node.means.items() if known.name in means and name in node.options]
    others = [name for one in (known, *(node.options[name] for name in implied)) for name in one.names]
    return tuple(dict.fromkeys((option, *others)))


def _sample(dialect: Dialect, pattern: str) -> list[str]:
    """Return one command that the pattern matches, with an operand for each wildcard at the end of a word."""
    text = dialect.notation.plain_pattern(pattern)
    wild = dialect.language.wildcards
    words = [_OPERAND if not word.strip(wild) else word.translate(str.maketrans("", "", wild)) for word in text.split()]
    return words if words[-1:] == [_OPERAND] else [*words, _OPERAND]


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and word != "--"


def _is_cluster(word: str) -> bool:
    return not word.startswith("--") and len(word) > _LETTERS_MIN and word[1:].isalpha()


def _spellings(words: Sequence[str], first: int) -> Iterator[list[str]]:
    for at, word in enumerate(words):
        if at >= first and _is_option(word) and _is_cluster(word):
            yield [*words[:at], f"-{word[:0:-1]}", *words[at + 1 :]]
            yield [*words[:at], *(f"-{letter}" for letter in word[1:]), *words[at + 1 :]]
    options = [word for word in words[first:] if _is_option(word)]
    others = [word for word in words[first:] if not _is_option(word)]
    yield [*words[:first], *others, *options]
    if len(options) > 1:
        yield [*words[:first], *reversed(options), *others]

"""Matching of `Bash(…)` specifiers with commands: by words for deny and ask, narrowly for allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from ledger.policy.matching.wildcard import Matcher, compile_stars, optional_tail
from ledger.policy.shell import ShellCommand, Word
from ledger.policy.toolrules.rule import ToolRule

_HIDDEN_BLANK: Final = "\0"
_PREFIX: Final = ":*"
_PATTERNS_MAX: Final = 4_096


@lru_cache(maxsize=_PATTERNS_MAX)
def normal_specifier(specifier: str) -> str:
    """Return a specifier with one space between words, and a final `x:*` written `x *`."""
    text = " ".join(specifier.split())
    return text.removesuffix(_PREFIX) + " *" if text.endswith(_PREFIX) and text != _PREFIX else text


@lru_cache(maxsize=_PATTERNS_MAX)
def matcher(specifier: str) -> Matcher:
    """Return the glob of a specifier, for texts with single spaces between words."""
    return optional_tail(normal_specifier(specifier), compile_stars)


def has_wildcard(specifier: str) -> bool:
    return "*" in specifier


def specifier_words(specifier: str) -> tuple[str, ...]:
    """Return the words of a specifier without the wildcards at its end."""
    words = normal_specifier(specifier).split(" ")
    while words and words[-1] == "*":
        words.pop()
    return tuple(words)


def spelled_by(rules: Iterable[ToolRule]) -> tuple[tuple[str, ...], ...]:
    """Return the words of each rule for commands, wildcards included; none for a rule without specifier."""
    return tuple(tuple(normal_specifier(rule.specifier).split(" ")) if rule.specifier else () for rule in rules)


def reaches(specifier: str, words: Sequence[str]) -> bool:
    """Return whether a deny or ask specifier matches: its words begin the command, or its glob matches the words.

    A specifier without `*` reaches every command that begins with its words: `git push --force` reaches
    `git push --force origin`, not `git push --force-with-lease`.
    """
    wanted = normal_specifier(specifier)
    text = " ".join(words)
    if not has_wildcard(wanted):
        return text == wanted or text.startswith(wanted + " ")
    return matcher(specifier)(text)


def covers(specifier: str, command: ShellCommand) -> bool:
    """Return whether an allow specifier covers the whole command as written; no quote may hide the end of a word."""
    text = visible_text(command.words)
    wanted = normal_specifier(specifier)
    if not has_wildcard(wanted):
        return text == wanted or " ".join(word.raw for word in command.words) == wanted
    return matcher(specifier)(text)


def covered_texts(command: ShellCommand) -> tuple[str, str]:
    """Return the texts that an allow specifier may cover."""
    return visible_text(command.words), " ".join(word.raw for word in command.words)


def visible_text(words: Sequence[Word]) -> str:
    """Return the words as written, with single spaces; a blank inside a word cannot match a blank of a pattern.

    A quoted word of letters, digits and `_-./:=@%+,` is written without its quotes.
    """
    return " ".join(map(_visible, words))


def _visible(word: Word) -> str:
    shown = word.raw
    if word.quoted and word.resolved is not None and _is_simple(word.resolved):
        shown = word.resolved
    for blank in " \t\n":
        shown = shown.replace(blank, _HIDDEN_BLANK)
    return shown


def _is_simple(text: str) -> bool:
    return bool(text) and all(character.isalnum() or character in "_-./:=@%+," for character in text)

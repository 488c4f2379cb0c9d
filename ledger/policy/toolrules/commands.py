"""The subjects of a call, and `Bash(…)` specifiers matched with commands: by words for deny and ask, narrowly for allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ledger.core.policy import Call
from ledger.policy.matching.wildcard import Matcher, compile_stars, optional_tail
from ledger.policy.shell import Access, ShellCommand, Word
from ledger.policy.shell.tables.files import PROGRAMS
from ledger.policy.toolrules.paths import PATH_FIELDS
from ledger.policy.toolrules.rule import ToolRule

BASH = "Bash"
WEB_FETCH = "WebFetch"


def inputs_of(call: Call) -> tuple[str, list[Any]]:
    """Return the tool's name and each input to judge; a permission with patterns has one input per pattern."""
    if call.tool_name is not None:
        return call.tool_name, [call.input]
    tool = call.permission
    return tool, [_input_of(tool, pattern) for pattern in call.patterns]


def _input_of(tool: str, pattern: str) -> dict[str, str]:
    if tool == BASH:
        return {"command": pattern}
    if tool == WEB_FETCH:
        return {"url": pattern}
    field = PATH_FIELDS.get(tool, ("pattern",))[0]
    return {field: pattern}


def command_of(value: Any) -> str | None:
    """Return the command line of a Bash input; None if it has none."""
    command = value.get("command") if isinstance(value, Mapping) else None
    return command if isinstance(command, str) else None


_HIDDEN_BLANK: Final = "\0"
_PREFIX: Final = ":*"
_PATTERNS_MAX: Final = 4_096
_COMMANDS_MAX: Final = 64
"""Commands whose texts are kept: each rule asks about the same few."""


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
    if "*" not in wanted:
        return text == wanted or text.startswith(wanted + " ")
    return matcher(specifier)(text)


def covers(specifier: str, command: ShellCommand) -> bool:
    """Return whether an allow specifier covers the whole command as written; no quote may hide the end of a word."""
    texts = _texts(command.words)
    wanted = normal_specifier(specifier)
    return matcher(specifier)(texts[0]) if "*" in wanted else wanted in texts


def covered_texts(command: ShellCommand) -> tuple[str, str]:
    """Return the texts that an allow specifier may cover."""
    return _texts(command.words)


@lru_cache(maxsize=_COMMANDS_MAX)
def _texts(words: tuple[Word, ...]) -> tuple[str, str]:
    return visible_text(words), " ".join([word.raw for word in words])


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


@lru_cache(maxsize=_COMMANDS_MAX)
def touched(words: tuple[str, ...]) -> tuple[tuple[Access, str], ...]:
    """Return every word of a command that may be a file, with its possible accesses. For deny and ask rules only.

    The value of a long option counts, and the text after `=` in `dd of=x`. A pattern or script counts as a file too.
    """
    accesses = PROGRAMS.get(words[0].rpartition("/")[2], ()) if words else ()
    found: list[tuple[Access, str]] = []
    ended = False
    for word in words[1:] if accesses else ():
        if word == "--" and not ended:
            ended = True
            continue
        value = word if ended or not word.startswith("-") else word.partition("=")[2]
        operands = [value, value.partition("=")[2]] if not word.startswith("-") else [value]
        found += [(access, operand) for operand in operands if operand for access in accesses]
    return tuple(found)

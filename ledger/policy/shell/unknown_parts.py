"""The parts of a word that are known only when its line runs, each with the reason. Pure, and linear in the word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.model import ShellCommand, Word

PARTS_COUNT: Final = 8
"""Maximum reported parts of one word."""

_NAME = late_pattern(r"\$(?:\w+|\{[^}]*\}|[@*#?$!-])")
_BRACES = late_pattern(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_GLOB = late_pattern(r"[*?]|\[[^\]\s]+\]")
_TILDE = late_pattern(r"~[\w.-]*")
_OPENING: Final = {"$(": ")", "<(": ")", ">(": ")", "`": "`"}


class UnknownPart(msgspec.Struct, frozen=True):
    """A part of a word as written. `why` is a sentence without a full stop."""

    word: str
    text: str
    why: str


def unknown_parts(command: ShellCommand) -> tuple[UnknownPart, ...]:
    """Return the unknown parts of a command's words, values of assignments, and targets of redirections."""
    words = (*command.words, *(one.value for one in command.assignments), *(one.target for one in command.redirects))
    return tuple(dict.fromkeys(part for word in words for part in _of_word(word)))


def _of_word(word: Word) -> tuple[UnknownPart, ...]:
    if word.resolved is not None and not word.glob and not word.tilde:
        return ()
    found = tuple(UnknownPart(word.raw, text, why) for text, why in _scan(word.raw))[:PARTS_COUNT]
    return found or (UnknownPart(word.raw, word.raw, "the shell computes it when the line runs"),)


def _scan(raw: str) -> Iterator[tuple[str, str]]:
    at, quoted = 0, False
    while at < len(raw):
        if raw[at] == "\\":
            at += 2
            continue
        if raw[at] == "'" and not quoted:
            at = raw.find("'", at + 1) % (len(raw) + 1) + 1
            continue
        if raw[at] == '"':
            quoted = not quoted
            at += 1
            continue
        text, why = _part(raw, at, is_quoted=quoted)
        if why:
            yield text, why
        at += max(len(text), 1)


def _part(raw: str, at: int, *, is_quoted: bool) -> tuple[str, str]:
    """Return the part that begins at an index, and why its value is unknown; an empty reason for a plain character."""
    for opening, closing in _OPENING.items():
        if raw.startswith(opening, at) and not (is_quoted and opening in ("<(", ">(")):
            return _enclosed(raw, at, opening, closing), "it is the output of a command"
    name = _NAME.match(raw, at)
    if name is not None:
        return name[0], "the value of a variable is known only when the line runs"
    if is_quoted:
        return raw[at], ""
    for pattern, why in (
        (_BRACES, "braces expand to several words"),
        (_GLOB, "it matches the files that exist when the line runs"),
    ):
        found = pattern.match(raw, at)
        if found is not None:
            return found[0], why
    tilde = _TILDE.match(raw, at) if at == 0 else None
    return (tilde[0], "it is a home directory") if tilde is not None else (raw[at], "")


def _enclosed(raw: str, at: int, opening: str, closing: str) -> str:
    """Return the text up to the end of a substitution, or to the end of the word if it is not closed."""
    depth, place = 1, at + len(opening)
    while place < len(raw) and depth:
        if raw[place] == "(" and closing == ")":
            depth += 1
        elif raw[place] == closing:
            depth -= 1
        place += 1
    return raw[at:place]

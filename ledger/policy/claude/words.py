"""Matching of Claude Code's `Bash(…)` rules with a sub-command, as measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from ledger.core.late_patterns import LatePattern, late_pattern
from ledger.policy.claude.line import ClaudeStage
from ledger.policy.data_files import WordSet, read_file
from ledger.policy.matching.wildcard import Matcher, compile_stars, optional_tail
from ledger.policy.shell.model import Word
from ledger.policy.shell.wrapped import after_options

_PATTERNS_MAX: Final = 4_096
_TEXTS_MAX: Final = 64
"""Cached texts; few, because every rule is tried on the same text before the next text."""

_PREFIX: Final = ":*"


class _Wrappers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `wrappers.toml`."""

    allow: WordSet
    files: WordSet
    deny: WordSet
    shells: WordSet
    safe_variables: WordSet
    valued: dict[str, str]
    options: dict[str, LatePattern]


_WRAPPERS: Final = read_file(_Wrappers, "policy/claude/wrappers.toml")

SAFE_VARIABLES: Final = _WRAPPERS.safe_variables
"""Assignments of these in front of a command do not keep an allow rule from matching."""

_DURATION = late_pattern(r"[0-9]+(?:\.[0-9]+)?[smhd]?")
_SAFE_VALUE = late_pattern(r"[A-Za-z0-9_./:+,@%=$~-]+")
_COMMAND_LOOKS = late_pattern(r"-[pvV]*[vV]")

_DEPTH_MAX: Final = 16


@lru_cache(maxsize=_PATTERNS_MAX)
def is_exact(specifier: str) -> bool:
    return "*" not in specifier


@lru_cache(maxsize=_PATTERNS_MAX)
def _compiled(specifier: str) -> tuple[Matcher, bool]:
    """Return a matcher, and whether it is a prefix, for which the number of blanks does not matter."""
    text = specifier.strip()
    if text.endswith(_PREFIX):  # the text before it is literal, including a star
        bare = text.removesuffix(_PREFIX)
        return lambda value: value == bare or value.startswith(bare + " "), True
    if text.count("*") == 1 and text.endswith(" *"):
        return optional_tail(text, compile_stars), True
    return compile_stars(text), False


def matches(specifier: str, text: str) -> bool:
    """Return whether a specifier matches a text: equal without `*`, else as a glob.

    Blanks count except for a prefix.
    """
    if is_exact(specifier):
        return specifier.strip() == text
    match, prefix = _compiled(specifier)
    return match(_collapsed(text) if prefix else text)


@lru_cache(maxsize=_TEXTS_MAX)
def _collapsed(text: str) -> str:
    return " ".join(text.split())


def _named(word: Word) -> str:
    """Return a word without its quotes, unless they hide a blank. Only for the name of the command."""
    resolved = word.resolved
    if resolved is None or word.raw.startswith("$'") or any(blank in resolved for blank in " \t\n"):
        return word.raw
    return resolved


def texts(stage: ClaudeStage, at: int = 0) -> str:
    """Return the sub-command from one of its words on, that word without quotes."""
    word = stage.words[at]
    rest = stage.text[stage.starts[at] + len(word.raw) :]
    return (_named(word) + rest).strip()


def wide_texts(stage: ClaudeStage) -> Iterator[str]:
    """Yield the texts that deny and ask rules match: without any assignment, as written and behind each wrapper."""
    for at in _peels(stage, _WRAPPERS.deny, strict=False):
        yield texts(stage, at)
    if stage.words:
        yield stage.text
    if any("$(" in word.raw and word.resolved is not None for word in stage.words):
        yield " ".join(word.resolved if word.resolved is not None else word.raw for word in stage.words)


def narrow_texts(stage: ClaudeStage) -> Iterator[str]:
    """Yield the texts that allow rules match: with assignments unless all are harmless, and behind plain wrappers."""
    if not stage.words:
        return
    if stage.redirected_first:
        yield stage.statement
        return
    if stage.assignments:
        yield " ".join([*(f"{name}={value.raw}" for name, value in stage.assignments), stage.text])
    if all(name in SAFE_VARIABLES and _SAFE_VALUE.fullmatch(value.raw) for name, value in stage.assignments):
        for at in _peels(stage, _WRAPPERS.allow, strict=True):
            yield texts(stage, at)
        yield stage.text


def peeled_for_reading(stage: ClaudeStage) -> int:
    """Return the index of the command that may be read-only: behind `command` and `builtin` only."""
    at = 0
    while at + 1 < len(stage.words) and _named(stage.words[at]) in ("command", "builtin"):
        if stage.words[at + 1].raw.startswith("-"):
            break
        at += 1
    return at


def peeled_for_files(stage: ClaudeStage) -> int:
    """Return the index of the command that may access files: behind wrappers that change nothing, and `env`."""
    return list(_peels(stage, _WRAPPERS.files, strict=False))[-1] if stage.words else 0


def peeled_for_allow(stage: ClaudeStage) -> int:
    """Return the index of the command that an allow rule may match."""
    return list(_peels(stage, _WRAPPERS.allow, strict=True))[-1] if stage.words else 0


def wraps(stage: ClaudeStage) -> bool:
    """Return whether the command is a wrapper of any kind, for which no prefix is proposed."""
    return _named(stage.words[0]) in _WRAPPERS.deny | _WRAPPERS.shells if stage.words else False


def _peels(stage: ClaudeStage, wrappers: frozenset[str], *, strict: bool) -> Iterator[int]:
    """Yield the index of the command's first word, then of the first word behind each wrapper."""
    at: int | None = 0
    for _ in range(_DEPTH_MAX):
        if at is None or at >= len(stage.words):
            return
        yield at
        name = _named(stage.words[at])
        if name not in wrappers:
            return
        at = _behind(name, stage.words, at + 1, strict=strict)


def _behind(name: str, words: tuple[Word, ...], at: int, *, strict: bool) -> int | None:
    if name == "xargs":
        return at if at < len(words) and not words[at].raw.startswith("-") else None
    if name == "command" and at < len(words) and _COMMAND_LOOKS.fullmatch(words[at].raw):
        return None
    if at < len(words) and words[at].raw == "--":
        return at + 1
    if name in ("time", "nohup", "command", "builtin") and strict:
        return at if at < len(words) and not words[at].raw.startswith("-") else None
    valued, understood = _WRAPPERS.valued.get(name, ""), _WRAPPERS.options.get(name) if strict else None

    def width(option: str, _following: Word | None) -> int | None:
        if understood is not None and not understood.fullmatch(option):
            return None
        return 2 if len(option) == 2 and option[1] in valued else 1

    behind = after_options(words, at, lambda word: word.raw, width)
    if behind is None:
        return None
    at = behind
    if name == "env":
        while at < len(words) and re.match(r"[A-Za-z_]\w*=", words[at].raw):
            at += 1
    if name == "timeout":
        return at + 1 if at < len(words) and _DURATION.fullmatch(words[at].raw) else None
    return at

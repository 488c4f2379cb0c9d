"""Strict extraction of the commands that `xargs`, `env` and `find -exec` run.

For allow rules: every option must be understood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.values import common_beginning
from ledger.policy.shell.model import ShellCommand, Word
from ledger.policy.shell.variables import HARMLESS

Words = tuple[Word, ...]

_XARGS_FLAGS = late_pattern(r"-[0rtx]+|--null|--no-run-if-empty|--verbose|--exit")
_XARGS_VALUED = late_pattern(r"-[0rtx]*[nPLs][0-9]+|--max-(?:args|procs|lines|chars)=[0-9]+|-d(?:\\n|,|:|;)")
_XARGS_NEXT = late_pattern(r"-[0rtx]*[nPLs]")
_XARGS_REPLACE = late_pattern(r"-[0rtx]*I(?P<mark>[A-Za-z{}%@_]+)?")
_NUMBER = late_pattern(r"[0-9]+")
_MARK = late_pattern(r"[A-Za-z{}%@_]+")
_ASSIGNED = late_pattern(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=.*", re.DOTALL)
_EXECS: Final = frozenset({"-exec", "-execdir"})
_INSIDE = late_pattern(r"\.|(?!\.\.(?:/|\Z))(?!.*/\.\.(?:/|\Z))[A-Za-z0-9_.@][A-Za-z0-9_.@/-]*")
_FOLLOWS: Final = frozenset({"-L", "-H", "-follow", "-files0-from"})


def strict_inner(command: ShellCommand) -> Words | None:
    """Return the words of the command that `xargs` or `env` runs; None for another program or an unknown option."""
    if command.name == "xargs":
        return _xargs(command.words, command.fed)
    return _env(command.words) if command.name == "env" else None


def _xargs(words: Sequence[Word], fed: Word | None) -> Words | None:
    """Return the words of the command that `xargs` runs.

    Words from standard input have an unknown value. They are below the folder if `fed` is.
    """
    at, mark, inside = 1, None, fed is not None and fed.inside
    while at < len(words):
        text = words[at].resolved
        if text is None or words[at].glob:
            return None
        if not text.startswith("-") or text == "-":
            break
        following = words[at + 1].resolved if at + 1 < len(words) else None
        replace = _XARGS_REPLACE.fullmatch(text)
        if replace is not None:
            mark = replace["mark"] or following or ""
            at += 1 if replace["mark"] else 2
            if not _MARK.fullmatch(mark):
                return None
        elif _XARGS_FLAGS.fullmatch(text) or _XARGS_VALUED.fullmatch(text):
            at += 1
        elif _XARGS_NEXT.fullmatch(text) and _NUMBER.fullmatch(following or ""):
            at += 2
        else:
            return None
    inner = tuple(words[at:])
    if not inner or inner[0].resolved is None:
        return None
    if mark is None:
        return (*inner, Word('"$@"', None, prefix="", several=True, inside=inside))
    return None if mark in inner[0].raw else _replaced(inner, mark, inside=inside)


def _replaced(inner: Words, mark: str, *, inside: bool, prefix: str = "") -> Words:
    """Return the words, with each word that contains the mark replaced by one of unknown value."""
    found = list[Word]()
    for word in inner:
        if mark not in word.raw and mark not in (word.resolved or ""):
            found.append(word)
            continue
        before = (word.resolved or "").partition(mark)[0]
        whole = word.resolved == mark
        found.append(Word(word.raw, None, prefix=prefix if whole else before, inside=inside and whole))
    return tuple(found)


def _env(words: Sequence[Word]) -> Words | None:
    """Return the inner words of `env CI=1 npm test`; None with an option or a variable outside the table."""
    at = 1
    while at < len(words):
        found = _ASSIGNED.fullmatch(words[at].resolved or "")
        if found is None:
            break
        if found["name"] not in HARMLESS or words[at].tilde:
            return None
        at += 1
    inner = tuple(words[at:])
    return inner if at > 1 and inner and not (inner[0].resolved or "-").startswith("-") else None


def find_parts(command: ShellCommand) -> tuple[Words, ...] | None:
    """Return the words of `find` without its `-exec` actions, and those of each inner command; None if it runs none.

    A file's name replaces `{}`; it begins like the folder that `find` was given.
    """
    words = command.words
    texts = [word.resolved for word in words]
    if command.name != "find" or not _EXECS.intersection(texts):
        return None
    rest, runs, at = [words[0]], list[Words](), 1
    starts = _starts(words)
    while at < len(words):
        if texts[at] not in _EXECS:
            rest.append(words[at])
            at += 1
            continue
        end = at + 1
        while end < len(words) and texts[end] != ";" and not (texts[end] == "+" and texts[end - 1] == "{}"):
            end += 1
        if end == len(words) or end == at + 1 or "{}" in words[at + 1].raw:
            return None
        known = starts is not None and texts[at] == "-exec" and not _FOLLOWS.intersection(texts)
        prefix = "./" if texts[at] == "-execdir" else (starts if known and starts is not None else "")
        runs.append(_replaced(words[at + 1 : end], "{}", inside=known, prefix=prefix))
        at = end + 1
    return (tuple(rest), *runs)


def _starts(words: Sequence[Word]) -> str | None:
    """Return the common beginning of all names that `find` prints; None if a start folder may lie elsewhere."""
    starts = list[str]()
    for word in words[1:]:
        text = word.resolved
        if text is None or word.tilde:
            return None
        if text.startswith(("-", "(", "!")):
            break
        if not _INSIDE.fullmatch(text):
            return None
        starts.append(text)
    return common_beginning(starts or ["."])

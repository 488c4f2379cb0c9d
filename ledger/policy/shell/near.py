"""Near misses: the options of a deny rule, reordered or abbreviated, turn an allow into an ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.names import basename

_ABBREVIATION_CHARS_MIN: Final = 3  # `--f`

Restricted = dict[str, list[tuple[str, ...]]]


def by_program(rules: Iterable[tuple[str, ...]]) -> Restricted:
    """Return the rules that are relevant for near misses, by program: those with an option among their words."""
    grouped: Restricted = {}
    for words in rules:
        kept = tuple(word for word in words if word.strip("*?"))
        if any(word.startswith("-") for word in kept[1:]):
            grouped.setdefault(basename(kept[0]), []).append(kept)
    return grouped


def near_miss(command: ShellCommand, restricted: Restricted) -> tuple[str, ...] | None:
    """Return the words of a rule that this command has in another order or spelling; None without one."""
    if not restricted or command.name is None:
        return None
    words = [word.resolved or "" for word in command.words[1:]]
    letters = {letter for word in words if word.startswith("-") and not word.startswith("--") for letter in word[1:]}
    for rule in restricted.get(basename(command.name), ()):
        if all(_has(word.rstrip("*"), words, letters) for word in rule[1:]):
            return rule
    return None


def _has(wanted: str, words: Sequence[str], letters: set[str]) -> bool:
    if wanted in words:
        return True
    if not wanted.startswith("-"):
        return False
    if not wanted.startswith("--"):
        return bool(wanted[1:]) and letters.issuperset(wanted[1:])
    if wanted[2:3] in letters:
        return True
    return any(
        wanted.startswith(name) or name == wanted
        for name in (word.partition("=")[0] for word in words if word.startswith("--"))
        if len(name) >= _ABBREVIATION_CHARS_MIN
    )

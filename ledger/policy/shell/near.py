"""Near misses: a deny rule's options, reordered or abbreviated, or its command behind a program that no table knows, turn an allow into an ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ledger.policy.matching.wildcard import whole_glob
from ledger.policy.shell.model import ShellCommand, Word
from ledger.policy.shell.names import basename

_ABBREVIATION_CHARS_MIN: Final = 3  # `--f`

_PARTING: Final = str.maketrans({**dict.fromkeys("'\"\\", ""), **dict.fromkeys(";&|()`={}", " ")})
"""Quotes, which a second shell removes, and characters at which another command may begin."""

TAILS_COUNT: Final = 32
TAIL_WORDS_COUNT: Final = 64
"""Bounds of the tails of one command, so that their judgement stays linear in the line."""

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


def names_of(rules: Iterable[str]) -> Callable[[str], bool]:
    """Return whether a word may be the program of a rule for commands; that of a catch-all may be any, and does not count."""
    first = {basename(words[0].removesuffix(":*")) for words in map(str.split, rules) if words}
    globs = [whole_glob(one) for one in first if one.strip("*?") and ("*" in one or "?" in one)]
    return lambda word: basename(word) in first or any(one(basename(word)) for one in globs)


def tails(command: ShellCommand, is_named: Callable[[str], bool]) -> Iterator[ShellCommand]:
    """Yield the commands that a program may run if it runs its later words, or the text in one: those of a program that `is_named`."""
    found = 0
    for at, word in enumerate(command.words[1:], 1):
        text = word.resolved or ""
        inner = [Word(one, one) for one in text.translate(_PARTING).split()[:TAIL_WORDS_COUNT]] if " " in text else ()
        for begun, words in ((at, command.words), *((start, inner) for start in range(len(inner)))):
            if is_named(words[begun].resolved or ""):
                found += 1
                tail = tuple(words[begun : begun + TAIL_WORDS_COUNT])
                yield ShellCommand(" ".join(one.resolved or one.raw for one in tail), tail)
                if found == TAILS_COUNT:
                    return


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

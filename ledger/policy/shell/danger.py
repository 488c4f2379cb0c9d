"""Dangers of a command beyond its name: wrappers, builtins that change the shell, and dangerous arguments.

A danger only ever turns an allow into an ask. All words must be resolved: for a program of the table, a word that is
not literal is dangerous by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.builtins import is_harmless_builtin
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.names import basename, lookups
from ledger.policy.shell.tables import ARGUMENTS, OPAQUE, SHELLS, STATE_BUILTINS, TRANSPARENT, DangerousArguments
from ledger.policy.shell.unknown import unknown_word

_COMPUTING: Final = frozenset(
    {"printf", "test", "[", "[[", "let", "read", "unset", "declare", "typeset", "local", "export"}
)
_SUBSCRIPT = late_pattern(r"\[[^\[\]]*(?:\$\(|`)")
"""A text in which a shell that computes a number from it (zsh's `printf %d`) finds a command."""


def in_table(program: str) -> bool:
    """Return whether a program has dangerous arguments, so that an `always` for it should not be proposed."""
    return any(name in ARGUMENTS or name in OPAQUE or name in SHELLS for name in lookups(program))


def runs_anything(program: str) -> bool:
    """Return whether a program is a shell, or a wrapper that no rule covers (`sudo`, `env`)."""
    return any(name in OPAQUE or name in SHELLS for name in lookups(program))


def never_allowed(command: ShellCommand) -> str | None:
    """Return why no allow rule may cover this command, not even an exact one: a sentence, or None."""
    program = command.name
    if program is None:
        return "the command's name is known only when the line runs"
    if basename(program) in _COMPUTING:
        computed = next((one.raw for one in command.words[1:] if _SUBSCRIPT.search(one.resolved or "")), None)
        if computed is not None:
            return f"`{program}` may compute `{computed}`, which runs the command in it"
    if is_harmless_builtin(command):
        return None
    for name in lookups(program):
        if name in SHELLS:
            return f"`{program}` is a shell: a rule for it does not cover what it runs"
        if name in OPAQUE:
            return f"`{program}` runs other commands: a rule for it does not cover what it runs"
        if name in STATE_BUILTINS:
            return f"`{program}` changes what later commands mean"
        if name in TRANSPARENT:
            return f"`{program}` is written so that the command it runs is unknown"
    return None


def dangerous_argument(command: ShellCommand) -> str | None:
    """Return why only a rule that spells the whole command may allow it: a sentence, or None."""
    if command.name is None:
        return None
    entry = next((ARGUMENTS[name] for name in lookups(command.name) if name in ARGUMENTS), None)
    if entry is None or is_harmless_builtin(command):
        return None
    for word in command.words[1:]:
        if (word.resolved is None and unknown_word(command)) or (word.glob and word.raw[:1] in "*?[-"):
            return f"`{word.raw}` may become an option of `{command.name}`"
    found = _bad_word(entry, [word.resolved or "" for word in command.words[1:]])
    return None if found is None else f"`{found}` makes `{command.name}` run, write or read something else"


def _bad_word(entry: DangerousArguments, words: Sequence[str]) -> str | None:
    ended = False
    for index, word in enumerate(words):
        if entry.pattern is not None and entry.pattern.fullmatch(word):
            return word
        if ended or len(word) < 2 or word[0] != "-":
            continue
        if word == "--":
            # Not after an apparent option: in `-e -- --pre x` the dashes are the value of `-e`.
            ended = not (index and words[index - 1].startswith("-"))
        elif _bad_option(entry, word):
            return word
    return None


def _bad_option(entry: DangerousArguments, word: str) -> bool:
    if word.startswith("--"):
        name = word.lstrip("-").partition("=")[0]
        return bool(name) and any(long.startswith(name) for long in entry.long)
    for letter in word[1:]:
        if letter in entry.short:
            return True
        if letter in entry.valued:
            return False
    return False

"""Dangers of a command beyond its name: wrappers, builtins that change the shell, and dangerous arguments.

A danger only ever turns an allow into an ask. All words must be resolved: for a program of the table, a word that is
not literal is dangerous by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ledger.policy.shell.builtins import is_harmless_builtin
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.names import lookups
from ledger.policy.shell.scripts import harmless
from ledger.policy.shell.tables import ARGUMENTS, OPAQUE, SHELLS, STATE_BUILTINS, TRANSPARENT, DangerousArguments
from ledger.policy.shell.unknown import unknown_word

_REMOTE_HELPER = re.compile(r"[a-zA-Z0-9.+-]+::.*|--?[a-z-]+=[a-zA-Z0-9.+-]+::.*")
_DANGEROUS: Final = DangerousArguments(always=True)


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
    words = [word.resolved or "" for word in command.words[1:]]
    return _check(command.name, entry, words, [word.glob for word in command.words[1:]])


def _check(program: str, entry: DangerousArguments, words: Sequence[str], globs: Sequence[bool]) -> str | None:
    if entry.always:
        return None if list(words) == ["--version"] else f"`{program}` runs, sends or overwrites what it is given"
    if entry.script:
        known = not any(globs) or entry.script == "sed"
        return (
            None if known and harmless(entry.script, words) else f"this `{program}` program may write or run something"
        )
    found = _bad_word(entry, words)
    if found is not None:
        return f"`{found}` makes `{program}` run, write or read something else"
    if entry.operands_max is not None and len(_operands(entry, words)) > entry.operands_max:
        return f"`{program}` writes to its last argument"
    if entry.leading is None:
        return None
    return _check_subcommand(program, entry, words, globs)


def _check_subcommand(
    program: str, entry: DangerousArguments, words: Sequence[str], globs: Sequence[bool]
) -> str | None:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] not in (entry.leading or ()):
            return f"`{words[at]}` in front of the sub-command makes `{program}` do something else"
        at += 1
    if at == len(words):
        return None
    if globs[at]:
        return f"`{words[at]}` may become another sub-command of `{program}`"
    sub = _DANGEROUS if words[at] in entry.always_subcommands else entry.subcommands.get(words[at])
    return _check(f"{program} {words[at]}", sub, words[at + 1 :], globs[at + 1 :]) if sub is not None else None


def _bad_word(entry: DangerousArguments, words: Sequence[str]) -> str | None:
    ended = False
    for index, word in enumerate(words):
        if entry.pattern is not None and entry.pattern.fullmatch(word):
            return word
        if entry.remote_helpers and _REMOTE_HELPER.fullmatch(word):
            return word
        if ended or len(word) < 2 or (word[0] != "-" and not (entry.old_style and index == 0)):
            continue
        if word == "--":
            # Not after an apparent option: in `-e -- --pre x` the dashes are the value of `-e`.
            ended = entry.dashes_end and not (index and words[index - 1].startswith("-"))
        elif _bad_option(entry, word):
            return word
    return None


def _bad_option(entry: DangerousArguments, word: str) -> bool:
    if word.startswith("--") or (entry.one_dash and word.startswith("-")):
        name = word.lstrip("-").partition("=")[0]
        if entry.exact:
            return name in entry.long
        return bool(name) and any(long.startswith(name) for long in entry.long)
    if not word.startswith("-"):  # an old-style cluster: all its letters are options
        return any(letter in entry.short for letter in word)
    for letter in word[1:]:
        if letter in entry.short:
            return True
        if letter in entry.valued:
            return False
    return False


def _operands(entry: DangerousArguments, words: Sequence[str]) -> list[str]:
    operands, skip, ended = [], False, False
    for word in words:
        if skip:
            skip = False
        elif not ended and word == "--":
            ended = True
        elif not ended and len(word) > 1 and word[0] == "-":
            skip = len(word) == 2 and word[1] in entry.operand_options
        else:
            operands.append(word)
    return operands

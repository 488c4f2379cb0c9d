"""Dangers of a command beyond its name: wrappers, builtins that change the shell, dangerous arguments, unknown words.

A danger only ever turns an allow into an ask. For a program of the table, a word that is not literal is dangerous by
itself, unless its kind of word may have any value (`unknown_word`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.matching import whole_glob
from ledger.policy.shell.forms.nodes import NormalForm, OperandKind
from ledger.policy.shell.model import ShellCommand, Word
from ledger.policy.shell.names import HARMLESS, basename, lookups, may_be_set
from ledger.policy.shell.tables import ARGUMENTS, OPAQUE, SHELLS, STATE_BUILTINS, TRANSPARENT, DangerousArguments

_TESTS: Final = frozenset(
    {"-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-p", "-S", "-z", "-n", "-b", "-c", "-g", "-u", "-k"}
)
_COMPARISONS: Final = frozenset({"=", "==", "!=", "-nt", "-ot", "-ef"})
_NUMERIC: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


def is_known_test(words: Sequence[Word]) -> bool:
    """Return whether the words of a test, without brackets, have a known form. Each of them must be a single word.

    `-v` is not accepted: it looks up a name and evaluates its subscript.
    """
    if words and words[0].resolved == "!":
        words = words[1:]
    texts = [word.resolved for word in words]
    if len(words) == 2:
        return texts[0] in _TESTS
    if len(words) != 3:
        return False
    if texts[1] in _NUMERIC:
        return all(_is_number(word) for word in (words[0], words[2]))
    return texts[1] in _COMPARISONS


def _is_number(word: Word) -> bool:
    """Return whether a word is a number; zsh evaluates other operands of a comparison and runs their substitutions."""
    return (word.resolved or word.prefix or "").isdecimal() and (word.resolved is not None or word.prefix == "0")


# Their options only format, and their operands are only texts.
_SAYING: Final = frozenset(
    {"echo", "true", "false", ":", "wc", "basename", "dirname", "sleep", "seq", "exit", "wait", "kill"}
)
# None of their options writes or runs anything; their operands are files to read.
_READING: Final = frozenset({
    "cat", "head", "tail", "grep", "egrep", "fgrep", "ls", "stat", "md5sum", "sha1sum", "sha256sum", "cksum", "cut", "nl",
    "tac", "diff", "cmp", "comm", "paste", "du", "realpath", "readlink",
})  # fmt: skip
_PRINTED = late_pattern(r"(?:[^%\\]|%%|\\[ntr\\]|%-?[0-9]*s)*+")
_NAME = late_pattern(r"[a-z][a-z0-9-]*")
_ANY_TEXT: Final = frozenset({OperandKind.TEXT, OperandKind.NAME, OperandKind.READ, OperandKind.FOLDER})
"""Kinds of operands that may be any text; for those that name a file, the form requires it to be below the folder."""


def unknown_word(command: ShellCommand, form: NormalForm | None = None) -> str | None:
    """Return why no rule covers a command with words of unknown value: a sentence, or None.

    If the program has a table, `form` determines which words may be options, and the kinds of the others.
    """
    unknown = [word for word in command.words[1:] if word.resolved is None]
    if not unknown:
        return None
    name = command.name
    if name not in _READING | _SAYING and any(word.raw.startswith("<(") for word in unknown):
        allowed = False
    elif name in ("test", "["):
        allowed = _tested(command)
    elif name == "printf":
        allowed = _printed(command)
    elif form is not None and form.program != "find":
        allowed = all(one.kind in _ANY_TEXT for one in form.operands if command.words[one.at].resolved is None)
        allowed = allowed and form.inner is None
    elif name in _READING:
        allowed = all(word.inside for word in unknown)
    else:
        allowed = name in _SAYING
    return None if allowed else f"`{unknown[0].raw}` expands to a value that is known only when the line runs"


def speaks_of(rule: str, command: ShellCommand, form: NormalForm | None) -> bool:
    """Return whether a rule that restricts commands may apply to this one; a catch-all does not count."""
    first, *rest = rule.split() or [""]
    if first.startswith("*"):
        return bool(rest or first.strip("*?:"))
    name = command.name or ""
    if not whole_glob(first.removesuffix(":*"))(basename(name)) and not whole_glob(first)(name):
        return False
    named = form.path[0] if form is not None and form.path else None
    return named is None or not rest or _NAME.fullmatch(rest[0]) is None or rest[0] == named


def _printed(command: ShellCommand) -> bool:
    form = command.words[1].resolved
    return form is not None and not form.startswith("-") and _PRINTED.fullmatch(form) is not None


def _tested(command: ShellCommand) -> bool:
    words = list(command.words[1:])
    if command.name == "[":
        if words[-1].resolved != "]":
            return False
        words.pop()
    return not any(word.several for word in words) and is_known_test(words)


_ASSIGNED = late_pattern(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:=(?P<value>.*))?", re.DOTALL)
_SET = late_pattern(r"[-+][eux]+|[-+][eux]*o|pipefail|errexit|nounset|xtrace")
_READ = late_pattern(r"-[rs]+")
_READ_VALUED = late_pattern(r"-[rs]*[dntp]")
_ENVIRONMENT = late_pattern(r"(?:\./)?(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*(?:\.venv|venv|\.env|env)/bin/activate")
_PLAIN_NAME = late_pattern(r"[A-Za-z0-9_.+-]+")


def is_harmless_builtin(command: ShellCommand) -> bool:
    """Return whether a command is a builtin in a form that does not affect later commands."""
    shape = _SHAPES.get(command.name or "")
    if shape is None or any(word.glob or word.tilde for word in command.words[1:]):
        return False
    words = [word.resolved for word in command.words[1:]]
    known = [word for word in words if word is not None]
    return len(known) == len(words) and shape(known)


def _export(words: Sequence[str]) -> bool:
    found = [_ASSIGNED.fullmatch(word) for word in words]
    return bool(found) and all(one is not None and one["name"] in HARMLESS for one in found)


def _read(words: Sequence[str]) -> bool:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if _READ_VALUED.fullmatch(words[at]):
            at += 2
        elif _READ.fullmatch(words[at]):
            at += 1
        else:
            return False
    return at < len(words) and all(map(may_be_set, words[at:]))


def _set(words: Sequence[str]) -> bool:
    """Return whether the words are `set -euo pipefail` or part of it, without operands or other options."""
    return bool(words) and words[0].startswith(("-", "+")) and all(map(_SET.fullmatch, words))


def _source(words: Sequence[str]) -> bool:
    return len(words) == 1 and _ENVIRONMENT.fullmatch(words[0]) is not None


def _looks_up(words: Sequence[str]) -> bool:
    """Return whether the words are those of `command -v NAME`, which only looks up names."""
    return len(words) > 1 and words[0] in ("-v", "-V") and all(map(_PLAIN_NAME.fullmatch, words[1:]))


_SHAPES: Final[dict[str, Callable[[Sequence[str]], bool]]] = {
    "export": _export,
    "read": _read,
    "set": _set,
    "source": _source,
    ".": _source,
    "command": _looks_up,
}


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

"""Words whose value is known only when the line runs, and the conditions under which a rule may cover them."""

from __future__ import annotations

from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.matching.wildcard import whole_glob
from ledger.policy.shell.conditions import is_known_test
from ledger.policy.shell.forms.model import NormalForm
from ledger.policy.shell.forms.nodes import OperandKind
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.names import basename

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

"""The words of a line that name no file to be written: files that are only read, patterns and texts. Pure.

A program's table says so. A program without one, or a word that its table does not explain, may write.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from ledger.policy.shell.builtins import is_harmless_builtin
from ledger.policy.shell.files import LineOfFiles
from ledger.policy.shell.forms import Effect, NormalForm, OperandKind, form_of_words
from ledger.policy.shell.model import Analysis, ShellCommand, Word, accesses
from ledger.policy.shell.names import basename

READERS: Final = frozenset(
    ("bat", "cat", "cmp", "cut", "diff", "du", "egrep", "fgrep", "file", "grep", "head", "jq", "less", "ls", "md5sum",
     "more", "od", "rg", "sha256sum", "stat", "strings", "tail", "test", "[", "tree", "wc", "xxd", "cd")
)  # fmt: skip
"""Programs that read a hooks file, or enter its folder, without changing it."""

_TEXTS: Final = frozenset({OperandKind.TEXT, OperandKind.NAME, OperandKind.TASK, OperandKind.URL})
_WRITTEN: Final = frozenset({OperandKind.WRITE, OperandKind.EDIT, OperandKind.OUTPUT})
_HARMLESS: Final = frozenset({Effect.PLAIN, Effect.READ, Effect.URL})
_A_NAME: Final = Word("name", "name")


class LineReading:
    """The commands of one line, and what they do with their words."""

    def __init__(self, analysis: Analysis) -> None:
        self._commands = analysis.commands
        followed = analysis.plain or analysis.redirects_only
        self._passes_names = not followed or LineOfFiles.of(self._commands).takes_names
        self._runs: dict[str, list[ShellCommand]] = {}
        for command in self._commands:
            # A wrapper's text is longer than that of what it runs, unless that is made of the line's input.
            if command.wrapper is not None and len(command.text) < len(command.inside or ""):
                self._runs.setdefault(command.inside or "", []).append(command)
        self._read: dict[int, frozenset[int]] = {}

    def only_reads(self, command: ShellCommand, at: int) -> bool:
        """Return whether no file is written that the word at this index names.

        The words of a command behind a wrapper are judged with that command, and count as read here.
        """
        if basename(command.name or "") in READERS or at in self._inner_words(command):
            return True
        if id(command) not in self._read:  # the line's commands live as long as this object
            self._read[id(command)] = self._read_words(command)
        return at in self._read[id(command)] and (not self._passes_names or self._writes_nothing)

    @cached_property
    def _writes_nothing(self) -> bool:
        """Return whether a command that is given names by another one has nothing to write them to."""
        return all(map(self._is_reading, self._commands))

    def _is_reading(self, command: ShellCommand) -> bool:
        if any(accesses(one) and not one.operator.endswith("<") for one in command.redirects):
            return False
        if not command.words or basename(command.name or "") in READERS or is_harmless_builtin(command):
            return True
        runs = self._runs.get(command.text)
        if runs is not None:
            return all(map(self._is_reading, runs))
        if command.wrapper is not None:  # `xargs` gives it more operands
            command = replace(command, words=(*command.words, _A_NAME))
        read = self._read_words(command)
        return all(at in read for at in range(1, len(command.words)))

    def _inner_words(self, command: ShellCommand) -> frozenset[int]:
        """Return the indexes of the words that are commands of their own: `cat a` in `timeout 5 cat a`."""
        found = set[int]()
        for inner in self._runs.get(command.text, ()):
            count = len(inner.words)
            starts = [at for at in range(len(command.words)) if command.words[at : at + count] == inner.words]
            found.update(at for start in starts[-1:] for at in range(start, start + count))
        return frozenset(found)

    def _read_words(self, command: ShellCommand) -> frozenset[int]:
        runs = self._runs.get(command.text, ())
        inner = self._inner_words(command) if runs and all(map(self._is_reading, runs)) else frozenset[int]()
        return frozenset(_read(command.words, inner))


def _read(words: Sequence[Word], inner: frozenset[int]) -> set[int]:
    """Return the indexes of the words that are only read, or are texts; none if a word is not explained.

    `inner` are the indexes of the words of a command that it runs, if that one only reads.
    """
    form = form_of_words([replace(word, glob=False) for word in words])
    if form is None or any(one.at not in inner for one in form.unclear) or any(node.always for node in form.nodes):
        return set()
    odd = {one.effect for one in form.options} & {Effect.ASKS, Effect.CODE, Effect.PROGRAM}
    if odd and not (odd == {Effect.CODE} and inner):
        return set()
    found = {at for at, word in enumerate(words) if at == 0 or word.resolved == "--"}
    found |= {*form.path_at, *(one.at for one in form.operands if _is_read(one.kind, form))}
    for option in form.options:
        if option.effect in _HARMLESS:
            found |= {at for at in (option.at, option.value_at) if at is not None}
    found -= {at for one in form.options if one.effect not in _HARMLESS for at in (one.at, one.value_at)}
    if form.inner is not None:
        before = len(words) - len(form.inner.words)
        found |= {before + at for at in _read(form.inner.words, frozenset())}
    return found


def _is_read(kind: OperandKind, form: NormalForm) -> bool:
    if kind is OperandKind.READ:  # beside a file to write, it may be moved or linked
        return not form.edits and not any(one.kind in _WRITTEN for one in form.operands)
    return kind in _TEXTS

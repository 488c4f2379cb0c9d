"""The files that the words of one command name as programs, by the table of its program. Pure; linear in the words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.policy.shell.model import Word
from ledger.policy.shell.operands.values import LineValues, PathText
from ledger.policy.shell.tables.operands import OptionRole, ProgramFiles
from ledger.policy.shell.words import loosen

WORDS_COUNT: Final = 1_000
"""Words of one command that are read."""

_SUBSTITUTIONS: Final = ("$(", "`", "<(")


class CommandReading:
    """The files, folders and module that the words of a command name, and the source of its program text."""

    def __init__(self, entry: ProgramFiles, words: Sequence[Word], values: LineValues) -> None:
        self.entry = entry
        self.programs: list[PathText] = []
        self.others: list[PathText] = []
        """Operands that the table does not take for programs."""
        self.files: list[PathText] = []
        self.folders: list[PathText] = []
        self.module: str | None = None
        self.rest: Sequence[Word] = ()
        """The words of a module, its name first."""
        self.has_code = False
        self.from_stdin = False
        self._roles = dict(entry.options)
        self._words = words[:WORDS_COUNT]
        self._values = values
        self._operands_count = 0
        self._read()
        unquoted = [word.raw for word in self._words[1:] if not word.raw.startswith("'")]
        self.substitutes = any(mark in raw for raw in unquoted for mark in _SUBSTITUTIONS)
        """A word holds the output of another command."""

    @property
    def reads_stdin(self) -> bool:
        """Return whether the program text comes from standard input, as far as the words say."""
        if self.from_stdin or not self.entry.stdin:
            return self.from_stdin
        return not (self.has_code or self.programs or self.module or self._has_program)

    @property
    def _has_program(self) -> bool:
        return self.entry.program == "first" and self._operands_count > 0

    def _read(self) -> None:
        at, ended = 1, False
        while at < len(self._words) and self.module is None:
            word = self._words[at]
            text = loosen(word)
            if not ended and (text == "--" or (text == "-" and self.entry.program != "none")):
                ended = True
                if text == "-" and not self._ends_at_dash:
                    self.from_stdin = True
                    return
                at += 1
            elif not ended and len(text) > 1 and text[0] in "-+" and not self._is_behind_command:
                at = self._option(at, text)
            else:
                if not self._operand(word, text):
                    return
                at += 1

    @property
    def _ends_at_dash(self) -> bool:
        """Return whether `-` ends the options, as in a shell, rather than naming standard input."""
        return "-s" in self.entry.from_stdin

    @property
    def _is_behind_command(self) -> bool:
        return self.entry.leading and self._operands_count > 0

    # --- operands

    def _operand(self, word: Word, text: str) -> bool:
        """Record an operand. Return whether the next words are the command's own."""
        below = self.entry.below.get(text) if not self._operands_count else None
        if below is not None:
            self.entry = below
            self._roles |= below.options
            return True
        self._operands_count += 1
        value = self._values.of(word)
        if self.entry.program == "none":
            if value is not None:
                self.others.append(value)
            return True
        if value is not None:
            self._program(value)
        return self.entry.program == "all"

    def _program(self, value: PathText) -> None:
        pattern = self.entry.matching
        named = value.text.partition("::")[0] if pattern is not None else value.text
        if self.has_code or self.from_stdin:
            return
        if pattern is None or pattern.fullmatch(named):
            self.programs.append(value._replace(text=named))
        else:
            self.others.append(value)

    # --- options

    def _option(self, at: int, text: str) -> int:
        """Read the option at an index; return the index after it and its value."""
        name, equals, value = text.partition("=")
        role = self._roles.get(text) or (self._roles.get(name) if equals else None)
        if role is not None:
            return self._given(at, role, value if self._roles.get(text) is None else None)
        if text.startswith("--") or self.entry.one_dash:
            return at + 1
        return self._cluster(at, text)

    def _cluster(self, at: int, text: str) -> int:
        """Read `-abcVALUE`: each letter is an option, and the first one with a value takes the rest or the next word."""
        for index, letter in enumerate(text[1:], 2):
            role = self._roles.get(text[0] + letter)
            if role is OptionRole.GLUED:
                return at + 1
            if role is OptionRole.FROM_STDIN:
                self.from_stdin = True
            elif role is OptionRole.CODE:
                self.has_code = True
                if index == len(text):
                    return self._given(at, role, None)
            elif role is not None:
                return self._given(at, role, text[index:].removeprefix("=") or None)
        return at + 1

    def _given(self, at: int, role: OptionRole, value: str | None) -> int:
        """Record an option with its attached value, or else with the next word; return the index after both."""
        if role is OptionRole.FROM_STDIN:
            self.from_stdin = True
        if role in (OptionRole.FROM_STDIN, OptionRole.GLUED):
            return at + 1
        behind = at + 1 if value is not None else at + 2
        self.has_code |= role is OptionRole.CODE
        found = self._value(at, value)
        if found is None:
            return behind
        if role in (OptionRole.FILES, OptionRole.SCRIPT) and found.text == "-":
            self.from_stdin = True
            return behind
        if role is OptionRole.MODULE:
            self.module = found.text
            self.rest = (Word(found.text, found.text), *self._words[behind:])
        elif role is OptionRole.SCRIPT:
            self.programs.append(found)
            return len(self._words)
        elif role is OptionRole.FILES:
            self.files.append(found)
        elif role is OptionRole.FOLDER:
            self.folders.append(found)
        return behind

    def _value(self, at: int, attached: str | None) -> PathText | None:
        """Return the value of the option at an index; None if there is none, or if it is known only when it runs."""
        word = self._words[at]
        if attached is None:
            return self._values.of(self._words[at + 1]) if at + 1 < len(self._words) else None
        return PathText(attached, word.glob) if word.resolved is not None else self._values.of(Word(attached, None))

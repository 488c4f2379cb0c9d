"""Values of a program table and of the normal form that it gives a command; tables are decoded when first asked for."""

from __future__ import annotations

from enum import StrEnum
from functools import cache, cached_property
from typing import Final, Literal

import msgspec

from ledger.policy.data_files import Span, program_spans, read_span
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.names import lookups


class Effect(StrEnum):
    """The effect of an option, or of its value."""

    PLAIN = "plain"
    READ = "read"
    WRITE = "write"
    OUTPUT = "output"
    EDITS = "edits"
    FOLDER = "folder"
    URL = "url"
    CODE = "code"
    PROGRAM = "program"
    ASKS = "asks"


class OperandKind(StrEnum):
    """The kind of an operand."""

    TEXT = "text"
    NAME = "name"
    TASK = "task"
    READ = "read"
    WRITE = "write"
    EDIT = "edit"
    OUTPUT = "output"
    FOLDER = "folder"
    URL = "url"
    CODE = "code"
    SCRIPT = "script"
    PROGRAM = "program"
    WORDS = "words"


class Arity(StrEnum):
    """The place of an option's value: none, attached to the option's word, or attached or in the next word."""

    NONE = "none"
    GLUED = "glued"
    NEXT = "next"


class Option(msgspec.Struct, frozen=True, array_like=True):
    """One option, with all its names; they include their dashes."""

    names: tuple[str, ...]
    effect: Effect = Effect.PLAIN
    arity: Arity = Arity.NONE

    @property
    def name(self) -> str:
        """Return the canonical name."""
        return self.names[-1]


Style = Literal["gnu", "posix", "go", "words", "dd", "echo"]

MILD: Final = frozenset({Effect.PLAIN, Effect.READ})
"""Effects that are harmless for an unknown word: it may read a file and show less or more."""


class Operands(msgspec.Struct, frozen=True):
    """The kinds of operands in order: `first` ones, then any number of `many`, then `last` ones."""

    first: tuple[OperandKind, ...] = ()
    many: OperandKind | None = None
    last: tuple[OperandKind, ...] = ()
    missing_count: int = 0

    def kind_at(self, index: int) -> OperandKind | None:
        """Return the kind of an operand while the number of following ones is unknown; None beyond the end."""
        if index < len(self.first):
            return self.first[index]
        return self.many or (self.last[index - len(self.first)] if index - len(self.first) < len(self.last) else None)

    def kinds(self, count: int) -> tuple[OperandKind | None, ...]:
        """Return the kinds of `count` operands; None for each surplus one."""
        last = min(len(self.last), max(count - len(self.first), 0))
        first = min(len(self.first), count - last)
        between = count - first - last
        return (*self.first[:first], *[self.many] * between, *self.last[len(self.last) - last :])


class ProgramNode(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A program or sub-command; the documentation of the program tables describes the fields.

    `name` is the canonical one, `aliases` are the others. `listed` are its options, `below` its sub-commands.
    """

    name: str
    aliases: tuple[str, ...] = ()
    version: str = ""
    style: Style = "gnu"
    listed: tuple[Option, ...] = ()
    operands: Operands | None = None
    first_from: frozenset[str] = frozenset()
    interspersed: bool = True
    digits: bool = False
    dashes: Literal["end", "words", "option"] = "end"
    negatable: bool = False
    caseless: bool = False
    separators: str = "="
    old_style: bool = False
    glued: bool = True
    means: dict[str, frozenset[str]] = {}
    operand_means: dict[str, str] = {}
    assignment_asks: frozenset[str] | None = None
    words_ask: str = ""
    harmless: dict[str, str] = {}
    operand_also: str = ""
    stands_for: tuple[str, ...] = ()
    inner_allowed: bool = False
    spell: bool = False
    always: bool = False
    commands_abbreviated: bool = False
    globals: Literal["before", "anywhere"] = "before"
    below: tuple[ProgramNode, ...] = ()
    same: tuple[str, ...] = ()
    language: Literal["", "awk", "sed"] = ""
    blank_first: bool = False

    @cached_property
    def options(self) -> dict[str, Option]:
        """Return the options under all their names."""
        return {name: option for option in self.listed for name in option.names}

    @cached_property
    def commands(self) -> dict[str, ProgramNode]:
        """Return the sub-commands under all their names."""
        return {name: node for node in self.below for name in (node.name, *node.aliases)}

    @cached_property
    def is_mild(self) -> bool:
        """Return whether no option, taken for another word, would do more than read."""
        return not self.commands and not self.always and all(one.effect in MILD for one in self.options.values())

    @cached_property
    def one_dash_names(self) -> frozenset[str]:
        """Return the names of several letters after a single dash."""
        return frozenset(name for name in self.options if len(name) > 2 and name[1] != "-")

    @cached_property
    def command_patterns(self) -> tuple[str, ...]:
        """Return the sub-command names with a wildcard, the longest first."""
        return tuple(sorted((name for name in self.commands if "*" in name), key=len, reverse=True))

    @cached_property
    def long_names(self) -> tuple[str, ...]:
        """Return the names that begin with two dashes, sorted."""
        return tuple(sorted(name for name in self.options if name.startswith("--")))


@cache
def _table(span: Span) -> ProgramNode:
    return read_span(ProgramNode, span)


def known_programs() -> tuple[str, ...]:
    """Return every name of a program that has a table, sorted."""
    return tuple(sorted(program_spans()))


def program_table(program: str) -> ProgramNode | None:
    """Return the table of a program by its name in a command, with or without a path; None without one."""
    spans = program_spans()
    return next((_table(spans[name]) for name in lookups(program) if name in spans), None)


class Given(msgspec.Struct, frozen=True, omit_defaults=True):
    """An option as given: its canonical name, its value, and the indexes of its words.

    `at` is the index of the option's word in the command; `value_at` that of its value, if the value is a separate
    word.
    """

    name: str
    effect: Effect
    value: str | None = None
    at: int = 0
    value_at: int | None = None


class OperandWord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A word that is not an option: its text, its kind, and its index in the command.

    `is_known` is false for a word whose value is known only when the line runs; `text` is then as written. If such a
    word is known to lie below the folder, its text is a glob.
    """

    text: str
    kind: OperandKind
    at: int = 0
    is_known: bool = True
    also: str | None = None
    """Another name of the same thing, which a deny may use: `main` for `HEAD:main`."""


class Unclear(msgspec.Struct, frozen=True):
    """A word that the form cannot represent, with the reason: a sentence without a full stop."""

    text: str
    reason: str
    at: int = 0


class NormalForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """The meaning of a command: program, path of sub-commands, options, operands.

    `means` are the names of options that other options imply. `path_at` are the indexes of the words that name the
    sub-commands. `inner` is the command that a runner (`npx`, `uv run`) runs. `unclear` are the words that were not
    understood.
    """

    program: str
    path: tuple[str, ...] = ()
    options: tuple[Given, ...] = ()
    operands: tuple[OperandWord, ...] = ()
    unclear: tuple[Unclear, ...] = ()
    means: frozenset[str] = frozenset()
    path_at: tuple[int, ...] = ()
    nodes: tuple[ProgramNode, ...] = ()
    inner: ShellCommand | None = None

    @property
    def names(self) -> frozenset[str]:
        """Return the canonical names of all options, given or implied."""
        return frozenset(one.name for one in self.options) | self.means

    @property
    def edits(self) -> bool:
        """Return whether an option makes the command change the files it is given."""
        return any(one.effect is Effect.EDITS for one in self.options)

"""The normal form of a command."""

from __future__ import annotations

import msgspec

from ledger.policy.shell.forms.nodes import Effect, OperandKind, ProgramNode
from ledger.policy.shell.model import ShellCommand


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

"""A command in its normal form, as a value."""

from __future__ import annotations

import msgspec

from ledger.policy.shell.forms.nodes import Effect, Kind, Node
from ledger.policy.shell.model import Command


class Given(msgspec.Struct, frozen=True, omit_defaults=True):
    """An option as it was given: its canonical name, its value, and the word that it stands in.

    `at` is the index of that word among the command's words; `value_at` that of its value, where that is a word of its
    own.
    """

    name: str
    effect: Effect
    value: str | None = None
    at: int = 0
    value_at: int | None = None


class Operand(msgspec.Struct, frozen=True, omit_defaults=True):
    """A word that is no option: its text, what it is, and its index among the command's words.

    `is_known` is false for a word that is known only when the line runs; `text` is then as written. A word of which only
    that it lies below the folder is known has a glob as its text.
    """

    text: str
    kind: Kind
    at: int = 0
    is_known: bool = True
    also: str | None = None
    """Another name for the same thing, under which a deny may know it: `main` for `HEAD:main`."""


class Unclear(msgspec.Struct, frozen=True):
    """A word that the form cannot say, and why: a sentence without a full stop."""

    text: str
    reason: str
    at: int = 0


class NormalForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a command means: program, path of sub-commands, options, operands.

    `means` are the names of options that others imply. `path_at` are the indexes of the words that named the
    sub-commands. `inner` is the command that a runner (`npx`, `uv run`) runs, `unclear` what was not understood.
    """

    program: str
    path: tuple[str, ...] = ()
    options: tuple[Given, ...] = ()
    operands: tuple[Operand, ...] = ()
    unclear: tuple[Unclear, ...] = ()
    means: frozenset[str] = frozenset()
    path_at: tuple[int, ...] = ()
    nodes: tuple[Node, ...] = ()
    inner: Command | None = None

    @property
    def names(self) -> frozenset[str]:
        """Return the canonical names of all options, given or implied."""
        return frozenset(one.name for one in self.options) | self.means

    @property
    def edits(self) -> bool:
        """Return whether an option makes it change the files that it is given."""
        return any(one.effect is Effect.EDITS for one in self.options)

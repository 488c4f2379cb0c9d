"""The syntax tree of the strict reader. Values only."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class PieceKind(StrEnum):
    """The kinds of a piece of a word."""

    TEXT = "text"  # literal; may hold globs, braces and a tilde if unquoted
    VARIABLE = "variable"  # `$x`, `${x}`
    CHANGED = "changed"  # `${x:-text}`, `${x%.ts}`, `${PIPESTATUS[0]}`
    NUMBER = "number"  # `$?`, `$#`, `$!`, `$$`, `${#x}`
    ARITHMETIC = "arithmetic"  # `$((…))`; `text` holds its names, joined by blanks
    SCRIPT = "script"  # `$(…)`
    STREAM = "stream"  # `<(…)`


class WordPiece(msgspec.Struct, frozen=True):
    """One piece of a word. `text` of a variable is its name. `script` is the list of a substitution."""

    kind: PieceKind
    text: str
    quoted: bool
    script: Compound | None = None


class WrittenWord(msgspec.Struct, frozen=True):
    """A word as written: its source text and its pieces."""

    raw: str
    pieces: tuple[WordPiece, ...]


class Here:
    """A here-document whose text has not been read yet."""

    __slots__ = ("body", "delimiter", "literal", "tabs")

    def __init__(self, delimiter: str, *, literal: bool, tabs: bool) -> None:
        self.delimiter, self.literal, self.tabs = delimiter, literal, tabs
        self.body: str | None = None


class Redirection(msgspec.Struct, frozen=True):
    """A redirection. `here` is the here-document, whose delimiter is then the `target`."""

    operator: str
    target: WrittenWord
    text: str
    here: Here | None = None


class Simple(msgspec.Struct, frozen=True):
    """A simple command. `text` is its source without redirections and assignments, `statement` its whole source."""

    assignments: tuple[tuple[str, WrittenWord], ...]
    words: tuple[WrittenWord, ...]
    redirections: tuple[Redirection, ...]
    text: str
    statement: str


class Shape(StrEnum):
    """The kinds of a compound."""

    LIST = "list"  # parts joined by `&& || ; &` or newlines
    PIPE = "pipe"
    SUBSHELL = "subshell"
    GROUP = "group"
    NOT = "not"
    FOR = "for"
    WHILE = "while"  # and `until`: condition and body
    TEST = "test"  # `[[ … ]]`: `words` are those between the brackets
    IF = "if"  # conditions and bodies alternate; the body of `else` is last


class Compound(msgspec.Struct, frozen=True):
    """A compound command. `operators` follow the parts of a list; `name` and `words` are those of a `for`."""

    shape: Shape
    parts: tuple[SyntaxNode, ...]
    operators: tuple[str, ...] = ()
    name: str = ""
    words: tuple[WrittenWord, ...] = ()
    redirections: tuple[Redirection, ...] = ()


SyntaxNode = Simple | Compound

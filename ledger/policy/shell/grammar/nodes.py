"""The syntax tree of a line that the strict reader understands. Values only."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """The kinds of a piece of a word."""

    TEXT = "text"  # literal; when unquoted it may hold globs, braces and a tilde
    VARIABLE = "variable"  # `$x`, `${x}`
    NUMBER = "number"  # `$?`, `$#`, `$!`, `$$`, `${#x}`
    ARITHMETIC = "arithmetic"  # `$((…))`; `text` holds the names in it, joined by blanks
    SCRIPT = "script"  # `$(…)`


class Piece(msgspec.Struct, frozen=True):
    """One piece of a word; `text` of a variable is its name. `script` is the list of a substitution."""

    kind: Kind
    text: str
    quoted: bool
    script: Compound | None = None


class Written(msgspec.Struct, frozen=True):
    """A word as written: its source text and its pieces."""

    raw: str
    pieces: tuple[Piece, ...]


class Here:
    """A here-document whose text has not been read yet."""

    __slots__ = ("body", "delimiter", "literal", "tabs")

    def __init__(self, delimiter: str, *, literal: bool, tabs: bool) -> None:
        self.delimiter, self.literal, self.tabs = delimiter, literal, tabs
        self.body: str | None = None


class Redirection(msgspec.Struct, frozen=True):
    """A redirection; `here` is a here-document, whose `target` is its delimiter."""

    operator: str
    target: Written
    text: str
    here: Here | None = None


class Simple(msgspec.Struct, frozen=True):
    """A simple command. `text` is its source without redirections and assignments, `statement` its whole source."""

    assignments: tuple[tuple[str, Written], ...]
    words: tuple[Written, ...]
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
    TEST = "test"  # `[[ … ]]`: `words` are those inside
    IF = "if"  # condition and body in turn, and the body of `else`


class Compound(msgspec.Struct, frozen=True):
    """A compound of parts. `operators` stand behind the parts of a list; `name` and `words` are those of a `for`."""

    shape: Shape
    parts: tuple[Node, ...]
    operators: tuple[str, ...] = ()
    name: str = ""
    words: tuple[Written, ...] = ()
    redirections: tuple[Redirection, ...] = ()


Node = Simple | Compound

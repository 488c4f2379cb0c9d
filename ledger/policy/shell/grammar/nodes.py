"""The syntax tree of the strict reader, and the position in the source text from which it is read."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.lexer import NotPlain
from ledger.policy.shell.names import may_hold_a_secret


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


DEPTH_MAX: Final = 24
"""Maximum nesting of groups, loops and substitutions."""

WORDS_MAX: Final = 4_000
"""Maximum words of a line that are read, including those of substitutions."""

_BLANK = late_pattern(r"(?:[ \t]|\\\n)++")
_VARIABLE = late_pattern(r"\$(?:([A-Za-z_][A-Za-z0-9_]*+)(?![\[:])|\{([A-Za-z_][A-Za-z0-9_]*+)\})")
_COMMENT = late_pattern(r"\#[^\n]*+")
_LINE = late_pattern(r"[^\n]*+")


class Cursor:
    """A position in a source text. `at` is the index of the next character; `depth` counts open constructs."""

    __slots__ = ("at", "depth", "pending", "source", "words")

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.depth = self.words = 0
        self.pending: list[Here] = []

    def peek(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    def char(self, offset: int = 0) -> str:
        at = self.at + offset
        return self.source[at] if at < len(self.source) else ""

    def match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.source, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group()

    def blanks(self) -> None:
        """Skip blanks, continued lines and a comment."""
        self.match(_BLANK)
        if self.char() == "#" and (self.at == 0 or self.source[self.at - 1] in " \t\n;&|()"):
            self.match(_COMMENT)

    def newline(self) -> None:
        """Skip a newline and read the texts of the pending here-documents."""
        self.at += 1
        for here in self.pending:
            here.body = self._body(here)
        self.pending.clear()

    def newlines(self) -> None:
        """Skip blanks and empty lines."""
        self.blanks()
        while self.char() == "\n":
            self.newline()
            self.blanks()

    def count_word(self) -> None:
        self.words += 1
        if self.words > WORDS_MAX:
            raise NotPlain(f"the line holds more than {WORDS_MAX:,} words, and not only simple commands")

    def enter(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise NotPlain(f"the line nests more than {DEPTH_MAX} deep")

    def leave(self) -> None:
        self.depth -= 1

    def _body(self, here: Here) -> str:
        """Read up to the delimiter.

        Raises NotPlain for a line that only starts like it, because shells differ there.
        """
        lines = list[str]()
        while self.at < len(self.source):
            line = self.match(_LINE) or ""
            self.at = min(self.at + 1, len(self.source))
            if (line.lstrip("\t") if here.tabs else line) == here.delimiter:
                return _checked(here, "".join(lines))
            if line.strip().startswith(here.delimiter):
                raise NotPlain(f"a line of a here-document begins like its delimiter `{here.delimiter}`")
            lines.append((line.lstrip("\t") if here.tabs else line) + "\n")
        raise NotPlain(f"the here-document has no closing `{here.delimiter}`")


def _checked(here: Here, body: str) -> str:
    """Return the text, whose variables are data if the delimiter is unquoted.

    Raises NotPlain for anything else that expands.
    """
    if here.literal:
        return body
    names = [found[1] or found[2] for found in _VARIABLE.finditer(body)]
    if len(names) != body.count("$") or "`" in body or "\\" in body:
        raise NotPlain("a here-document holds something that is known only when the line runs")
    secret = next(filter(may_hold_a_secret, names), None)
    if secret is not None:
        raise NotPlain(f"`${secret}` may hold a secret")
    return body

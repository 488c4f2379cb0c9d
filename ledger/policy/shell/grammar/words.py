"""The reader of one word with its quotes, variables and substitutions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.cursor import Cursor
from ledger.policy.shell.grammar.nodes import Compound, PieceKind, WordPiece, WrittenWord
from ledger.policy.shell.lexer import NotPlain
from ledger.policy.shell.words import LITERAL_DOLLAR

_BARE = late_pattern(r"[^\s'\"\\$`&|;<>()]++")
_SINGLE = late_pattern(r"'[^']*+'")
_DOUBLE_TEXT = late_pattern(r'(?:[^"\\$`]|\\[^\n])++')
_DOUBLE_ESCAPE = late_pattern(r'\\([$`"\\])')
_NAME = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*+")
_BRACED = late_pattern(r"\{(?P<size>\#)?(?P<name>[A-Za-z_][A-Za-z0-9_]*+)\}")
_ARITHMETIC = late_pattern(r"\(\((?P<text>[A-Za-z0-9_ \t+*/%-]*+)\)\)")
_ENDS: Final = " \t\n&|;<>()"

# `$x[1]` and `$x:h` have another meaning in zsh, `$x{a,b}` in bash; a continued line may extend the name.
_AFTER_NAME: Final = ("[", ":", "{", "\\")
_AFTER_NUMBER = late_pattern(r"[A-Za-z0-9_\[:{(\\]")
_LITERAL_DOLLAR = late_pattern(LITERAL_DOLLAR)

ScriptReader = Callable[[Cursor], Compound]


def read_word(cursor: Cursor, script: ScriptReader) -> WrittenWord | None:
    """Read the word at the cursor; None if there is none. `script` reads the inside of a substitution."""
    cursor.count_word()
    begin, pieces = cursor.at, list[WordPiece]()
    while cursor.at < len(cursor.source):
        char = cursor.char()
        if char in _ENDS:
            break
        if char == "'":
            text = cursor.match(_SINGLE)
            if text is None:
                raise NotPlain("a single quote is not closed")
            pieces.append(WordPiece(PieceKind.TEXT, text[1:-1], quoted=True))
        elif char == '"':
            pieces += _double(cursor, script)
        elif char == "\\":
            pieces.append(_escape(cursor))
        elif char == "$":
            pieces.append(_dollar(cursor, script, quoted=False))
        elif char == "`":
            raise NotPlain("a backtick runs another command inside this one")
        else:
            text = cursor.match(_BARE)
            if text is None:
                raise NotPlain(f"unexpected `{char}`")
            pieces.append(WordPiece(PieceKind.TEXT, text, quoted=False))
    raw = cursor.source[begin : cursor.at]
    if cursor.pending and "\n" in raw:
        raise NotPlain("a word continues after the line on which a here-document begins")
    return WrittenWord(raw, tuple(pieces)) if pieces else None


def _escape(cursor: Cursor) -> WordPiece:
    following = cursor.char(1)
    if following in ("", "\n"):
        raise NotPlain("a word ends with a backslash at the end of the line")
    cursor.at += 2
    return WordPiece(PieceKind.TEXT, following, quoted=True)


def _double(cursor: Cursor, script: ScriptReader) -> list[WordPiece]:
    cursor.at += 1
    pieces = [WordPiece(PieceKind.TEXT, "", quoted=True)]
    while True:
        char = cursor.char()
        if char == '"':
            cursor.at += 1
            return pieces
        if char == "$":
            pieces.append(_dollar(cursor, script, quoted=True))
        elif char == "`":
            raise NotPlain("a backtick runs another command inside this one")
        elif char == "\\" and cursor.char(1) == "\n":
            if pieces[-1].kind is not PieceKind.TEXT or pieces[-1].text.endswith("$"):
                raise NotPlain("a line ends with a backslash after a `$`")
            cursor.at += 2
        else:
            text = cursor.match(_DOUBLE_TEXT)
            if text is None:
                raise NotPlain("a double quote is not closed")
            pieces.append(WordPiece(PieceKind.TEXT, _DOUBLE_ESCAPE.sub(r"\1", text), quoted=True))


def _dollar(cursor: Cursor, script: ScriptReader, *, quoted: bool) -> WordPiece:
    cursor.at += 1
    char = cursor.char()
    if char == "(":
        return _parenthesis(cursor, script, quoted=quoted)
    if char == "{":
        return _braced(cursor, quoted=quoted)
    name = cursor.match(_NAME)
    if name is not None:
        if cursor.char() in _AFTER_NAME:
            raise NotPlain(f"shells differ about the meaning of `${name}{cursor.char()}`")
        return WordPiece(PieceKind.VARIABLE, name, quoted)
    if char in ("?", "#", "!", "$"):
        cursor.at += 1
        if cursor.match(_AFTER_NUMBER):
            raise NotPlain(f"shells differ about what follows `${char}`")
        return WordPiece(PieceKind.NUMBER, char, quoted)
    if quoted and _LITERAL_DOLLAR.match(cursor.source, cursor.at - 1):
        return WordPiece(PieceKind.TEXT, "$", quoted=True)
    raise NotPlain("`$` expands to a value that is known only when the line runs")


def _braced(cursor: Cursor, *, quoted: bool) -> WordPiece:
    found = _BRACED.match(cursor.source, cursor.at)
    if found is None:
        raise NotPlain("`${` is an unsupported form of expansion")
    cursor.at = found.end()
    return WordPiece(PieceKind.NUMBER if found["size"] else PieceKind.VARIABLE, found["name"], quoted)


def _parenthesis(cursor: Cursor, script: ScriptReader, *, quoted: bool) -> WordPiece:
    if cursor.char(1) == "(":
        found = _ARITHMETIC.match(cursor.source, cursor.at)
        if found is None:
            raise NotPlain("`$((` holds unsupported arithmetic")
        cursor.at = found.end()
        return WordPiece(PieceKind.ARITHMETIC, " ".join(_NAME.findall(found["text"])), quoted)
    if cursor.pending:
        raise NotPlain("a substitution follows the start of a here-document")
    cursor.at += 1
    begin = cursor.at
    cursor.enter()
    inner = script(cursor)
    if cursor.pending or cursor.char() != ")":
        raise NotPlain("a substitution has no end")
    if ends_early(cursor.source, begin, cursor.at):
        raise NotPlain("old shells end a substitution at a parenthesis inside quotes")
    cursor.leave()
    cursor.at += 1
    return WordPiece(PieceKind.SCRIPT, "", quoted, inner)


_COUNTED = late_pattern(r"""'[^']*+(?:'|\Z)|"(?:[^"\\]|\\.)*+(?:"|\Z)|\\.|[()]|[^'"\\()]++|\\""", re.DOTALL)


def ends_early(source: str, begin: int, end: int) -> bool:
    """Return whether a shell that counts parentheses in here-documents, as bash 3.2 does, ends `$(…)` before `end`."""
    depth, at = 1, begin
    while at < end:
        found = _COUNTED.match(source, at, end)
        if found is None:
            return True
        depth += {"(": 1, ")": -1}.get(found.group(), 0)
        if depth == 0:
            return True
        at = found.end()
    return False

"""The strict reader of a line: recursive descent over a small grammar. Any other syntax is not plain.

list     = pipeline { ("&&" | "||" | ";" | "&" | newline) pipeline }
pipeline = ["!"] ["time" ["-p"]] command { ("|" | "|&") command }
command  = simple | ("(" list ")" | "{" list "}" | for | while | if) { redirection }
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.nodes import (
    Compound,
    Cursor,
    Here,
    PieceKind,
    Redirection,
    Shape,
    Simple,
    SyntaxNode,
    WordPiece,
    WrittenWord,
)
from ledger.policy.shell.lexer import RESERVED, NotPlain
from ledger.policy.shell.words import LITERAL_DOLLAR

_BARE = late_pattern(r"[^\s'\"\\$`&|;<>()]++")
_SINGLE = late_pattern(r"'[^']*+'")
_DOUBLE_TEXT = late_pattern(r'(?:[^"\\$`]|\\[^\n])++')
_DOUBLE_ESCAPE = late_pattern(r'\\([$`"\\])')
_NAME = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*+")
_BRACED = late_pattern(
    r"\{(?:(?P<size>\#)?(?P<name>[A-Za-z_][A-Za-z0-9_]*+)"
    r"|(?P<changed>[A-Za-z_][A-Za-z0-9_]*+)(?::?[-+]|%%?|\#\#?)[A-Za-z0-9_.,:/@%+=*-]*+|(?P<status>PIPESTATUS)\[[0-9]++\])\}"
)
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
    if cursor.peek("<(") and cursor.char(-1) in (" ", "\t"):
        return _stream(cursor, script)
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


def _stream(cursor: Cursor, script: ScriptReader) -> WrittenWord:
    begin = cursor.at
    cursor.at += 1
    piece = _substituted(cursor, script, PieceKind.STREAM, quoted=False)
    if cursor.char() not in _ENDS:
        raise NotPlain("a text follows `<(…)`")
    return WrittenWord(cursor.source[begin : cursor.at], (piece,))


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
    if found["name"] is None:
        return WordPiece(PieceKind.CHANGED, found["changed"] or found["status"], quoted)
    return WordPiece(PieceKind.NUMBER if found["size"] else PieceKind.VARIABLE, found["name"], quoted)


def _parenthesis(cursor: Cursor, script: ScriptReader, *, quoted: bool) -> WordPiece:
    if cursor.char(1) == "(":
        found = _ARITHMETIC.match(cursor.source, cursor.at)
        if found is None:
            raise NotPlain("`$((` holds unsupported arithmetic")
        cursor.at = found.end()
        return WordPiece(PieceKind.ARITHMETIC, " ".join(_NAME.findall(found["text"])), quoted)
    return _substituted(cursor, script, PieceKind.SCRIPT, quoted=quoted)


def _substituted(cursor: Cursor, script: ScriptReader, kind: PieceKind, *, quoted: bool) -> WordPiece:
    """Read a substitution from its parenthesis to the end."""
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
    return WordPiece(kind, "", quoted, inner)


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


_REDIRECTION = late_pattern(r"&>>|&>|[0-9]*+(?:>>|>\||>&|<<<|<<-|<<|<&|<>|>|<)(?!\()")
_OPERATOR = late_pattern(r"&&|\|\||;|&")
_KEYWORD = late_pattern(r"(?:[!{}]|[a-z]++|\[\[)(?=[ \t\n;&|()<>]|\Z)")
_ASSIGNED = late_pattern(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*+)=")
_ODD_ASSIGNMENT = late_pattern(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_DELIMITER = late_pattern(r"""(?P<quote>['"])(?P<quoted>\w++)(?P=quote)|\\(?P<escaped>\w++)|(?P<word>\w++)""", re.ASCII)
_NOTHING: Final[frozenset[str]] = frozenset()


def read_line(source: str) -> Compound:
    """Read a whole line. Raises NotPlain with the reason."""
    cursor = Cursor(source)
    found = _list(cursor, _NOTHING)
    if cursor.at < len(source):
        raise NotPlain(_unexpected(cursor))
    if cursor.pending:
        raise NotPlain("a here-document has no text")
    return found


def _unexpected(cursor: Cursor) -> str:
    word = cursor.match(_KEYWORD) or cursor.char()
    if word == ")":
        return "a closing parenthesis has no opening one"
    return f"unexpected `{word}`"


def _inside(cursor: Cursor) -> Compound:
    return _list(cursor, _NOTHING)


def _keyword(cursor: Cursor) -> str | None:
    found = _KEYWORD.match(cursor.source, cursor.at)
    return found.group() if found and found.group() in RESERVED else None


def _list(cursor: Cursor, closers: frozenset[str]) -> Compound:
    """Read up to a closing word or parenthesis, without consuming it."""
    parts, operators = list[SyntaxNode](), list[str]()
    while True:
        cursor.newlines()
        word = _keyword(cursor)
        if cursor.char() in ("", ")") or word in closers:
            break
        parts.append(_pipeline(cursor))
        operators.append(_joint(cursor))
    if operators and operators[-1] in ("&&", "||"):
        raise NotPlain(f"nothing follows `{operators[-1]}`")
    return Compound(Shape.LIST, tuple(parts), tuple(operators))


def _joint(cursor: Cursor) -> str:
    """Consume and return the operator after a part of a list; a newline also stands for the end."""
    cursor.blanks()
    operator = cursor.match(_OPERATOR)
    if operator is None:
        if cursor.char() not in ("", "\n", ")"):
            raise NotPlain(_unexpected(cursor))
        return "\n"
    if operator == ";" and cursor.char() in (";", "&"):
        raise NotPlain("`;;` belongs to `case`")
    if operator in ("&&", "||"):
        cursor.newlines()
    return operator


def _pipeline(cursor: Cursor) -> SyntaxNode:
    negated = _take(cursor, "!")
    if _keyword(cursor) == "time" and _times_a_compound(cursor):
        _take(cursor, "time")
        _take(cursor, "-p")
    parts = [_command(cursor)]
    cursor.blanks()
    while cursor.char() == "|" and cursor.char(1) != "|":
        cursor.at += 2 if cursor.char(1) == "&" else 1
        cursor.newlines()
        parts.append(_command(cursor))
        cursor.blanks()
    node = parts[0] if len(parts) == 1 else Compound(Shape.PIPE, tuple(parts))
    return Compound(Shape.NOT, (node,)) if negated else node


_TIMED = late_pattern(r"time[ \t]++(?:-p[ \t]++)?+(?:\(|[{!](?=\s)|(?:for|while|until|if|time)\b)")


def _times_a_compound(cursor: Cursor) -> bool:
    return _TIMED.match(cursor.source, cursor.at) is not None


def _take(cursor: Cursor, word: str) -> bool:
    """Consume a word at the cursor and the blanks after it; return whether it was there."""
    if cursor.peek(word) and cursor.char(len(word)) in (" ", "\t"):
        cursor.at += len(word)
        cursor.blanks()
        return True
    return False


def _command(cursor: Cursor) -> SyntaxNode:
    if cursor.char() == "(":
        if cursor.char(1) == "(":
            raise NotPlain("`((` is arithmetic, or an unsupported nesting of parentheses")
        return _redirected(cursor, _subshell(cursor))
    word = _keyword(cursor)
    if word is None or word == "time":
        return _simple(cursor)
    reader = _COMPOUNDS.get(word)
    if reader is None:
        raise NotPlain(f"`{word}` is part of a compound command")
    cursor.enter()
    cursor.at += len(word)
    found = reader(cursor)
    cursor.leave()
    return _redirected(cursor, found)


def _subshell(cursor: Cursor) -> Compound:
    cursor.enter()
    cursor.at += 1
    inner = _list(cursor, _NOTHING)
    _expect(cursor, ")")
    cursor.leave()
    return Compound(Shape.SUBSHELL, (_filled(inner),))


def _expect(cursor: Cursor, word: str) -> None:
    if not cursor.peek(word) or (word != ")" and _keyword(cursor) != word):
        raise NotPlain(f"`{word}` is missing")
    cursor.at += len(word)


def _filled(body: Compound) -> Compound:
    if not body.parts:
        raise NotPlain("a compound command is empty")
    return body


def _body(cursor: Cursor, *closers: str) -> Compound:
    return _filled(_list(cursor, frozenset(closers)))


def _group(cursor: Cursor) -> Compound:
    body = _body(cursor, "}")
    _expect(cursor, "}")
    return Compound(Shape.GROUP, (body,))


def _while(cursor: Cursor) -> Compound:
    condition = _body(cursor, "do")
    return Compound(Shape.WHILE, (condition, _do(cursor)))


def _do(cursor: Cursor) -> Compound:
    _expect(cursor, "do")
    body = _body(cursor, "done")
    _expect(cursor, "done")
    return body


def _if(cursor: Cursor) -> Compound:
    parts: list[SyntaxNode] = []
    while True:
        parts.append(_body(cursor, "then"))
        _expect(cursor, "then")
        parts.append(_body(cursor, "elif", "else", "fi"))
        word = _keyword(cursor)
        cursor.at += len(word or "")
        if word == "else":
            parts.append(_body(cursor, "fi"))
            _expect(cursor, "fi")
        if word in ("else", "fi"):
            return Compound(Shape.IF, tuple(parts))
        if word != "elif":
            raise NotPlain("`fi` is missing")


_FOR = late_pattern(r"[ \t]++(?P<name>[A-Za-z_][A-Za-z0-9_]*+)[ \t]++in(?=[ \t])")


def _for(cursor: Cursor) -> Compound:
    head = _FOR.match(cursor.source, cursor.at)
    if head is None:
        raise NotPlain("`for` is not followed by `NAME in WORDS`")
    cursor.at = head.end()
    words: list[WrittenWord] = []
    while True:
        cursor.blanks()
        word = read_word(cursor, _inside)
        if word is None:
            break
        words.append(word)
    if cursor.char() not in (";", "\n"):
        raise NotPlain(_unexpected(cursor))
    if cursor.char() == ";":
        cursor.at += 1
    cursor.newlines()
    return Compound(Shape.FOR, (_do(cursor),), name=head["name"], words=tuple(words))


def _test(cursor: Cursor) -> Compound:
    words: list[WrittenWord] = []
    while True:
        cursor.blanks()
        word = read_word(cursor, _inside)
        if word is None:
            raise NotPlain("`[[` holds an unsupported test")
        if word.raw == "]]":
            return Compound(Shape.TEST, (), words=tuple(words))
        words.append(word)


_COMPOUNDS: Final = {"[[": _test, "{": _group, "while": _while, "until": _while, "if": _if, "for": _for}


def _redirected(cursor: Cursor, node: Compound) -> Compound:
    found: list[Redirection] = []
    while True:
        cursor.blanks()
        one = _redirection(cursor)
        if one is None:
            break
        found.append(one)
    if cursor.char() not in ("", "\n", ";", "&", "|", ")"):
        raise NotPlain(_unexpected(cursor))
    return Compound(node.shape, node.parts, node.operators, node.name, node.words, tuple(found))


def _redirection(cursor: Cursor) -> Redirection | None:
    begin = cursor.at
    operator = cursor.match(_REDIRECTION)
    if operator is None:
        return None
    cursor.blanks()
    if operator.lstrip("0123456789") in ("<<", "<<-"):
        return _here(cursor, begin, operator)
    target = read_word(cursor, _inside)
    if target is None:
        raise NotPlain(f"`{operator}` has no literal target")
    return Redirection(operator, target, cursor.source[begin : cursor.at])


def _here(cursor: Cursor, begin: int, operator: str) -> Redirection:
    found = _DELIMITER.match(cursor.source, cursor.at)
    end = found.end() if found else cursor.at
    if found is None or cursor.source[end : end + 1] not in ("", " ", "\t", "\n", ";", "&", "|", ")", "<", ">"):
        raise NotPlain("the delimiter of a here-document is not a plain name")
    cursor.at = end
    delimiter = found["quoted"] or found["escaped"] or found["word"]
    here = Here(delimiter, literal=found["word"] is None, tabs=operator.endswith("-"))
    cursor.pending.append(here)
    return Redirection(operator, WrittenWord(found.group(), ()), cursor.source[begin:end], here)


def _simple(cursor: Cursor) -> Simple:
    assignments, words = list[tuple[str, WrittenWord]](), list[WrittenWord]()
    redirections, pieces = list[Redirection](), list[str]()
    begin = end = text_begin = cursor.at
    while True:
        one = _redirection(cursor)
        if one is not None:
            if pieces and pieces[-1].endswith("}") and end == cursor.at - len(one.text):
                raise NotPlain("a redirection stores its descriptor in a variable")
            redirections.append(one)
        else:
            word = read_word(cursor, _inside)
            if word is None:
                break
            if not words and _ODD_ASSIGNMENT.match(word.raw):
                assignments.append(_assignment(word))
                text_begin = cursor.at
            else:
                words.append(word)
                pieces.append(word.raw)
        end = cursor.at
        cursor.blanks()
    if not words and (redirections or not assignments):
        raise NotPlain("a redirection has no command" if redirections else _unexpected(cursor))
    if cursor.char() == "(":
        raise NotPlain("parentheses run commands of their own or define a function")
    text = " ".join(pieces) if redirections else cursor.source[text_begin:end].strip(" \t")
    return Simple(tuple(assignments), tuple(words), tuple(redirections), text, cursor.source[begin:end])


def _assignment(word: WrittenWord) -> tuple[str, WrittenWord]:
    found = _ASSIGNED.match(word.raw)
    if found is None or not word.pieces[0].text.startswith(found.group()):
        raise NotPlain(f"`{word.raw}` is an unsupported form of assignment")
    first = word.pieces[0]
    rest = (type(first)(first.kind, first.text[found.end() :], first.quoted), *word.pieces[1:])
    return found["name"], WrittenWord(word.raw[found.end() :], rest)

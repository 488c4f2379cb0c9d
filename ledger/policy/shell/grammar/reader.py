"""The strict reader of a line: recursive descent over a small grammar. Any other syntax is not plain.

list     = pipeline { ("&&" | "||" | ";" | "&" | newline) pipeline }
pipeline = ["!"] ["time" ["-p"]] command { ("|" | "|&") command }
command  = simple | ("(" list ")" | "{" list "}" | for | while | if) { redirection }
"""

from __future__ import annotations

import re
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.cursor import Cursor
from ledger.policy.shell.grammar.nodes import Compound, Here, Redirection, Shape, Simple, SyntaxNode, WrittenWord
from ledger.policy.shell.grammar.words import read_word
from ledger.policy.shell.lexer import RESERVED, NotPlain

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

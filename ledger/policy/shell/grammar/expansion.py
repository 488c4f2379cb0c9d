"""Expansion of a word as written to the words of the command, with the known values of variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.nodes import PieceKind, WordPiece, WrittenWord
from ledger.policy.shell.grammar.outputs import output_of
from ledger.policy.shell.grammar.values import (
    NAME,
    NUMBER,
    SIGNED,
    UNKNOWN,
    Knowledge,
    WordValue,
    exact,
    joined,
    unquoted,
    word_of,
)
from ledger.policy.shell.lexer import NotPlain, plain_word
from ledger.policy.shell.model import Word
from ledger.policy.shell.variables import may_hold_a_secret

EXPANSIONS_MAX: Final = 64
"""Maximum words that one word may expand to."""

_OTHER: Final = "\0"
"""A placeholder for a piece that is quoted or not literal."""

_GROUP = late_pattern(r"\{([^{}\0]*+)\}")
_RANGE = late_pattern(r"(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})")

Pieces = tuple[WordPiece, ...]


def expand(raw: str, pieces: Pieces) -> list[Pieces]:
    """Return the words that a word expands to. Raises NotPlain where shells may disagree about the list."""
    bare = "".join(_OTHER if piece.quoted or piece.kind is not PieceKind.TEXT else piece.text for piece in pieces)
    if "{" not in bare or not ("," in raw or ".." in raw):
        return [pieces]
    choices = _choices(raw, bare)
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > EXPANSIONS_MAX:
        raise NotPlain(f"`{raw}` expands to more than {EXPANSIONS_MAX} words")
    others = [piece for piece in pieces if piece.quoted or piece.kind is not PieceKind.TEXT]
    return [_filled("".join(parts), others) for parts in product(*choices)]


def _choices(raw: str, bare: str) -> list[list[str]]:
    found, at = list[list[str]](), 0
    for group in _GROUP.finditer(bare):
        items = _items(group[1])
        if items is None:
            continue
        found += [[bare[at : group.start()]], items]
        at = group.end()
    found.append([bare[at:]])
    rest = "".join(choice[0] for choice in found if len(choice) == 1)
    if not any(len(choice) > 1 for choice in found) or "{" in rest.replace("{}", ""):
        raise NotPlain(f"`{raw}` may expand to several words")
    return found


def _items(inside: str) -> list[str] | None:
    if "," in inside:
        return inside.split(",")
    ends = _RANGE.fullmatch(inside)
    if ends is None:
        return None
    first, last = int(ends[1]), int(ends[2])
    if abs(last - first) >= EXPANSIONS_MAX or any(
        len(end.lstrip("-")) > 1 and end.lstrip("-")[0] == "0" for end in ends.groups()
    ):
        raise NotPlain(f"`{{{inside}}}` expands to many words, or to numbers with leading zeros")
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)]


def _filled(text: str, others: list[WordPiece]) -> Pieces:
    rest = iter(others)
    pieces: list[WordPiece] = []
    for part in re.split(f"({_OTHER})", text):
        if part == _OTHER:
            pieces.append(next(rest))
        elif part:
            pieces.append(WordPiece(PieceKind.TEXT, part, quoted=False))
    return tuple(pieces)


Environment = Mapping[str, WordValue]

_GLOB = late_pattern(r"[*?\[]")


def words_of(written: WrittenWord, environment: Environment) -> list[Word]:
    """Return the words that a word expands to; several for braces."""
    if all(piece.kind is PieceKind.TEXT for piece in written.pieces):
        expanded = expand(written.raw, written.pieces)
        if len(expanded) == 1:
            return [plain_word(written.raw)]
        return [word for pieces in expanded if (word := _literal(pieces)) is not None]
    return [_word(written.raw, pieces, environment) for pieces in expand(written.raw, written.pieces)]


def value_of(written: WrittenWord, environment: Environment) -> WordValue:
    """Return the value of an assignment, without globs, braces or splitting. Raises NotPlain for an unquoted tilde."""
    if any(piece.kind is PieceKind.TEXT and not piece.quoted and "~" in piece.text for piece in written.pieces):
        raise NotPlain(f"`{written.raw}` names a home directory in an assignment")
    value = exact("")
    for piece in written.pieces:
        value = joined(value, _value(piece, environment))
    return value


def as_value(word: Word) -> WordValue:
    """Return the value that a loop's variable gets from one of its words."""
    if word.resolved is not None:
        if word.tilde:
            return UNKNOWN
        return WordValue(Knowledge.GLOB if word.glob else Knowledge.EXACT, word.resolved)
    begins = word.prefix or ""
    is_of_all = not word.several or (word.inside and begins.startswith("/"))
    return WordValue(Knowledge.PREFIX, begins if is_of_all else "", word.inside)


def _literal(pieces: Pieces) -> Word | None:
    """Return a word of a brace list; None for an empty unquoted one, which the shell drops."""
    text = "".join(piece.text for piece in pieces)
    if not text and not any(piece.quoted for piece in pieces):
        return None
    if text.startswith("~") and not pieces[0].quoted:
        raise NotPlain("a brace list makes the name of a home directory")
    is_glob = any(not piece.quoted and _GLOB.search(piece.text) for piece in pieces)
    return word_of(WordValue(Knowledge.GLOB if is_glob else Knowledge.EXACT, text), text, several=False, tilde=False)


def _word(raw: str, pieces: Pieces, environment: Environment) -> Word:
    stands, pieces = _folder(pieces) or ("", pieces)
    value, several = exact(""), False
    for piece in pieces:
        found = _value(piece, environment)
        if piece.kind is PieceKind.TEXT and not piece.quoted:
            if value == exact("") and piece.text.startswith("~"):
                raise NotPlain(f"`{raw}` names a home directory that depends on a variable")
            if _has_glob(piece):
                found = WordValue(Knowledge.GLOB, piece.text)
        elif not piece.quoted:
            found, splits = unquoted(found)
            several = several or splits
        value = joined(value, found)
    several = several or (value.known is Knowledge.PREFIX and any(map(_has_glob, pieces)))
    if value.known is Knowledge.EXACT and all(piece.kind is not PieceKind.VARIABLE for piece in pieces) and not stands:
        return Word(raw, value.text, quoted=True)  # the text of a here-document, spelled as written
    return word_of(value, raw, several=several, tilde=stands == "~")


def _has_glob(piece: WordPiece) -> bool:
    return piece.kind is PieceKind.TEXT and not piece.quoted and _GLOB.search(piece.text) is not None


def _folder(pieces: Pieces) -> tuple[str, Pieces] | None:
    """Return the leading folder and the new pieces for `$HOME/x` (as `~/x`) and `"$PWD/x"` (as `./x`); else None."""
    at = 1 if pieces[0] == WordPiece(PieceKind.TEXT, "", quoted=True) else 0
    if len(pieces) <= at or pieces[at].kind is not PieceKind.VARIABLE:
        return None
    rest = pieces[at + 1 :]
    stands = {"HOME": "~", "PWD": "." if pieces[at].quoted else ""}.get(pieces[at].text)
    if not stands or (rest and not (rest[0].kind is PieceKind.TEXT and rest[0].text.startswith("/"))):
        return None
    return stands, (WordPiece(PieceKind.TEXT, stands, quoted=True), *rest)


def _value(piece: WordPiece, environment: Environment) -> WordValue:
    if piece.kind is PieceKind.TEXT:
        return exact(piece.text)
    if piece.kind is PieceKind.NUMBER:
        return NUMBER
    if piece.kind is PieceKind.ARITHMETIC:
        return _calculated(piece, environment)
    if piece.kind is PieceKind.SCRIPT:
        return UNKNOWN if piece.script is None else output_of(piece.script)
    if piece.kind is PieceKind.STREAM:
        return NAME
    value = environment.get(piece.text) if piece.kind is PieceKind.VARIABLE else None
    if value is None:
        if may_hold_a_secret(piece.text):
            raise NotPlain(f"`${piece.text}` may hold a secret")
        return UNKNOWN
    return value


def _calculated(piece: WordPiece, environment: Environment) -> WordValue:
    """Return the value of a calculation.

    Raises NotPlain unless each name holds a number: other values may run substitutions.
    """
    for name in piece.text.split():
        value = environment.get(name)
        if value is None or not (
            value.known is Knowledge.NUMBER or (value.known is Knowledge.EXACT and value.text.isdecimal())
        ):
            raise NotPlain(f"`$((` calculates with `{name}`, which may not be a number")
    return SIGNED

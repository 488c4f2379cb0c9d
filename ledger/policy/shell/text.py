"""Checks of a line before it is parsed: its length, its characters and its continued lines. Pure."""

from __future__ import annotations

import re
from typing import Final

from ledger.core.characters import code_of, is_visible, name_of
from ledger.core.late_patterns import late_pattern

LINE_BYTES_MAX: Final = 64 * 1024
SENTENCE_CHARS_MAX: Final = 240

_ASCII_CONTROL = late_pattern(r"[\x00-\x08\x0b-\x1f\x7f]")


def shorten(sentence: str) -> str:
    """Return a sentence that quotes a long word or command, cut in the middle to a readable length."""
    if len(sentence) <= SENTENCE_CHARS_MAX:
        return sentence
    half = SENTENCE_CHARS_MAX // 2
    return f"{sentence[:half]} … {sentence[-half:]}"


def too_long(source: str) -> bool:
    """Return whether the line is over `LINE_BYTES_MAX` in UTF-8 (lone surrogates count three bytes)."""
    if len(source) * 4 <= LINE_BYTES_MAX:
        return False
    return len(source) > LINE_BYTES_MAX or len(source.encode("utf-8", "surrogatepass")) > LINE_BYTES_MAX


# TAB and LF separate words; U+FE0F only chooses the coloured form of an emoji, and messages of commits are full of it.
_HARMLESS: Final = "\t\n\ufe0f"


def strange_character(source: str) -> str | None:
    """Return a sentence about the first invisible character except TAB, LF and U+FE0F; None without one."""
    if source.isascii():
        found = _ASCII_CONTROL.search(source)
        return _strange(found.group()) if found else None
    bad = {char for char in set(source) if not is_visible(char) and char not in _HARMLESS}
    if not bad:
        return None
    return _strange(min(bad, key=source.index))


def _strange(char: str) -> str:
    return f"the line holds {code_of(char)} ({name_of(char).lower()}), which is invisible or looks like something else"


# Inside single quotes and comments a backslash is a letter, so the newline after it stays; elsewhere the shell
# removes both before it reads words. `#` begins a comment at the start of a word only, and a removed pair does not
# start a word: `a\<newline>#b` is the word `a#b`.
_PIECE = late_pattern(
    r"""(?P<gap>(?:[\s;&|()<>]|\\\n)++)(?P<comment>\#[^\n]*+)?
    |\A\#[^\n]*+
    |(?P<word>(?:[^\s'"\\;&|()<>]++|\\.|'[^']*+'|"(?:[^"\\]|\\.)*+")++)
    |.""",
    re.DOTALL | re.VERBOSE,
)
_OUTSIDE_SINGLE_QUOTES = late_pattern(r"""'[^']*+'|(?P<double>"(?:[^"\\]|\\.)*+")|(?P<join>\\\n)|\\.""", re.DOTALL)
_ESCAPE = late_pattern(r"\\(.)", re.DOTALL)


def join_lines(source: str) -> str:
    """Remove every backslash-newline that the shell removes. Linear in the length of `source`."""
    if "\\\n" not in source:
        return source
    return _PIECE.sub(_join_piece, source)


def _join_piece(piece: re.Match[str]) -> str:
    if piece["gap"] is not None:
        return piece["gap"].replace("\\\n", "") + (piece["comment"] or "")
    if piece["word"] is not None and "\\\n" in piece["word"]:
        return _OUTSIDE_SINGLE_QUOTES.sub(_join_word, piece["word"])
    return piece.group()


def _join_word(part: re.Match[str]) -> str:
    if part["join"] is not None:
        return ""
    if part["double"] is not None:
        return _ESCAPE.sub(lambda escape: "" if escape[1] == "\n" else escape.group(), part.group())
    return part.group()

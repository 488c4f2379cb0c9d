"""Quote removal of one word, and checks of a line before it is parsed: length, characters, continued lines. Pure and linear."""

from __future__ import annotations

import re
from typing import Final

from ledger.core.characters import code_of, is_visible, name_of
from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.model import Word

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
_LINE_PIECE = late_pattern(
    r"""(?P<gap>(?:[\s;&|()<>]|\\\n)++)(?P<comment>\#[^\n]*+)?
    |\A\#[^\n]*+
    |(?P<word>(?:[^\s'"\\;&|()<>]++|\\.|'[^']*+'|"(?:[^"\\]|\\.)*+")++)
    |.""",
    re.DOTALL | re.VERBOSE,
)
_OUTSIDE_SINGLE_QUOTES = late_pattern(r"""'[^']*+'|(?P<double>"(?:[^"\\]|\\.)*+")|(?P<join>\\\n)|\\.""", re.DOTALL)
_LINE_ESCAPE = late_pattern(r"\\(.)", re.DOTALL)


def join_lines(source: str) -> str:
    """Remove every backslash-newline that the shell removes. Linear in the length of `source`."""
    if "\\\n" not in source:
        return source
    return _LINE_PIECE.sub(_join_piece, source)


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
        return _LINE_ESCAPE.sub(lambda escape: "" if escape[1] == "\n" else escape.group(), part.group())
    return part.group()


_PIECE = late_pattern(
    r"""(?P<single>'[^']*+')
    |(?P<ansi>\$'(?:[^'\\]|\\.)*+')
    |(?P<double>\$?"(?:[^"\\]|\\.)*+")
    |(?P<escape>\\.)
    |(?P<bare>[^'"\\$]++|.)""",
    re.DOTALL | re.VERBOSE,
)
_SIMPLE = late_pattern(r"[A-Za-z0-9_@%+:,./^=~!#\]}-]++")
_DOUBLE_ESCAPE = late_pattern(r'\\([$`"\\\n])')
_RUNS = late_pattern(r"[$`]")
LITERAL_DOLLAR: Final = r"""\$(?=["\s|)/,;]|\\[^\n])"""
"""A `$` within double quotes, their end included, that stands for itself in every shell: nothing follows that it names.

Not in the list are characters after which shells differ: `"$[1+1]"`, `"$~x"`, `"$'x'"`.
"""
_RUNS_IN_DOUBLE = late_pattern(rf"(?:[^\\$`]|\\.|{LITERAL_DOLLAR})*+[$`]", re.DOTALL)
_GLOB = late_pattern(r"[*?\[]")
_SUBSTITUTES = late_pattern(r"[<>]\(")

_ANSI_ESCAPE = late_pattern(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<u4>[0-9a-fA-F]{1,4})"
    r"|U(?P<u8>[0-9a-fA-F]{1,8})|c(?P<control>.)|(?P<letter>.))",
    re.DOTALL,
)
_ANSI_LETTERS: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_CODE_POINT_MAX: Final = 0x10FFFF


def decode(raw: str) -> tuple[Word, str]:
    """Return a word, and its unquoted text with each quoted piece replaced by NUL, to search for braces and tildes."""
    if _SIMPLE.fullmatch(raw):
        return Word(raw, raw, tilde=raw.startswith("~")), raw
    resolved, bare, runs = _decode(raw)
    dynamic = runs or ("{" in bare and ("," in raw or ".." in raw))
    glob = _GLOB.search(bare) is not None and raw not in ("[", "]", "[[", "]]")
    word = Word(raw, None if dynamic else resolved, "\0" in bare, glob, bare.startswith("~"))
    return word, bare


def loosen(word: Word) -> str:
    """Return the best known text of a word: without quotes, with expansions as written. For deny rules only."""
    return word.resolved if word.resolved is not None else _decode(word.raw)[0]


def _decode(raw: str) -> tuple[str, str, bool]:
    resolved, bare, runs = [], [], False
    for piece in _PIECE.finditer(raw):
        text = piece.group()
        kind = piece.lastgroup
        if kind == "bare":
            resolved.append(text)
            bare.append(text)
            runs = runs or _RUNS.search(text) is not None or _SUBSTITUTES.search(text) is not None
            continue
        bare.append("\0")
        if kind == "single":
            resolved.append(text[1:-1])
        elif kind == "escape":
            resolved.append(text[1] if text[1] != "\n" else "")
        elif kind == "ansi":
            resolved.append(_ANSI_ESCAPE.sub(_ansi, text[2:-1]).partition("\0")[0])
        else:
            inner = text[text.index('"') + 1 : -1]
            runs = runs or _RUNS_IN_DOUBLE.match(inner + '"') is not None
            resolved.append(_DOUBLE_ESCAPE.sub(lambda found: found[1] if found[1] != "\n" else "", inner))
    return "".join(resolved), "".join(bare), runs


def _ansi(escape: re.Match[str]) -> str:
    kind, text = escape.lastgroup, escape[escape.lastgroup or 0]
    if kind == "octal":
        return chr(int(text, 8) & 0xFF)
    if kind in ("hex", "u4", "u8"):
        code = int(text, 16)
        return chr(code) if code <= _CODE_POINT_MAX else ""
    if kind == "control":
        return chr(ord(text) & 0x1F)
    return _ANSI_LETTERS.get(text, "\\" + text)


def may_be_option(word: Word) -> bool:
    """Return whether a word may be an option, or several words with an option among them, when the line runs."""
    if word.resolved is not None:
        return word.resolved.startswith("-") or (word.glob and word.raw[:1] in "*?[-")
    return not word.operand and (word.several or not word.prefix or word.prefix.startswith("-"))

# ruff: noqa: RUF001 - the letters are the attack
"""Attacks with letters that resemble others, are invisible, or reverse the direction of a line."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from functools import cache

import pytest

from ledger.core.characters import is_visible
from ledger.policy.codelia.confirm import visible as visible_in_codelia
from ledger.policy.shell.words import strange_character
from ledger.session.would_run.odd_characters import MARKED_CHARS, MARKS_COUNT, Mark, marks_of, odd_characters
from workers.notifier.text import neutral
from workers.presentation.answer_page import text as html_text
from workers.presentation.text import json_line, visible


@cache
def hiding() -> list[str]:
    """Return every assigned character that nobody sees. TAB and LF move the text after them, which a command shows."""
    return [
        one
        for one in map(chr, range(sys.maxunicode + 1))
        if not is_visible(one) and one not in "\t\n" and unicodedata.category(one) not in ("Cn", "Co", "Cs")
    ]


REVEALERS: dict[str, Callable[[str], object]] = {
    "shell": lambda one: strange_character(f"ls {one}") is not None,
    "codelia": lambda one: one not in visible_in_codelia(one),
    "marks": lambda one: [kind for _, kind in _marked(f"ls {one}")] in (["invisible"], ["bidi"]),
    "terminal": lambda one: one not in visible(one),
    "json": lambda one: one not in json_line(one),
    "message": lambda one: one not in neutral(one, 80),
    "page": lambda one: one not in html_text(one) and html_text(one).startswith("<mark"),
}
"""Everything that refuses or reveals an invisible character."""


def _marked(text: str) -> list[tuple[str, str]]:
    return [(text[one.start : one.end], one.kind) for one in marks_of(text)]


@pytest.mark.parametrize("word", ["сору", "расе", "ѕсоре", "ехе", "АВС", "ΑΒΟ", "р", "ｌｓ", "𝐫𝐦"])
def test_writing_a_whole_word_in_another_script(word: str) -> None:
    assert _marked(f"rm {word} now") == [(word, "look-alike")]


@pytest.mark.parametrize("letter", ["ɡ", "ı", "／", "⁄", "∕", "ⅼ", "‐", "–", "’", "“", "․", "﹨", "ǃ", "；", "｜"])
def test_swapping_one_letter_for_its_double(letter: str) -> None:
    assert _marked(f"a{letter}b") == [(letter, "look-alike")]
    assert _marked(f"a {letter} b") == [(letter, "look-alike")]


@pytest.mark.parametrize("revealer", REVEALERS)
def test_hiding_a_character_from_one_reader_but_not_another(revealer: str) -> None:
    drawn_as_is = ["U+FE0F"] if revealer == "shell" else []  # a line with an emoji is not asked about
    assert [f"U+{ord(one):04X}" for one in hiding() if not REVEALERS[revealer](one)] == drawn_as_is
    assert [one for one in "a7~ Бя日é✓€→ह" if REVEALERS[revealer](one)] == []


def test_the_blanks_that_unicode_calls_letters_or_symbols_are_invisible() -> None:
    assert {"\u2800", "\u3164", "\ufe0f", "\U0001d159", "\U000e01ef", "\u200b", "\x1b"} <= set(hiding())


def test_mixing_letters_of_two_scripts_in_a_word() -> None:
    assert _marked("раураl.com") == [("раура", "look-alike")]
    assert _marked("goоgle жlib") == [("о", "look-alike"), ("ж", "look-alike")]


@pytest.mark.parametrize(
    "text", ["привет", "Überraschung", "naïve façade", "日本語のテスト", "ελληνικά", "שלום", "हिन्दी", "→ ✓ €"]
)
def test_text_in_a_language_of_its_own_is_left_alone(text: str) -> None:
    assert _marked(text) == []


@pytest.mark.parametrize(
    "letter", ["\u200b", "\u00ad", "\u3164", "\x1b", "\x00", "\r", "\u00a0", "\u2028", "\ue000", "\ufe0f", "\U000e0041"]
)
def test_writing_what_nobody_sees(letter: str) -> None:
    assert _marked(f"ls{letter} x") == [(letter, "invisible")]


@pytest.mark.parametrize("letter", ["\u202e", "\u2066", "\u200f", "\u061c"])
def test_turning_a_line_around(letter: str) -> None:
    assert _marked(f"ls {letter}gpj.x") == [(letter, "bidi")]


@pytest.mark.parametrize("text", ["rm\u0332 x", "a\u0338b", "ls \u0332x", "/\u0338etc"])
def test_drawing_over_a_letter(text: str) -> None:
    assert [kind for _, kind in _marked(text)] == ["combining"]


def test_piling_marks_on_a_letter_of_any_script() -> None:
    assert ("\u0941", "combining") in _marked("ह" + "\u0941" * 3)


def test_hiding_a_letter_behind_thousands_of_others() -> None:
    text = "а b " * 2 * MARKS_COUNT
    marks = marks_of(text)
    assert len(marks) == MARKS_COUNT + 1
    assert marks[-1] == Mark(marks[-1].start, len(text), "crowded")
    assert marks[-1].start == MARKS_COUNT * 4


def test_hiding_a_letter_behind_one_endless_mark() -> None:
    text = "a" + "\u0332" * (2 * MARKED_CHARS) + "rm"
    assert [one.kind for one in marks_of(text)] == ["combining", "crowded"]


def test_every_odd_letter_is_named_with_what_it_looks_like() -> None:
    named, left = odd_characters((text, marks_of(text)) for text in ["сору", "a\u200bb", "ok"])
    assert [(one.code, one.kind, one.like) for one in named] == [
        ("U+0441", "look-alike", "c"),
        ("U+043E", "look-alike", "o"),
        ("U+0440", "look-alike", "p"),
        ("U+0443", "look-alike", "y"),
        ("U+200B", "invisible", None),
    ]
    assert left == 0

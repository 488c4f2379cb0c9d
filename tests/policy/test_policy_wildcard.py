"""Wildcard matches beyond the tables, and the bound of their work."""

from __future__ import annotations

import re
from typing import Any, Self

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.policy.matching import compile_normalised, match


class CountingText(str):
    """A text that counts how often it is looked into."""

    __slots__ = ("looks",)

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.looks = 0
        return made

    looks: int

    def find(self, *args: Any) -> int:
        self.looks += 1
        return super().find(*args)

    def startswith(self, *args: Any) -> bool:
        self.looks += 1
        return super().startswith(*args)

    def __getitem__(self, key: Any) -> str:
        self.looks += 1
        return super().__getitem__(key)


def as_regex(pattern: str, *, dot_all: bool) -> re.Pattern[str]:
    written = {"*": ".*", "?": "."}
    body, tail = (pattern[:-2], "( .*)?") if pattern.endswith(" *") else (pattern, "")
    text = "".join(written.get(character, re.escape(character)) for character in body) + tail
    return re.compile(text, re.DOTALL if dot_all else re.NOFLAG)


short = st.text(alphabet="ab*? \n", max_size=8)


@example(value="aab", pattern="*aa*a*", dot_all=True)  # its pieces overlap in the value
@given(value=short, pattern=short, dot_all=st.booleans())
def test_small_patterns_match_as_the_regular_expression_of_the_specification(
    value: str, pattern: str, dot_all: bool
) -> None:
    expected = as_regex(pattern, dot_all=dot_all).fullmatch(value) is not None
    assert match(value, pattern, slashes=False, dot_all=dot_all) is expected


@given(value=st.text(max_size=20))
def test_a_text_without_wildcards_matches_itself_only(value: str) -> None:
    pattern = value.replace("*", "").replace("?", "")
    assert match(pattern, pattern)
    assert not match(pattern + "x", pattern)


@pytest.mark.parametrize(
    ("pattern", "value", "looks"),
    [
        pytest.param("*a" * 20, "a" * 10_000 + "b", 21, id="many stars"),
        pytest.param("*a" * 20, "a" * 10_000, 21, id="many stars that match"),
        pytest.param("*a?" * 20, "a" * 10_000 + "b", 10_001, id="stars and question marks"),
        pytest.param("*" + "a?" * 500 + "b*", "a" * 10_000, 10_002, id="a long piece with question marks"),
        pytest.param("*" * 1_000 + "b", "a" * 10_000, 1, id="stars only"),
    ],
)
def test_a_value_is_looked_into_about_once_a_piece_or_once_a_character(pattern: str, value: str, looks: int) -> None:
    counted = CountingText(value)
    compile_normalised(pattern)(counted)
    assert counted.looks <= looks


def test_a_question_mark_is_one_character_of_any_width() -> None:
    assert [value for value in ("", "a", "é", "🙂", "/", "\n", "ab") if match(value, "?")] == [
        "a",
        "é",
        "🙂",
        "/",
        "\n",
    ]


def test_the_optional_tail_belongs_to_space_and_star_at_the_end_only() -> None:
    patterns = ("git *", "git **", "git * ", "git ?", "git*", " *")
    assert [match("git", pattern) for pattern in patterns] == [True, False, False, False, True, False]


def test_an_exclamation_mark_and_brackets_are_themselves() -> None:
    assert match("!bun.lock", "!*.lock")
    assert not match("bun.lock", "!*.lock")
    assert not match("a", "[ab]")


def test_brutus_keeps_a_backslash_in_front_of_a_star() -> None:
    assert match("a\\b", "a\\*", slashes=False, dot_all=False)
    assert not match("a/b", "a\\*", slashes=False, dot_all=False)

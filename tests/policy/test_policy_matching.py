"""The glob engine: one matcher for the tokens of every dialect, compared with a plain recursive definition."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.policy.matching import (
    ANY,
    STAR,
    Automaton,
    CharacterSet,
    GlobToken,
    Star,
    compile_tokens,
    name_tokens,
    takes,
    wildcard_tokens,
)
from ledger.policy.own import OwnPaths

LETTERS = "ab.\n"
SETS = (ANY, CharacterSet(negated=False, ranges=(("a", "a"),)), CharacterSet(negated=True, ranges=(("a", "b"),)))
TOKENS = st.lists(st.sampled_from([*LETTERS, *SETS, STAR, Star("."), Star("\n")]), max_size=7)


def plainly(tokens: Sequence[GlobToken], text: str) -> bool:
    """Return whether the tokens match, by trying every length of each star."""
    if not tokens:
        return not text
    first, rest = tokens[0], tokens[1:]
    if isinstance(first, Star):
        taken = [at for at in range(len(text) + 1) if not first.stop or first.stop not in text[:at]]
        return any(plainly(rest, text[at:]) for at in taken)
    return bool(text) and takes(first, text[0]) and plainly(rest, text[1:])


@given(TOKENS, st.text(LETTERS, max_size=7))
def test_compiled_tokens_match_as_their_definition_says(tokens: list[GlobToken], text: str) -> None:
    assert compile_tokens(tokens)(text) is plainly(tokens, text)


def test_a_pattern_of_sets_and_stars_takes_time_linear_in_the_text() -> None:
    tokens = name_tokens("*[ab]" * 200 + "c")
    assert not compile_tokens(tokens)("a" * 20_000)


@pytest.mark.parametrize(
    ("pattern", "tokens"),
    [
        ("a*", ("a", STAR)),
        ("**", (STAR,)),
        ("?", (ANY,)),
        ("[a-c]", (CharacterSet(negated=False, ranges=(("a", "c"),)),)),
        ("[!a-]", (CharacterSet(negated=True, ranges=(("a", "a"), ("-", "-"))),)),
        (r"\*", ("*",)),
        ("[", ("[",)),
    ],
)
def test_a_name_is_parsed_into_tokens(pattern: str, tokens: tuple[GlobToken, ...]) -> None:
    assert name_tokens(pattern) == tokens


def test_a_wildcard_knows_no_sets_and_no_escapes() -> None:
    assert wildcard_tokens(r"[a]\*?") == ("[", "a", "]", "\\", STAR, ANY)
    assert wildcard_tokens("*?", "\n") == (Star("\n"), CharacterSet(negated=True, ranges=(("\n", "\n"),)))


def test_stars_that_follow_each_other_are_skipped_together() -> None:
    automaton = Automaton(3, [0, 1])
    assert automaton.start == 0b111
    assert automaton.after(automaton.start, 0b011) == 0b011
    assert automaton.after(automaton.start, 0b100) == automaton.end
    assert automaton.onward(0b010) == 0b1110
    assert automaton.onward(0) == 0


def test_a_negated_set_of_a_shell_glob_names_the_ledgers_folder() -> None:
    assert OwnPaths().data("share/[^x]ermission-ledger", ".")
    assert OwnPaths().data("share/[!x]ermission-ledger", ".")
    assert not OwnPaths().data("share/[^p]ermission-ledger", ".")

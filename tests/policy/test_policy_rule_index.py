"""The index leaves out no pattern that matches, and most of those that do not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledger.policy.matching import compile_normalised
from ledger.policy.opencode.compiled import INDEXED_TEXT_CHARS_MAX, RuleIndex

texts = st.text(alphabet="ab c", max_size=8)
patterns = st.lists(st.text(alphabet="ab c*?", max_size=8) | texts.map(lambda text: text + " *"), max_size=30)


@given(patterns, texts)
def test_every_pattern_that_matches_is_a_candidate_and_candidates_are_in_order(patterns: list[str], text: str) -> None:
    found = list(RuleIndex(patterns).candidates(text))
    matching = {at for at, pattern in enumerate(patterns) if compile_normalised(pattern)(text)}
    assert matching <= set(found)
    assert found == sorted(set(found))


def test_one_of_a_thousand_patterns_is_found_whether_it_differs_at_its_beginning_or_further_on() -> None:
    for shape in ("tool{} run *", "git sub{:04} *", "*{:04}*x", "git * {:04}"):
        patterns = [shape.format(number) for number in range(1000)]
        text = patterns[500].replace("*", "y")
        assert 500 in RuleIndex(patterns).candidates(text)
        assert len(RuleIndex(patterns).candidates(text)) < 120


def test_in_a_text_too_long_to_be_cut_up_every_pattern_is_tried() -> None:
    index = RuleIndex(["*tool1*x", "*tool2*x"])
    assert list(index.candidates("a" * (INDEXED_TEXT_CHARS_MAX + 1))) == [0, 1]

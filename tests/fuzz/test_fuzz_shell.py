"""The properties that the fuzzer checks hold for its corpus, its cuts and joins, and lines made of pieces of shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.fuzz_shell import PIECES, check, line_of

CORPUS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data/policy/shell_fuzz.json").read_text()
)
LINES = [row["line"] for rows in CORPUS.values() for row in rows if "line" in row]


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_the_corpus_keeps_the_rules_of_the_analysis(line: str) -> None:
    check(line)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_any_line_made_of_pieces_of_shell_keeps_the_rules_of_the_analysis(line: str) -> None:
    check(line)


@settings(max_examples=200)
@given(st.sampled_from(LINES), st.integers(0, 40), st.sampled_from(LINES), st.integers(0, 40))
def test_any_two_lines_of_the_corpus_cut_and_joined_keep_the_rules(one: str, at: int, other: str, start: int) -> None:
    check(one[:at] + other[start:])


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_that_a_fuzzer_gives_keep_the_rules(data: bytes) -> None:
    check(line_of(data))

"""The properties that the fuzzer of the dialects checks hold for its corpus and for lines made of pieces of shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.fuzz_dialects import check
from tests.fuzz.fuzz_shell import PIECES

CORPUS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data/policy/shell_fuzz.json").read_text()
)
LINES = [row["line"] for rows in CORPUS.values() for row in rows if "line" in row]


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_the_corpus_keeps_the_rules_of_the_dialects(line: str) -> None:
    check(line)


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_line_made_of_pieces_of_shell_keeps_the_rules_of_the_dialects(line: str) -> None:
    check(line)

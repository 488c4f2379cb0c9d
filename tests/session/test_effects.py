"""How far a call can be taken back: recorded with the evaluation of a request that a person must answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger import Ledger
from ledger.core.policy import EFFECTS, Evaluation, Verdict, counted_effect
from workers.presentation.labels import effect_words


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        yield ledger


async def pending_row(ledger: Ledger, folder: Path, tool: str, given: dict[str, Any]) -> dict[str, Any]:
    """The row of a request that waits for a person."""
    session = await ledger.session("s", cwd=str(folder), home=str(folder))
    await session.submit_tool(tool, given, request_id="r1")
    (pending,) = await session.pending()
    return pending.as_json()


@pytest.mark.parametrize(
    ("tool", "given", "effect"),
    [
        ("read", {"filePath": "a.py"}, "reads"),
        ("edit", {"filePath": "a.py"}, "changes_here"),
        ("deploy", {}, "irreversible"),
    ],
)
async def test_what_waits_says_how_far_it_can_be_taken_back(
    ledger: Ledger, tmp_path: Path, tool: str, given: dict[str, Any], effect: str
) -> None:
    row = await pending_row(ledger, tmp_path, tool, given)
    assert row["effect"] == row["evaluation"]["effect"] == effect


async def test_an_allow_by_rule_records_no_effect(ledger: Ledger) -> None:
    session = await ledger.session("s", rules={"permission": {"deploy": "allow"}})
    result = await session.submit_tool("deploy", {}, request_id="r1")
    assert result.evaluation is not None
    assert result.evaluation.effect is None


def test_what_is_absent_or_unknown_counts_as_the_worst() -> None:
    assert counted_effect(None) == counted_effect(Evaluation(Verdict.ASK)) == "irreversible"
    assert counted_effect(Evaluation(Verdict.ASK, effect="reads_twice")) == "irreversible"
    assert [counted_effect(Evaluation(Verdict.ASK, effect=one)) for one in EFFECTS] == [*EFFECTS]
    assert effect_words(None) == "cannot be undone"


def test_an_evaluation_without_an_effect_is_recorded_as_before() -> None:
    assert msgspec.json.encode(Evaluation(Verdict.ASK)) == b'{"verdict":"ask"}'

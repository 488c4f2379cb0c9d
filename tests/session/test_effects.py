"""The effect of a call, recorded with the evaluation of a request that a person must answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger import Ledger
from ledger.core.policy import EFFECTS, Call, Evaluation, Verdict, counted_effect
from ledger.core.questions import Question
from ledger.session.judging import with_effect
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


def test_one_evaluation_of_two_calls_has_the_effect_of_each() -> None:
    asked = Evaluation(Verdict.ASK)
    read, deploy = (Question(call=Call(tool, (), tool, {})) for tool in ("read", "deploy"))
    assert [with_effect(asked, one).effect for one in (read, deploy, read)] == ["reads", "irreversible", "reads"]
    assert with_effect(asked, read) is with_effect(asked, read)


async def test_a_folder_has_the_effect_of_the_call_behind_it(ledger: Ledger, tmp_path: Path) -> None:
    session = await ledger.session("s", cwd=str(tmp_path), home=str(tmp_path))
    await session.submit_tool("read", {"filePath": "/etc/hosts"}, request_id="r1")
    (pending,) = await session.pending()
    assert (pending.request.permission, pending.as_json()["effect"]) == ("external_directory", "reads")


async def test_no_metadata_of_an_agent_lowers_the_effect_of_another_call(ledger: Ledger, tmp_path: Path) -> None:
    session = await ledger.session("s", cwd=str(tmp_path), home=str(tmp_path))
    behind = {"behind": {"tool": "read", "input": {"filePath": "a"}}}
    await session.submit("bash", ["rm a"], metadata=behind, request_id="r1")
    (pending,) = await session.pending()
    assert pending.as_json()["effect"] == "irreversible"


async def test_a_link_out_of_the_project_makes_a_change_the_worst(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "x").symlink_to(tmp_path / "profile")
    session = await ledger.session(
        "s", cwd=str(tmp_path / "shop"), home=str(tmp_path), rules={"permission": {"external_directory": "allow"}}
    )
    await session.submit_tool("edit", {"filePath": "x", "oldString": "a", "newString": "b"}, request_id="r1")
    (pending,) = await session.pending()
    assert pending.as_json()["effect"] == "irreversible"

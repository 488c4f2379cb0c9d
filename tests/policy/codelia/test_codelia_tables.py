"""Codelia's specification and what the program does where it is silent, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy import PolicyError, Verdict
from ledger.policy.codelia.rule import normalise, split
from tests.policy.codelia.codelia_calls import ROOT, bash, grant, judge, policy, tool
from tests.support.rows import every

TABLE: dict[str, list[Any]] = json.loads((Path(__file__).parents[2] / "data/policy/codelia.json").read_text("utf-8"))
OPTIONS = ("defaults", "sandbox_root", "cwd", "fs", "edition")
STRICTNESS = ["allow", "ask", "deny", "refused"]


def answer(row: dict[str, Any], profile: str) -> str:
    options = {name: row[name] for name in OPTIONS if name in row}
    try:
        rules = policy(row.get("allow"), row.get("deny"), profile=profile, **options)
    except PolicyError:
        return "refused"
    return rules.evaluate(tool(row["tool"], row["input"])).verdict.value


@every("row", TABLE["calls"], ids=lambda row: row["what"])
def test_a_call_is_judged_as_the_table_says_in_both_profiles(row: dict[str, Any]) -> None:
    assert [answer(row, profile) for profile in ("faithful", "hardened")] == [row["faithful"], row["hardened"]]


@pytest.mark.parametrize("row", TABLE["differences"], ids=lambda row: row["what"])
def test_where_the_program_answers_otherwise_than_its_specification_ours_is_the_stricter(row: dict[str, Any]) -> None:
    ours = [answer(row, profile) for profile in ("faithful", "hardened")]
    assert ours == [row["faithful"], row["hardened"]]
    assert all(STRICTNESS.index(one) > STRICTNESS.index(row["theirs"]) for one in ours)


def test_the_hardened_profile_is_never_looser_than_the_faithful_one() -> None:
    looser = [row for row in TABLE["calls"] if STRICTNESS.index(row["hardened"]) < STRICTNESS.index(row["faithful"])]
    assert looser == []


def test_five_rows_of_approval_modes_are_left_out_and_nine_differences_are_known() -> None:
    assert (len(TABLE["left_out"]), len(TABLE["differences"])) == (5, 9)


@every("row", TABLE["lines"], ids=lambda row: ascii(row["line"]))
def test_a_line_is_split_as_the_program_splits_it(row: dict[str, Any]) -> None:
    line = split(row["line"])
    found = {
        "line": row["line"],
        "normalised": line.text,
        "segments": [segment.text for segment in line.segments],
        "operators": list(line.operators),
        "targets": list(line.targets),
    }
    assert found == row


@every("row", TABLE["lines"], ids=lambda row: ascii(row["line"]))
def test_the_parts_of_a_faithful_evaluation_are_the_segments(row: dict[str, Any]) -> None:
    evaluation = judge(row["line"], policy(profile="faithful"))
    assert [part.text for part in evaluation.parts] == row["segments"]


@pytest.mark.parametrize(("text", "normalised"), TABLE["normalised"], ids=ascii)
def test_white_space_is_what_javascript_takes_for_it(text: str, normalised: str) -> None:
    assert normalise(text) == normalised


@every("row", TABLE["remembered"], ids=lambda row: json.dumps(row["input"]))
def test_remembering_stores_the_rules_of_the_table(row: dict[str, Any]) -> None:
    call = tool(row["tool"], row["input"])
    found = [policy(row.get("allow"), profile=profile).evaluate(call).always for profile in ("faithful", "hardened")]
    assert [list(map(json.loads, always)) for always in found] == [row["faithful"], row["hardened"]]


@pytest.mark.parametrize("row", TABLE["remembered_then"], ids=lambda row: row["then"])
@pytest.mark.parametrize("profile", ["faithful", "hardened"])
def test_what_was_remembered_allows_the_next_call_like_it(row: dict[str, str], profile: str) -> None:
    rules = policy(profile=profile)
    always = [json.loads(rule) for rule in judge(row["remember"], rules).always]
    granted = tuple(grant(rule, f"g{index}") for index, rule in enumerate(always))
    expected = (
        row["verdict"] if always else "ask"
    )  # hardened stores nothing for `npm exec`, which runs what it is given
    assert rules.evaluate(bash(row["then"]), granted).verdict.value == expected
    assert policy(always, profile=profile).evaluate(bash(row["then"])).verdict.value == expected


@pytest.mark.parametrize("row", TABLE["prompts"], ids=lambda row: row["message"][:40])
def test_a_confirm_request_has_the_title_and_message_of_the_table(row: dict[str, Any]) -> None:
    request = policy(row.get("allow"), profile="faithful").confirm_request(tool(row["tool"], row["input"]))
    assert (request.title, request.message) == (row["title"], row["message"])


@every("operator", ["|", "||", "&&", ";", "|&"])
@every("shape", ["ls {} rm x", "ls{}rm x", "ls {}rm x"])
@every("profile", ["faithful", "hardened"])
def test_every_operator_splits_with_or_without_spaces(operator: str, shape: str, profile: str) -> None:
    line = shape.format(operator)
    allow = [{"tool": "bash", "command": "ls"}]
    assert judge(line, policy(allow, profile=profile)).verdict is Verdict.ASK
    deny = [{"tool": "bash", "command": "rm"}]
    assert judge(line, policy([{"tool": "bash"}], deny, profile=profile)).verdict is Verdict.DENY


@every("operator", [">", ">>", "<", "2>", "2>>"])
@every("shape", ["rg a {} f", "rg a {}f", "rg b; rg a {} f", "rg a {} f | rg b"])
@every("profile", ["faithful", "hardened"])
def test_every_redirection_needs_a_glob_for_the_full_text(operator: str, shape: str, profile: str) -> None:
    line = shape.format(operator)
    assert judge(line, policy([{"tool": "bash", "command": "rg"}], profile=profile)).verdict is Verdict.ASK
    spelt = [{"tool": "bash", "command_glob": normalise(line)}]
    assert judge(line, policy(spelt, profile=profile)).verdict is Verdict.ALLOW


@pytest.mark.parametrize("quoted", ["echo 'a|b'", 'echo "a;b"', r"echo a\>b", "echo 'a' \"b>c\"", r'echo "\";x"'])
@pytest.mark.parametrize("profile", ["faithful", "hardened"])
def test_a_quoted_or_escaped_operator_does_not_split(quoted: str, profile: str) -> None:
    assert judge(quoted, policy([{"tool": "bash", "command": "echo"}], profile=profile)).verdict is Verdict.ALLOW


def test_a_long_line_is_split_in_time_that_grows_with_its_length_only() -> None:
    line = split("a;" * 20_000 + "\"'" * 20_000 + "\\" * 20_001)
    assert (len(line.segments), len(line.operators)) == (20_001, 20_000)


def test_the_built_in_layer_is_in_force_only_when_asked_for() -> None:
    assert judge("ls", policy()).verdict is Verdict.ASK
    evaluation = judge("ls", policy(defaults=True))
    assert (evaluation.verdict, [rule.layer for rule in evaluation.rules]) == (Verdict.ALLOW, ["system"])
    assert judge("ls", policy(defaults=True, sandbox_root=ROOT)).verdict is Verdict.ALLOW

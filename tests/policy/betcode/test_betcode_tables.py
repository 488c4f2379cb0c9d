"""The examples of BetCode's specification and what follows from its rules, each row against the profiles it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy import Call, Evaluation, Layer, PolicySource, compile_policy
from ledger.policy.toolrules import read_grant
from tests.support.rows import every

DATA: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "policy" / "betcode.json").read_text("utf-8"))
STRICTNESS = ["allow", "ask", "deny"]


def evaluation(row: dict[str, Any], profile: str) -> Evaluation:
    layers = tuple(
        Layer(layer["name"], config=layer["config"], trusted=layer.get("trusted", True))
        for layer in row.get("layers") or [{"name": "project", "config": {"permissions": row["rules"]}}]
    )
    options = {"profile": profile, "cwd": DATA["cwd"], "home": DATA["home"], "fs": DATA["fs"]}
    policy = compile_policy(PolicySource("betcode", layers, options))
    grants = [read_grant(grant) for grant in row.get("grants", [])]
    return policy.evaluate(Call(row["tool"], (), row["tool"], row["input"]), grants)


def profiles(row: dict[str, Any]) -> list[str]:
    return ["faithful", "hardened"] if row["profile"] == "both" else [row["profile"]]


def named(row: dict[str, Any]) -> str:
    return ascii(f"{row['tool']} {row['input']} {row.get('rules')}")[:100]


@every("row", DATA["rows"], ids=named)
def test_a_call_gets_the_verdict_of_the_table(row: dict[str, Any]) -> None:
    found = {profile: evaluation(row, profile).verdict.value for profile in profiles(row)}
    assert found == dict.fromkeys(profiles(row), row["verdict"])


@pytest.mark.parametrize("row", [row for row in DATA["rows"] if "message" in row], ids=named)
def test_a_denied_call_names_the_first_deny_of_the_deciding_tier(row: dict[str, Any]) -> None:
    assert evaluation(row, "faithful").message == row["message"]


@every("row", DATA["rows"], ids=named)
def test_the_hardened_profile_is_never_looser_than_the_faithful_one(row: dict[str, Any]) -> None:
    faithful, hardened = (evaluation(row, profile).verdict.value for profile in ("faithful", "hardened"))
    assert STRICTNESS.index(hardened) >= STRICTNESS.index(faithful)

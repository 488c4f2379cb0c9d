"""Tables of what OpenCode 1.18 was seen to ask and answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy import Call, Layer, PolicySource
from ledger.policy.opencode import OpenCodePolicy
from ledger.policy.opencode.requests import ARITY, prefix
from tests.support.rows import every

DATA = Path(__file__).parents[2] / "data" / "policy"
HOME, PROJECT = "/srv/home", "/srv/shop"
FILES = {
    ".git": "dir",
    "f.txt": "file",
    "sub": "dir",
    "nested": "dir",
    "/srv/outside/o.txt": "file",
    "/srv/outside/a b": "dir",
    "/etc/hosts": "file",
    "/tmp": "dir",
    "/srv/home": "dir",
    "/": "dir",
}
STRICTNESS = ["allow", "ask", "deny"]


def table(name: str) -> Any:
    return json.loads((DATA / f"opencode-{name}.json").read_text(encoding="utf-8"))


def policy(*layers: Layer, **options: Any) -> OpenCodePolicy:
    return OpenCodePolicy(PolicySource(layers=layers, options={"cwd": PROJECT, "home": HOME, "fs": FILES, **options}))


def bash(command: str, **more: str) -> Call:
    return Call("bash", (), "bash", {"command": command, **more})


@every("row", table("shell"), ids=lambda row: row["command"])
def test_a_shell_line_asks_the_patterns_the_grants_and_the_directories_that_were_recorded(row: dict[str, Any]) -> None:
    more = {"workdir": row["workdir"]} if "workdir" in row else {}
    judged = policy(profile="faithful").evaluate(bash(row["command"], **more))
    asked = {
        "patterns": [part.text for part in judged.parts],
        "always": list(judged.always),
        "directories": [pattern for call in judged.ask_first for pattern in call.patterns],
    }
    assert asked == {key: row[key] for key in asked}
    assert judged.verdict.value == ("ask" if row["patterns"] else "allow")
    assert {call.permission for call in judged.ask_first} <= {"external_directory"}


@every("row", table("agents"), ids=lambda row: f"{row['agent']} {row['permission']} {row['pattern']}")
def test_a_built_in_agent_may_do_what_the_program_lets_it(row: dict[str, Any]) -> None:
    judge = policy(Layer("user", config=row["config"]), profile="faithful", defaults=True, agent=row["agent"])
    assert judge.evaluate(Call(row["permission"], (row["pattern"],))).verdict.value == row["verdict"]


@every("row", table("arity"), ids=lambda row: " ".join(row["words"]))
def test_the_prefix_of_a_command_has_as_many_words_as_its_entry_says(row: dict[str, Any]) -> None:
    assert prefix(row["words"]) == tuple(row["prefix"])


def test_the_table_of_prefixes_is_the_program_s_own() -> None:
    listed = {words: int(arity) for arity, entries in table("arity-table").items() for words in entries}
    assert dict(ARITY) == listed
    assert len(ARITY) == 136


@pytest.mark.parametrize("row", table("differences"), ids=lambda row: row["command"])
def test_hardened_differs_from_the_program_where_the_docs_say_so_and_is_stricter(row: dict[str, Any]) -> None:
    layer = Layer("project", config={"permission": {"bash": row["rules"], **row.get("more", {})}})
    verdicts = {
        profile: policy(layer, profile=profile).evaluate(bash(row["command"])).verdict.value
        for profile in ("faithful", "hardened")
    }
    assert verdicts == {profile: row[profile] for profile in verdicts}
    assert STRICTNESS.index(row["hardened"]) >= STRICTNESS.index(row["faithful"])

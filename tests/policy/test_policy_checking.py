"""One question, one answer: the output of `policy check` for a line."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.client.machine import DiskFacts
from ledger.policy import PolicyError, check_questions, compile_policy
from ledger.policy.check_questions import COMPILED_COUNT, Checker, source_of

OPENCODE = {"permission": {"bash": {"git *": "allow", "git push *": "deny"}}}
ASK: dict[str, Any] = {"id": 1, "dialect": "opencode", "config": OPENCODE}


def answer(**question: Any) -> dict[str, Any]:
    return Checker().answer(question)


def bash(command: str, **more: Any) -> dict[str, Any]:
    return answer(**{**ASK, "cwd": "/repo", "home": "/home/ann", **more}, tool="bash", input={"command": command})


def rule(text: str, layer: str = "config") -> dict[str, Any]:
    return {"text": text, "layer": layer, "file": None, "line": None}


def test_an_answer_has_verdict_rules_parts_always_message_and_reason() -> None:
    assert bash("git log && git push", profile="faithful") == {
        "id": 1,
        "verdict": "deny",
        "rules": [rule("bash git push * deny")],
        "parts": [
            {"text": "git log", "verdict": "allow", "rules": [rule("bash git * allow")]},
            {"text": "git push", "verdict": "deny", "rules": [rule("bash git push * deny")]},
        ],
        "always": ["git log *", "git push *"],
        "external_directories": [],
        "message": "The user has specified a rule which prevents you from using this specific tool call. Here are some "
        'of the relevant rules [{"permission":"bash","pattern":"git *","action":"allow"},'
        '{"permission":"bash","pattern":"git push *","action":"deny"}]',
        "reason": None,
    }


def test_a_directory_outside_counts_in_the_verdict_and_decides_with_its_own_rules() -> None:
    config = {"permission": {"bash": "allow", "external_directory": "deny"}}
    found = bash("rm /etc/x", config=config, profile="faithful")
    assert (found["verdict"], found["external_directories"]) == ("deny", ["/etc/*"])
    assert found["rules"] == [rule("external_directory * deny")]
    assert [part["verdict"] for part in found["parts"]] == ["allow"]


def test_a_tool_in_capitals_does_not_slip_past_the_rules_for_its_name() -> None:
    config = {"permission": {"*": "allow", "bash": {"rm *": "deny"}}}
    found = answer(dialect="opencode", config=config, tool="Bash", input={"command": "rm x"}, cwd="/r", home="/h")
    assert found["verdict"] == "deny"


def test_a_message_is_for_denials_only() -> None:
    assert (bash("git log")["message"], bash("make")["message"]) == (None, None)


def test_what_the_hardened_profile_found_inside_names_its_outer_part() -> None:
    found = bash("git log $(git push)")
    inner = [part for part in found["parts"] if "in" in part]
    assert found["verdict"] == "deny"
    assert [(part["text"], part["in"]) for part in inner] in ([("git push", "git log $(git push)")], [])


@pytest.mark.parametrize(
    ("dialect", "config", "tool", "always"),
    [
        ("claude", {"permissions": {}}, "Bash", ["Bash(frob x *)"]),
        ("betcode", {"permissions": {}}, "Bash", ["Bash(frob x y)"]),
        ("codelia", {"permissions": {}}, "bash", [{"tool": "bash", "command": "frob"}]),
        ("brutus", {"permission": {}}, "bash", ["frob*"]),
        ("opencode", {"permission": {}}, "bash", ["frob *"]),
    ],
)
def test_each_dialect_says_always_in_its_own_shape(dialect: str, config: Any, tool: str, always: Any) -> None:
    found = answer(dialect=dialect, config=config, tool=tool, input={"command": "frob x y"}, cwd="/repo", home="/h")
    assert (found["id"], found["verdict"], found["always"]) == (None, "ask", always)


@pytest.mark.parametrize(
    ("dialect", "tool", "grant"),
    [
        ("claude", "Bash", {"tool_name": "Bash", "pattern": "frob *", "action": "allow"}),
        ("betcode", "Bash", {"tool_name": "Bash", "pattern": None}),
        ("codelia", "bash", {"tool": "bash", "command": "frob"}),
        ("brutus", "bash", {"permission": "bash", "pattern": "frob*", "action": "allow"}),
        ("opencode", "bash", {"permission": "bash", "pattern": "frob *", "action": "allow"}),
    ],
)
def test_grants_come_in_the_shape_of_their_dialect(dialect: str, tool: str, grant: Any) -> None:
    found = answer(dialect=dialect, tool=tool, input={"command": "frob x"}, cwd="/repo", home="/h", grants=[grant])
    assert found.get("verdict") == "allow", found


def test_a_grant_that_denies_is_the_last_rule_of_all() -> None:
    grant = {"permission": "bash", "pattern": "git log", "action": "deny"}
    found = bash("git log", grants=[grant])
    assert (found["verdict"], found["rules"]) == ("deny", [rule("bash git log deny", "grants")])


def test_the_config_of_a_line_stands_above_its_layers() -> None:
    layers = [{"name": "low", "config": {"permission": {"edit": "allow"}}}]
    config = {"permission": {"edit": "deny"}}
    asked = {"dialect": "opencode", "layers": layers, "permission": "edit", "patterns": ["a"]}
    assert answer(**asked)["rules"] == [rule("edit * allow", "low")]
    assert answer(**asked, config=config)["verdict"] == "deny"


def test_allow_rules_of_a_layer_without_trust_do_not_count() -> None:
    layers = [{"name": "project", "config": {"permissions": {"allow": ["Bash(x)"]}}, "trusted": False}]
    assert answer(dialect="claude", layers=layers, tool="Bash", input={"command": "x"})["verdict"] == "ask"


def test_facts_in_a_line_come_before_the_disk() -> None:
    config = {"permissions": {"allow": [{"tool": "bash", "command": "ls"}]}}
    asked = {"dialect": "codelia", "config": config, "cwd": "/r", "sandbox_root": "/r", "tool": "bash"}
    checker = Checker(facts=DiskFacts())
    there = {**asked, "input": {"command": "cd in && ls"}, "fs": {"in": "dir"}}
    away = {**asked, "input": {"command": "cd in && ls"}, "fs": {"in": "-> /etc"}}
    assert [checker.answer(one)["verdict"] for one in (there, away)] == ["allow", "ask"]


def test_options_stand_for_what_a_line_leaves_out() -> None:
    checker = Checker({"dialect": "opencode", "config": OPENCODE, "cwd": "/repo", "home": "/h"})
    question = {"permission": "bash", "patterns": ["git push"]}
    assert checker.answer(question)["verdict"] == "deny"
    assert checker.answer({**question, "config": {"permission": {"bash": "allow"}}})["verdict"] == "allow"


def test_a_line_with_a_permission_and_no_patterns_is_allowed() -> None:
    assert answer(**ASK, permission="bash", patterns=[])["verdict"] == "allow"


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ({}, "the line has no dialect; known are `betcode`, `brutus`, `claude`, `codelia`, `opencode`"),
        ({"dialect": "cobol"}, "the line has the unknown dialect `cobol`; known are"),
        ({**ASK}, "a line asks about a `tool` with `input`, or about a `permission` with `patterns`"),
        ({**ASK, "tool": "bash", "permission": "bash"}, "a line asks about a `tool`"),
        ({**ASK, "tool": ""}, "`tool` must be a string that is not empty, not ``"),
        ({**ASK, "permission": "bash", "patterns": "ls"}, "`patterns` must be a list of strings, not `ls`"),
        ({**ASK, "tool": "bash", "profil": "faithful"}, "a line has no member `profil`"),
        ({**ASK, "tool": "bash", "layers": {}}, "`layers` must be a list, not `{}`"),
        ({**ASK, "tool": "bash", "layers": [{"name": "x"}]}, "layer `x` needs a `config`"),
        ({**ASK, "tool": "bash", "layers": [{"config": {}}]}, "layer 1 needs a `name`, not `None`"),
        ({**ASK, "tool": "bash", "layers": [{"name": "x", "config": {}, "trust": 1}]}, "layer 1 has an unknown member"),
        ({**ASK, "tool": "bash", "grants": {}}, "`grants` must be a list of objects, not `{}`"),
        ({**ASK, "tool": "bash", "config": {"permission": 3}}, "layer `config`: `permission` must be an action or an"),
        ({**ASK, "tool": "bash", "profile": "soft"}, "the option `profile` must be `hardened` or `faithful`"),
    ],
)
def test_a_bad_line_is_an_error_and_never_a_verdict(question: dict[str, Any], text: str) -> None:
    found = Checker().answer({**question, "id": "x"})
    assert found.keys() == {"id", "error"}
    assert found["id"] == "x"
    assert text in found["error"]


@pytest.mark.parametrize("value", [None, 3, "x", [], True])
def test_a_line_that_is_no_object_is_an_error_without_an_id(value: object) -> None:
    found = Checker().answer(value)
    assert (found["id"], found["error"].startswith("a line must be an object, not ")) == (None, True)


def test_each_distinct_configuration_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = compile_policy

    def counted(source: Any) -> Any:
        made.append(source.dialect)
        return real(source)

    monkeypatch.setattr(check_questions, "compile_policy", counted)
    checker = Checker()
    bad = {**ASK, "config": {"permission": 3}, "permission": "x", "patterns": ["a"]}
    good = {**ASK, "permission": "bash", "patterns": ["git log"]}
    answers = [checker.answer(one) for one in (good, good, bad, bad, {**good, "patterns": ["x"]})]
    assert len(made) == 2
    assert answers[2] == answers[3]


def test_configurations_that_differ_in_order_alone_are_not_the_same() -> None:
    checker = Checker()
    orders = [{"git *": "allow", "*": "deny"}, {"*": "deny", "git *": "allow"}]
    asked = [
        {**ASK, "config": {"permission": {"bash": one}}, "permission": "bash", "patterns": ["git log"]}
        for one in orders
    ]
    assert [checker.answer(one)["verdict"] for one in asked] == ["deny", "allow"]


def test_a_checker_keeps_no_more_than_it_says() -> None:
    checker = Checker()
    for number in range(COMPILED_COUNT + 2):
        config = {"permission": {"bash": {str(number): "allow"}}}
        asked = {**ASK, "config": config, "permission": "bash", "patterns": [str(number)]}
        assert checker.answer(asked)["verdict"] == "allow"
    assert len(checker._compiled) == COMPILED_COUNT


def test_a_policy_error_names_what_it_is_about() -> None:
    with pytest.raises(PolicyError, match="no member `colour`"):
        source_of({"colour": "red"})

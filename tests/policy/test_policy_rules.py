"""Rules as programs hand them in and as configurations spell them; malformed rules are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.errors import LedgerError
from ledger.policy import PolicyError, Rule, Verdict, disabled, evaluate, from_config, merge
from ledger.policy.checks import RULE_COUNT

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


def test_rules_and_plain_objects_are_the_same_at_the_edge() -> None:
    plain = {"permission": "bash", "pattern": "git *", "action": "allow"}
    assert merge([plain], [Rule("bash", "rm *", DENY)]) == (Rule("bash", "git *", ALLOW), Rule("bash", "rm *", DENY))
    assert evaluate("bash", "git status", [plain]) == Rule("bash", "git *", ALLOW)


def test_a_rule_whose_action_is_a_plain_word_gets_the_verdict_of_that_name() -> None:
    rule = Rule("bash", "*", "deny")  # type: ignore[arg-type]
    assert merge([rule])[0].action is DENY


def test_nothing_that_matches_is_ask_with_the_permission_and_a_star() -> None:
    assert evaluate("bash", "ls") == Rule("bash", "*", ASK)


def test_rulesets_are_searched_as_one_list() -> None:
    assert evaluate("bash", "rm x", [Rule("bash", "*", ALLOW)], [Rule("bash", "rm *", DENY)]).action is DENY
    assert evaluate("bash", "rm x", [Rule("bash", "rm *", DENY)], [Rule("bash", "*", ALLOW)]).action is ALLOW


def test_an_action_alone_stands_for_every_permission() -> None:
    assert from_config("allow") == (Rule("*", "*", ALLOW),)


@pytest.mark.parametrize(
    ("pattern", "expanded"),
    [
        ("~", "/home/ann"),
        ("~/projects/*", "/home/ann/projects/*"),
        ("$HOME", "/home/ann"),
        ("$HOME/x", "/home/ann/x"),
        ("$HOMEDIR", "/home/annDIR"),
        ("~bob/x", "~bob/x"),
        ("/a/~/x", "/a/~/x"),
        ("/a/$HOME", "/a/$HOME"),
    ],
)
def test_the_home_directory_stands_at_the_start_of_a_pattern(pattern: str, expanded: str) -> None:
    assert from_config({"read": {pattern: "deny"}}, home="/home/ann") == (Rule("read", expanded, DENY),)


def test_a_home_that_ends_in_a_slash_does_not_double_it() -> None:
    assert from_config({"read": {"~/.ssh/*": "deny"}}, home="/") == (Rule("read", "/.ssh/*", DENY),)


def test_a_permission_is_never_expanded() -> None:
    assert from_config({"~": "deny"}) == (Rule("~", "*", DENY),)


def test_a_home_pattern_without_a_home_stands_for_the_home_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/bob")
    assert from_config({"read": {"~/.ssh/*": "deny"}}) == (Rule("read", "/home/bob/.ssh/*", DENY),)


def test_a_home_pattern_where_there_is_no_home_restricts_more_and_allows_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.policy.loader.own_home", lambda: None)
    assert from_config({"read": {"~/.ssh/*": "deny", "$HOME/notes/*": "allow"}}) == (
        Rule("read", "~/.ssh/*", DENY),
        Rule("read", "*/.ssh/*", DENY),
        Rule("read", "~/notes/*", ALLOW),
    )


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("maybe", "`permission` must be `allow`, `ask` or `deny`, not `maybe`"),
        (None, "`permission` must be an action or an object, not `None`"),
        ([], "`permission` must be an action or an object, not `[]`"),
        ({"bash": "Allow"}, "the action of `bash` must be `allow`, `ask` or `deny`, not `Allow`"),
        ({"bash": None}, "the action of `bash` must be `allow`, `ask` or `deny`, not `None`"),
        ({"bash": True}, "the action of `bash` must be `allow`, `ask` or `deny`, not `True`"),
        ({"bash": ["allow"]}, "the action of `bash` must be `allow`, `ask` or `deny`, not `['allow']`"),
        ({"bash": {"rm *": {}}}, "the action of `bash` for `rm *` must be `allow`, `ask` or `deny`, not `{}`"),
        ({1: "allow"}, "a permission must be a string, not `1`"),
        ({"bash": {"\ud800": "allow"}}, r"a pattern `\ud800` is not valid Unicode"),
        ({"x" * 257: "allow"}, f"the permission `{'x' * 60}…` has more than 256 characters"),
        ({"bash": {"é" * 40_000: "deny"}}, f"the pattern `{'é' * 60}…` has more than 65536 bytes"),
    ],
)
def test_a_configuration_that_is_misshapen_is_refused_with_its_key(config: Any, text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        from_config(config)
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("ruleset", "text"),
    [
        ("allow", "a ruleset must be a list of rules, not str; from_config takes a configuration"),
        ({"bash": "allow"}, "a ruleset must be a list of rules, not dict; from_config takes a configuration"),
        ([1], "rule 1 must be an object with permission, pattern and action"),
        ([{"permission": "bash", "action": "deny"}], "rule 1 has no `pattern`"),
        (
            [{"permission": "bash", "pattern": "*", "action": "deny", "patern": "x"}],
            "rule 1 has an unknown member `patern`",
        ),
        (
            [Rule("a", "b", ALLOW), {"permission": "a", "pattern": "*", "action": "no"}],
            "the action of rule 2 must be `allow`, `ask` or `deny`, not `no`",
        ),
        ([Rule("a", 3, ALLOW)], "a pattern must be a string, not `3`"),  # type: ignore[arg-type]
        ([Rule("a", "*", ALLOW)] * (RULE_COUNT + 1), "the ruleset has 10001 rules; at most 10000 are accepted"),
    ],
)
def test_a_ruleset_that_is_misshapen_is_refused_with_the_number_of_the_rule(ruleset: Any, text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        merge(ruleset)
    assert caught.value.text == text


def test_a_policy_error_is_an_error_of_the_ledger_and_names_its_key() -> None:
    with pytest.raises(LedgerError) as caught:
        from_config({"bash": {"rm *": "never"}})
    assert caught.value.code == "POLICY"
    assert caught.value.data == {"key": "bash.rm *"}


def test_every_tool_that_edits_is_disabled_by_a_denied_edit() -> None:
    tools = ["edit", "write", "patch", "multiedit", "apply_patch", "read"]
    assert disabled(tools, from_config({"edit": "deny"})) == frozenset(tools) - {"read"}


def test_a_rule_for_write_does_not_disable_the_tool_because_it_asks_for_edit() -> None:
    assert disabled(["write"], from_config({"write": "deny"})) == frozenset()


def test_a_wildcard_permission_disables_every_tool_it_matches() -> None:
    assert disabled(["mcp_a", "bash"], from_config({"mcp_*": "deny"})) == frozenset({"mcp_a"})

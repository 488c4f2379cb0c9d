"""Rules that the next spelling passes, rules by names that mean nothing, and allows of everything."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ledger.policy import Call, Layer, Policy, PolicySource, Verdict, compile_policy
from ledger.policy.lint import LintFinding, lint_rules

OPTIONS = {"cwd": "/repo", "home": "/h"}


def compiled(dialect: str, *configs: Any, profile: str = "hardened") -> Policy:
    layers = tuple(Layer(f"layer {number}", config=config) for number, config in enumerate(configs))
    return compile_policy(PolicySource(dialect, layers, {**OPTIONS, "profile": profile}))


def linted(dialect: str, config: Any, profile: str = "hardened") -> list[LintFinding]:
    return lint_rules(compiled(dialect, config, profile=profile), compile_policy)


def verdict(policy: Policy, line: str) -> Verdict:
    shell = "Bash" if policy.source.dialect in ("betcode", "claude") else "bash"
    return policy.evaluate(Call(shell, (), shell, {"command": line})).verdict


def bash(**patterns: str) -> dict[str, Any]:
    return {"permission": {"bash": patterns}}


def tools(**lists: list[str]) -> dict[str, Any]:
    return {"permissions": lists}


def codelia(rule: dict[str, str]) -> dict[str, Any]:
    return {"permissions": {"deny": [{"tool": "bash", **rule}]}}


@pytest.mark.parametrize(
    ("dialect", "config", "found"),
    [
        ("claude", tools(deny=["Bash(rm)"]), ["exact-deny"]),
        ("claude", tools(deny=["Bash(git push)"]), ["exact-deny"]),
        ("opencode", bash(rm="deny"), ["exact-deny"]),
        ("codelia", codelia({"command_glob": "rm"}), ["exact-deny"]),
        ("opencode", {"permission": {"bash": {"*": "allow", "rm": "ask"}}}, ["blanket", "exact-deny"]),
        # With more words it is restricted all the same: by the dialect, another rule, or the default.
        ("betcode", tools(deny=["Bash(rm)"]), []),
        ("codelia", codelia({"command": "rm"}), []),
        ("claude", tools(deny=["Bash(rm)", "Bash(rm *)"]), []),
        ("opencode", bash(**{"*": "ask", "rm": "ask"}), []),
    ],
)
def test_a_deny_without_wildcard_that_more_words_pass_is_found(dialect: str, config: Any, found: list[str]) -> None:
    assert [one.code for one in linted(dialect, config)] == found


@pytest.mark.parametrize(
    ("dialect", "pattern", "passing"),
    [
        ("claude", "rm -rf *", ["rm -fr x", "rm -r -f x", "rm x -rf"]),
        ("betcode", "rm -rf *", ["rm -fr x", "rm -r -f x", "rm x -rf"]),
        ("opencode", "rm -rf*", ["rm -fr x", "rm -r -f x", "rm x -rf"]),
        ("opencode", "git push -f *", ["git push x -f"]),
        ("claude", "git push --force:*", ["git push x --force"]),
        ("claude", "git commit -n -a *", ["git commit x -n -a", "git commit -a -n x"]),
        ("claude", "rm *", []),
        ("claude", "*--force*", []),
        ("opencode", "git push *--force*", ["git push -f x", "git push --mirror x"]),
        ("opencode", "git commit *--amend*", []),
    ],
)
def test_spellings_that_pass_a_deny_in_faithful_are_named(dialect: str, pattern: str, passing: list[str]) -> None:
    config = bash(**{pattern: "deny"}) if dialect == "opencode" else tools(deny=[f"Bash({pattern})"])
    found = [one for one in linted(dialect, config, "faithful") if one.code == "leaky-deny"]
    assert bool(found) is bool(passing)
    for line in passing:
        assert f"`{line}`" in found[0].text
        assert verdict(compiled(dialect, config, profile="faithful"), line) is not Verdict.DENY


def test_a_leak_is_told_for_each_profile() -> None:
    config = {"permission": {"bash": {"*": "allow", "git push -f *": "deny"}}}
    [one] = [one for one in linted("opencode", config) if one.code == "leaky-deny"]
    assert "in profile faithful" in one.text
    assert "`git push x -f`" in one.text
    assert "hardened" not in one.text
    assert one.severity == "info"
    assert [one.severity for one in linted("opencode", config, "faithful") if one.code == "leaky-deny"] == ["warning"]


@pytest.mark.parametrize(
    ("dialect", "config"),
    [
        ("claude", tools(allow=["Bash"], deny=["Bash(rm -rf *)"])),
        ("claude", tools(allow=["Bash"], deny=["Bash(git push --force:*)"])),
        ("claude", tools(allow=["Bash"], deny=["Bash(git commit --amend)"])),
        ("betcode", tools(allow=["Bash"], deny=["Bash(git branch -D *)"])),
        ("opencode", {"permission": {"bash": {"*": "allow", "git push -f*": "deny"}}}),
        ("opencode", {"permission": {"bash": {"*": "allow", "rm": "deny"}}}),
    ],
)
def test_with_the_advised_rule_nothing_that_was_named_passes(dialect: str, config: Any) -> None:
    found = [one for one in linted(dialect, config, "faithful") if one.code in ("leaky-deny", "exact-deny")]
    assert found
    for one in found:
        lines = re.findall(r"`([^`]+)`", one.text)[1:]
        advised = re.findall(r"`([^`]+)`", one.fix)
        more = json.loads(f"{{{','.join(advised)}}}") if dialect == "opencode" else {"deny": advised}
        layer = {"permission": {"bash": more}} if dialect == "opencode" else {"permissions": more}
        policy = compiled(dialect, config, layer, profile="faithful")
        assert lines
        assert {verdict(policy, line) for line in lines} == {Verdict.DENY}


@pytest.mark.parametrize(
    ("dialect", "config", "code", "fix"),
    [
        ("claude", tools(allow=["Write(src/**)"]), "never-asked", "write `Edit(src/**)`, which is about every tool that changes files"),
        ("claude", tools(deny=["Grep(.env)"]), "never-asked", "write `Read(.env)`, which is about every tool that reads files"),
        ("betcode", tools(deny=["Write(.env)"]), "leaky-deny", "write `Edit(.env)`, which is about every tool that changes files"),
        ("claude", tools(allow=["mcp__*"]), "never-asked", "write `mcp__SERVER` for each server, or each tool by its name"),
        ("betcode", tools(allow=["*"]), "never-asked", "write `mcp__SERVER` for each server, or each tool by its name"),
        ("claude", tools(allow=["mcp__github__get(x)"]), "never-asked", "write `mcp__github__get`"),
        ("opencode", {"permission": {"mcp__github__get": "allow"}}, "unknown-tool", "write `github_get`"),
        ("opencode", {"permission": {"mcp__*": "allow"}}, "unknown-tool", "write `SERVER_*`"),
    ],
)  # fmt: skip
def test_a_rule_that_its_dialect_does_not_know_is_found(dialect: str, config: Any, code: str, fix: str) -> None:
    assert [(one.code, one.fix) for one in linted(dialect, config)] == [(code, fix)]


@pytest.mark.parametrize(
    ("dialect", "config"),
    [
        ("betcode", tools(allow=["Write(src/**)"])),
        ("betcode", tools(deny=["Write(.env)", "Edit(.env)"])),
        ("claude", tools(deny=["mcp__*"])),
        ("claude", tools(allow=["mcp__github__*", "mcp__shop"])),
        ("claude", tools(allow=["Edit(**)", "Read"])),
    ],
)
def test_names_that_their_dialect_knows_are_left_alone(dialect: str, config: Any) -> None:
    assert linted(dialect, config) == []


@pytest.mark.parametrize(
    ("dialect", "config", "text"),
    [
        (
            "claude",
            tools(allow=["Bash", "Bash(git log *)"], deny=["Bash(rm *)"]),
            ("`Bash` allows every command that no other rule restricts; beside it `Bash(rm *)` still decides; "
            "`Bash(git log *)` changes nothing while it stands"),
        ),
        (
            "opencode",
            bash(**{"*": "allow", "rm *": "deny", "git *": "ask"}),
            ("`bash * allow` allows every command that no other rule restricts; "
            "beside it `bash rm * deny`, `bash git * ask` still decide"),
        ),
        ("opencode", {"permission": "allow"}, "`* * allow` allows every command that no other rule restricts"),
        ("claude", tools(allow=["Edit"]), "`Edit` allows to change every file of the machine, not only those of the project"),
        ("betcode", tools(allow=["Write"]), "`Write` allows to change every file of the machine, not only those of the project"),
    ],
)  # fmt: skip
def test_an_allow_of_everything_says_what_narrower_rules_still_do(dialect: str, config: Any, text: str) -> None:
    assert [one.text for one in linted(dialect, config) if one.code == "blanket"] == [text]


def test_an_allow_of_edits_that_ask_outside_the_project_is_no_blanket() -> None:
    assert linted("opencode", {"permission": {"edit": "allow"}}) == []

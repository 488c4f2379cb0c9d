"""Rules shared by the two dialects of tool rules: rules in files, facts about files, path patterns, grants."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ledger.client.machine import DiskFacts
from ledger.policy import Layer, PolicyError, Rule, Verdict
from ledger.policy.checks import MappedFacts
from ledger.policy.facts import FileFacts, FileKind, NoFacts
from ledger.policy.matching import exact_glob, ignore_glob, name_glob
from ledger.policy.toolrules import load_settings, load_tool_rules, parse_rule, read_grant, read_rules
from ledger.policy.toolrules.commands import grant_rule
from ledger.policy.toolrules.rule import may_allow, names_tool


def test_a_rule_is_a_tool_with_or_without_a_specifier() -> None:
    texts = ["Bash", "Bash(*)", "Bash()", "Bash(git *)", "Bash(echo (x))", "mcp__a__*", "Edit(src/(a)/**)"]
    assert [parse_rule(text) for text in texts] == [
        ("Bash", None),
        ("Bash", None),
        ("Bash", None),
        ("Bash", "git *"),
        ("Bash", "echo (x)"),
        ("mcp__a__*", None),
        ("Edit", "src/(a)/**"),
    ]


def test_a_rule_with_nothing_between_its_parentheses_allows_nothing_and_denies_the_whole_tool() -> None:
    config = {"permissions": {"allow": ["Bash()", "Read(*)"], "ask": ["Edit()"], "deny": ["WebFetch()"]}}
    rules = read_rules((Layer("project", config=config),))
    assert [(rule.ref.text, rule.specifier) for rule in rules] == [
        ("Read(*)", None),
        ("Edit()", None),
        ("WebFetch()", None),
    ]
    assert read_rules((Layer("session", rules=(Rule("Bash", "", Verdict.ALLOW),)),)) == ()


def test_every_rule_knows_its_layer_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "rules.jsonc"
    file.write_text(
        '{\n  // team\n  "permissions": {\n    "deny": ["Bash(rm *)"],\n    "allow": [\n      "Read"\n    ]\n  }\n}\n'
    )
    rules = read_rules((load_tool_rules(file, name="project"),))
    assert [(rule.ref.text, rule.ref.layer, rule.ref.file, rule.ref.line, rule.action) for rule in rules] == [
        ("Bash(rm *)", "project", str(file), 4, Verdict.DENY),
        ("Read", "project", str(file), 6, Verdict.ALLOW),
    ]


def test_nothing_but_the_permissions_of_a_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"env": {"TOKEN": "secret"}, "permissions": {"allow": ["Read"], "defaultMode": "plan"}}))
    assert "secret" not in repr(load_tool_rules(file))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            b'{"permissions": {"deny": ["Bash"],}}',
            " line 1: a comma after the last member is allowed in .jsonc files only",
        ),
        (b'{\n"permissions": {\n"deny": [\n7]}}', " line 4: a rule is a string such as `Bash(git status)`, not `7`"),
        (
            b'{"permissions": {"deny": []}, "permissions": {}}',
            " line 1: `permissions` is given twice; keep one of them",
        ),
        (b"\n\xff", " line 2: the file is not UTF-8"),
        (b"[]", " must hold an object with `permissions`"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_file_and_line(tmp_path: Path, content: bytes, text: str) -> None:
    file = tmp_path / "s.json"
    file.write_bytes(content)
    with pytest.raises(PolicyError) as caught:
        load_tool_rules(file)
    shown = str(file) if len(str(file)) <= 60 else str(file)[:60] + "…"
    assert str(caught.value) == f"`{shown}`{text}"


def test_a_missing_file_is_refused_when_it_was_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read: no such file or directory"):
        load_tool_rules(tmp_path / "none.json")
    with pytest.raises(PolicyError, match="cannot be read"):
        load_settings(tmp_path, flag=tmp_path / "none.json", managed=tmp_path / "none")


def test_the_settings_of_claude_code_are_found_where_the_program_looks(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "home" / "shop"
    files = {
        "user": home / ".claude" / "settings.json",
        "project": project / ".claude" / "settings.json",
        "local": project / ".claude" / "settings.local.json",
        "flag": tmp_path / "flag.json",
        "managed": tmp_path / "managed.json",
    }
    for name, file in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"permissions": {"allow": [f"Bash({name})"]}}))
    layers = load_settings(project, home=str(home), flag=files["flag"], managed=files["managed"], trusted=False)
    assert [(layer.name, layer.file, layer.trusted) for layer in layers] == [
        (name, str(file), name not in ("project", "local")) for name, file in files.items()
    ]
    assert [rule.ref.text for rule in read_rules(layers)] == ["Bash(user)", "Bash(flag)", "Bash(managed)"]
    assert load_settings(tmp_path, managed=tmp_path / "none") == ()


def test_a_final_rule_is_a_deny_that_says_so() -> None:
    rules = read_rules((Layer("user", config={"permissions": {"final": ["Bash"], "deny": ["Read"]}}),))
    assert [(rule.tool, rule.action, rule.final) for rule in rules] == [
        ("Bash", Verdict.DENY, True),
        ("Read", Verdict.DENY, False),
    ]


# --- path patterns -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "exact", "ignored"),
    [
        ("src/**", ["src/a", "src/a/b", "src", "src/b"], ["src/a", "src/a/b", "x/src/a", "SRC/a", "src", "src/b"]),
        ("src/*", ["src/a", "src/b"], ["src/a", "src/a/b", "SRC/a", "src/b"]),
        ("src/**/b", ["src/a/b", "src/b"], ["src/a/b", "src/b"]),
        ("*", ["src"], ["src/a", "src/a/b", "x/src/a", "SRC/a", "src", "src/b"]),
        ("**", ["src/a", "src/a/b", "x/src/a", "SRC/a", "src", "src/b"],
         ["src/a", "src/a/b", "x/src/a", "SRC/a", "src", "src/b"]),
        ("src/", ["src"], ["src/a", "src/a/b", "x/src/a", "SRC/a", "src/b"]),
        ("/src", ["src"], ["src/a", "src/a/b", "SRC/a", "src", "src/b"]),
        ("!src", [], []),
        ("**/a", ["src/a", "x/src/a", "SRC/a"], ["src/a", "src/a/b", "x/src/a", "SRC/a"]),
    ],
)  # fmt: skip
def test_a_pattern_is_exact_for_allow_rules_and_as_gitignore_for_the_rest(
    pattern: str, exact: list[str], ignored: list[str]
) -> None:
    paths = ["src/a", "src/a/b", "x/src/a", "SRC/a", "src", "src/b"]
    assert sorted(path for path in paths if exact_glob(pattern)(path)) == sorted(exact)
    assert sorted(path for path in paths if ignore_glob(pattern)(path)) == sorted(ignored)


def test_a_name_matches_with_stars_sets_and_escapes() -> None:
    cases: list[tuple[str, str, bool]] = [
        ("*.ts", "a.ts", True), ("*.ts", "a.tsx", False), ("a?c", "abc", True), ("a?c", "ac", False),
        ("[ab]c", "bc", True), ("[!ab]c", "bc", False), ("[a-c]", "b", True), ("[", "[", True), ("\\*", "*", True),
        ("\\*", "a", False), ("a*b*c", "aXbYc", True), ("a*b*c", "acb", False), ("", "", True), ("*", "", True),
    ]  # fmt: skip
    assert [name_glob(pattern)(name) for pattern, name, _ in cases] == [wanted for *_, wanted in cases]


def test_many_stars_and_folders_do_not_make_a_pattern_slow() -> None:
    started = time.perf_counter()
    assert not name_glob("*a" * 20 + "b")("a" * 2_000)
    assert not ignore_glob("**/a" * 20 + "/b")("/".join(["a"] * 400))
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("rule", "tool", "named", "allowed"),
    [
        ("mcp__github", "mcp__github__get", True, True),
        ("mcp__github", "mcp__githubx__get", False, True),
        ("mcp__github__*", "mcp__github__get", True, True),
        ("mcp__git*", "mcp__github__get", True, False),
        ("mcp__*__get", "mcp__github__get", True, False),
        ("mcp__*", "mcp__github__get", True, False),
        ("*", "Bash", True, False),
        ("Bash", "Bash", True, True),
        ("bash", "Bash", False, True),
    ],
)
def test_a_star_in_a_tool_allows_only_behind_the_literal_name_of_a_server(
    rule: str, tool: str, named: bool, allowed: bool
) -> None:
    assert (names_tool(rule, tool), may_allow(rule)) == (named, allowed)


# --- facts -------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["mapped", "disk"])
def facts(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileFacts, str]:
    base = str(tmp_path.resolve())
    if request.param == "mapped":
        entries = {
            "d/f": "file",
            "e": "dir",
            "l": "-> d/f",
            "m": "-> e",
            "e/up": "-> ../d",
            "loop": "-> loop",
            "abs": f"-> {base}/d",
        }
        return MappedFacts(entries, base), base
    for folder in ("d", "e"):
        (tmp_path / folder).mkdir()
    (tmp_path / "d" / "f").write_text("x")
    for link, target in {"l": "d/f", "m": "e", "e/up": "../d", "loop": "loop", "abs": f"{base}/d"}.items():
        (tmp_path / link).symlink_to(target)
    return DiskFacts(), base


def test_facts_follow_links_and_know_what_stands_where(facts: tuple[FileFacts, str]) -> None:
    known, base = facts
    paths = ["d/f", "l", "m", "m/up/f", "abs/f", "none/x", "d/../l", "e"]
    assert [known.resolve(f"{base}/{path}") for path in paths] == [
        f"{base}/{real}" for real in ("d/f", "d/f", "e", "d/f", "d/f", "none/x", "d/f", "e")
    ]
    assert [known.kind(f"{base}/{path}") for path in paths] == [
        FileKind.FILE, FileKind.FILE, FileKind.DIRECTORY, FileKind.FILE, FileKind.FILE, None, FileKind.FILE, FileKind.DIRECTORY,
    ]  # fmt: skip


def test_a_loop_of_links_ends(facts: tuple[FileFacts, str]) -> None:
    known, base = facts
    assert known.resolve(f"{base}/loop").startswith(base)
    assert known.kind(f"{base}/loop") is None


def test_without_facts_a_path_leads_to_itself() -> None:
    assert (NoFacts().resolve("/a/../b/./c"), NoFacts().kind("/a")) == ("/b/c", None)


# --- grants ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"tool_name": "Edit", "action": "allow"}, ("Edit", None, Verdict.ALLOW)),
        ({"tool_name": "Bash", "pattern": None, "action": "deny"}, ("Bash", None, Verdict.DENY)),
        ({"tool_name": "Bash", "pattern": "git push *"}, ("Bash", "git push *", Verdict.ALLOW)),
        ({"tool_name": "Bash", "pattern": "Bash(git push *)"}, ("Bash", "git push *", Verdict.ALLOW)),
        ({"tool_name": "mcp__a__b", "pattern": "mcp__a"}, ("mcp__a", None, Verdict.ALLOW)),
        ({"tool_name": "Bash", "pattern": "*"}, ("Bash", None, Verdict.ALLOW)),
    ],
)
def test_a_grant_is_for_a_tool_or_for_what_its_pattern_says(given: dict[str, Any], rule: tuple[Any, ...]) -> None:
    made = grant_rule(read_grant(given))
    assert (made.tool, made.specifier, made.action) == rule


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "a grant needs `tool_name`, not `None`"),
        ({"tool_name": "Bash", "pattern": 1}, "the pattern of a grant must be a string or null, not `1`"),
        ({"tool_name": "Bash", "action": "x"}, "the action of a grant must be `allow`, `ask` or `deny`, not `x`"),
    ],
)
def test_a_misshapen_grant_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_grant(given)
    assert str(caught.value) == text

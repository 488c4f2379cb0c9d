"""Files of tool calls in every spelling: a denied file is denied, or asked about where the file is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from ledger.client.machine import DiskFacts
from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy
from ledger.policy.spelled import spelled_paths
from tests.support.rows import every

HOME: Final = "/home/ann"
FOLDER: Final = "/home/ann/shop"
FACTS: Final = {
    ".env": "file",
    "innocent.txt": "-> .env",
    "far": "-> /srv/data/inner",
    "/srv/data/inner": "dir",
    "/srv/data/key": "-> /home/ann/shop/.env",
    "src": "dir",
    "link.ts": "-> caf\u00e9.key",
    "fds": "-> /proc/self/fd",
}
TOOL_RULES: Final = {
    "permissions": {
        "allow": ["Edit", "Read", "Write", "MultiEdit", "NotebookEdit", "NotebookRead", "Glob", "Grep", "LS"],
        "deny": ["Read(.env)", "Edit(.env)", "Read(*.key)", "Edit(*.key)"],
    }
}
WILDCARDS: Final = {
    "permission": {
        "*": "allow",
        "read": {"*": "allow", "*.env": "deny", "*.key": "deny"},
        "edit": {"*": "allow", "*.env": "deny", "*.key": "deny"},
    }
}
DIALECTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "betcode": ("Read", "Edit", "file_path"),
    "claude": ("Read", "Edit", "file_path"),
    "opencode": ("read", "edit", "filePath"),
    "brutus": ("read", "edit", "filePath"),
}
CONFIGS: Final = {"betcode": TOOL_RULES, "claude": TOOL_RULES, "opencode": WILDCARDS, "brutus": WILDCARDS}


def judge(dialect: str, tool: str, value: dict[str, Any]) -> Verdict:
    options = {"cwd": FOLDER, "home": HOME, "fs": FACTS}
    policy = compile_policy(PolicySource(dialect, (Layer("r", config=CONFIGS[dialect]),), options))
    permission = "edit" if dialect in ("opencode", "brutus") and tool in ("write", "multiedit", "apply_patch") else tool
    return policy.evaluate(Call(permission, (), tool, value)).verdict


@every("dialect", DIALECTS)
@every(
    "path",
    [
        ".env",
        "./.env",
        ".env/",
        ".//.env",
        "//home/ann/shop/.env",
        "src/../.env",
        "innocent.txt",
        "far/../key",
        "~/shop/.env",
        "/proc/self/cwd/.env",
        "/proc/1/root/home/ann/shop/.env",
        ".ENV",
        " .env",
        "link.ts",
        "cafe\u0301.key",
        "a\u200d.key",
        ".env\0.txt",
    ],
)
def test_a_denied_file_is_denied_in_every_spelling(dialect: str, path: str) -> None:
    reading, editing, member = DIALECTS[dialect]
    assert judge(dialect, reading, {member: path}) is Verdict.DENY
    assert judge(dialect, editing, {member: path, "content": "x"}) is Verdict.DENY


@every("dialect", DIALECTS)
@every("path", ["/proc/self/environ", "/proc/77/cwd/x", "fds/3", "src/a.ts\0", "/proc/self/task/1/cwd/x"])
def test_a_file_that_nobody_can_name_is_asked_about(dialect: str, path: str) -> None:
    _, editing, member = DIALECTS[dialect]
    assert judge(dialect, editing, {member: path}) is Verdict.ASK


@every("dialect", DIALECTS)
@every("path", ["src/a.ts", "README.md", "src/env.ts", "a b.txt", "50%.txt", "/home/ann/shop/src/x"])
def test_any_other_file_is_still_allowed(dialect: str, path: str) -> None:
    reading, editing, member = DIALECTS[dialect]
    assert judge(dialect, reading, {member: path}) is Verdict.ALLOW
    assert judge(dialect, editing, {member: path}) is Verdict.ALLOW


@pytest.mark.parametrize("dialect", ["betcode", "claude"])
@pytest.mark.parametrize(
    ("tool", "value"),
    [
        ("Write", {"file_path": "innocent.txt", "content": "x"}),
        ("MultiEdit", {"file_path": "far/../key", "edits": []}),
        ("NotebookEdit", {"notebook_path": "a.ipynb", "file_path": ".env"}),
        ("NotebookRead", {"notebook_path": "/proc/self/cwd/.env"}),
        ("Grep", {"pattern": "x", "path": "innocent.txt"}),
        ("LS", {"path": "/proc/self/cwd/.env"}),
    ],
)
def test_every_tool_that_names_a_file_is_judged_by_it(dialect: str, tool: str, value: dict[str, Any]) -> None:
    assert judge(dialect, tool, value) is Verdict.DENY


@pytest.mark.parametrize("dialect", ["betcode", "claude"])
@pytest.mark.parametrize(
    ("tool", "value", "verdict"),
    [
        ("Glob", {"pattern": "**/.env*"}, Verdict.ASK),
        ("Glob", {"pattern": "*.key"}, Verdict.ASK),
        ("Grep", {"pattern": "", "glob": ".e*"}, Verdict.ASK),
        ("Glob", {"pattern": "**/*.ts"}, Verdict.ALLOW),
        ("Grep", {"pattern": ".env", "glob": "*.{ts,tsx}"}, Verdict.ALLOW),
    ],
)
def test_a_search_that_picks_a_denied_file_is_asked_about(
    dialect: str, tool: str, value: dict[str, Any], verdict: Verdict
) -> None:
    assert judge(dialect, tool, value) is verdict


@pytest.mark.parametrize(
    ("tool", "value", "verdict"),
    [
        ("write", {"filePath": "innocent.txt", "content": "x"}, Verdict.DENY),
        ("multiedit", {"filePath": "a.ts", "edits": [{"filePath": ".env", "oldString": "a"}]}, Verdict.DENY),
        (
            "apply_patch",
            {"patchText": "*** Begin Patch\n*** Update File: innocent.txt\n@@\n*** End Patch"},
            Verdict.DENY,
        ),
        ("apply_patch", {"patchText": "*** Begin Patch\n*** Add File: far/../key\n*** End Patch"}, Verdict.DENY),
        ("grep", {"pattern": "x", "include": "*.env"}, Verdict.ASK),
        ("grep", {"pattern": "x", "path": ".env"}, Verdict.ASK),
        ("grep", {"pattern": "x", "include": "*.ts"}, Verdict.ALLOW),
        ("glob", {"pattern": "**/*.ts"}, Verdict.ALLOW),
    ],
)
def test_every_tool_of_opencode_that_names_a_file_is_judged_by_it(
    tool: str, value: dict[str, Any], verdict: Verdict
) -> None:
    assert judge("opencode", tool, value) is verdict


def test_a_link_to_what_no_rule_allows_is_asked_about() -> None:
    config = {"permission": {"edit": {"src/*": "allow"}}}
    facts = {"src/a": "-> ../other"}
    policy = compile_policy(PolicySource("opencode", (Layer("r", config=config),), {"cwd": FOLDER, "fs": facts}))
    assert policy.evaluate(Call("edit", (), "edit", {"filePath": "src/a"})).verdict is Verdict.ASK
    assert policy.evaluate(Call("edit", (), "edit", {"filePath": "src/b"})).verdict is Verdict.ALLOW


def test_the_links_of_the_judging_process_are_not_those_of_the_agent(tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to("/proc/self/cwd")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    facts = DiskFacts()
    assert facts.resolve("/proc/self/cwd/.env") == "/proc/self/cwd/.env"
    assert facts.resolve(f"{tmp_path}/way/x") == "/proc/self/cwd/x"
    assert facts.resolve(f"{tmp_path}/a/x") == f"{tmp_path}/a/x"
    found = spelled_paths("way/x", str(tmp_path), None, facts)
    assert f"{tmp_path}/x" in found


OTHER_TOOLS: Final = {"betcode": "mcp__fs__run", "claude": "mcp__fs__run", "opencode": "fs_run", "brutus": "fs_run"}
WITH_MCP: Final = {
    "permissions": {**TOOL_RULES["permissions"], "allow": [*TOOL_RULES["permissions"]["allow"], "mcp__fs"]}
}


def judge_other(dialect: str, value: dict[str, Any]) -> Verdict:
    config = WITH_MCP if dialect in ("betcode", "claude") else WILDCARDS
    options = {"cwd": FOLDER, "home": HOME, "fs": FACTS}
    policy = compile_policy(PolicySource(dialect, (Layer("r", config=config),), options))
    return policy.evaluate(Call(OTHER_TOOLS[dialect], (), OTHER_TOOLS[dialect], value)).verdict


@every("dialect", DIALECTS)
@every(
    "value",
    [
        {"path": ".env"},
        {"target": "innocent.txt"},
        {"paths": ["a.ts", ".ENV"]},
        {"uri": "file:///home/ann/shop/%2eenv"},
        {"edits": [{"file_path": ".env", "new_string": "x"}]},
        {"options": {"input": {"files": [".env"]}}},
        {"files": {".env": "x"}},
        {"args": ["cat", ".env"]},
        {"command": "cat", "args": [".env"]},
        {"command": "cat .env"},
        {"argv": ["sh", "-c", "cat .env"]},
        {"cwd": "src", "name": "../.env"},
        {"directory": "far", "name": "../key"},
        {"include": "{.env,x}"},
        {"glob": "src/*.key"},
        {"changes": "*** Begin Patch\n*** Update File: .env\n@@\n-a\n+b\n*** End Patch"},
    ],
)
def test_a_file_that_any_member_of_any_tool_may_name_is_asked_about(dialect: str, value: dict[str, Any]) -> None:
    assert judge_other(dialect, value) is Verdict.ASK


@every("dialect", DIALECTS)
@every(
    "value",
    [
        {"path": "src/a.ts"},
        {"title": "fix the reading of .env files", "body": "cat .env"},
        {"content": ".env", "path": "a.ts"},
        {"query": ".env"},
        {"command": "ls src"},
        {"args": ["grep", "-rn", "env", "src"]},
        {"url": "https://example.org/.env"},
        {"include": "*.ts"},
        {"number": 3},
        {},
    ],
)
def test_texts_that_name_no_restricted_file_change_nothing(dialect: str, value: dict[str, Any]) -> None:
    assert judge_other(dialect, value) is Verdict.ALLOW


@pytest.mark.parametrize("dialect", ["betcode", "claude", "opencode"])
@pytest.mark.parametrize(
    ("glob", "verdict"),
    [
        ("{.env,x}", Verdict.ASK),
        ("src/{a,b}.key", Verdict.ASK),
        ("*.ts *.key", Verdict.ASK),
        ("*.ts,*.key", Verdict.ASK),
        ("*.k?y", Verdict.ASK),
        ("*.ts", Verdict.ALLOW),
        ("*.{ts,tsx}", Verdict.ALLOW),
        ("!*.key", Verdict.ALLOW),
    ],
)
def test_a_search_picks_what_its_globs_may_match_at_any_depth(dialect: str, glob: str, verdict: Verdict) -> None:
    tool, member = ("grep", "include") if dialect == "opencode" else ("Grep", "glob")
    assert judge(dialect, tool, {"pattern": ".env", member: glob}) is verdict


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_file_tool_is_judged_by_each_path_in_it(dialect: str) -> None:
    reading, editing, member = DIALECTS[dialect]
    for nested in ({"edits": [{"file_path": ".env"}]}, {"edits": [{"path": ".env"}]}, {"paths": [".env"]}):
        assert judge(dialect, editing, {member: "src/a.ts", **nested}) is Verdict.DENY
        assert judge(dialect, reading, {member: "src/a.ts", **nested}) is Verdict.DENY
    assert judge(dialect, editing, {member: "src/a.ts", "old_string": ".env", "content": ".env"}) is Verdict.ALLOW

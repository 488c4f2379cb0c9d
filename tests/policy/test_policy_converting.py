"""Rules carried from one dialect to another: never looser, and every tightening told."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy, strictest
from ledger.policy.asked import permission_of, shell_tool
from ledger.policy.checking import Judged
from ledger.policy.converting import convert
from ledger.policy.neutral import NAMES, tool_name

CLAUDE = {
    "permissions": {
        "allow": [
            "Bash(git:*)",
            "Bash(npm test)",
            "Bash(ls *)",
            "Read",
            "Edit(/src/**)",
            "WebFetch(domain:example.com)",
        ],
        "ask": ["Bash(git push:*)"],
        "deny": ["Bash(rm:*)", "Read(./.env)", "Bash(git push --force:*)", "WebFetch(domain:evil.com)"],
    }
}
OPENCODE = {
    "permission": {
        "*": "ask",
        "bash": {
            "rm *": "deny",
            "git *": "allow",
            "git push *": "ask",
            "git push --force *": "deny",
            "npm test": "allow",
        },
        "read": {"*": "allow", "*.env": "deny"},
        "edit": {"*": "deny", "src/*": "allow"},
        "webfetch": "deny",
    }
}
CODELIA = {
    "version": 1,
    "permissions": {
        "allow": [{"tool": "bash", "command": "git"}, {"tool": "bash", "command_glob": "npm test"}, {"tool": "read"}],
        "deny": [{"tool": "bash", "command": "git push"}, {"tool": "bash", "command": "rm"}],
    },
}
BETCODE = {"permissions": {"allow": ["Bash(git *)", "Read"], "ask": ["Bash(git push *)"], "deny": ["Bash", "Edit"]}}
ALL: dict[str, Any] = {
    "claude": CLAUDE,
    "opencode": OPENCODE,
    "codelia": CODELIA,
    "betcode": BETCODE,
    "brutus": OPENCODE,
}

COMMANDS = (
    "git", "git log", "git push", "git push origin main", "git push --force", "git push --force origin", "npm test",
    "npm test -- x", "rm x", "rm -rf /", "ls", "ls x", "make", "git log && rm x",
)  # fmt: skip
PATHS = ("a.ts", ".env", "sub/.env", "src/a.ts", "src/deep/a.ts", "lib/src/a.ts")
URLS = ("https://example.com/a", "https://evil.com/x", "https://other.org/")
STRICTNESS = [Verdict.ALLOW, Verdict.ASK, Verdict.DENY]


def source(dialect: str, config: Any) -> PolicySource:
    return PolicySource(dialect, (Layer("project", config=config),), {"cwd": "/repo", "home": "/home/ann"})


def calls(dialect: str) -> dict[str, Call]:
    shell = shell_tool(dialect)
    found = {line: Call(permission_of(dialect, shell), (), shell, {"command": line}) for line in COMMANDS}
    if dialect == "codelia":
        return found
    member = "file_path" if dialect in ("claude", "betcode") else "filePath"
    for subject in ("read", "edit"):
        name = tool_name(dialect, subject)
        assert name is not None
        for path in PATHS:
            more = (
                {"oldString": "a", "newString": "b", "old_string": "a", "new_string": "b"} if subject == "edit" else {}
            )
            # BRUTUS matches a path as it was handed in, the others below the project.
            given = {member: path if dialect == "brutus" else f"/repo/{path}", **more}
            found[f"{subject} {path}"] = Call(permission_of(dialect, name), (), name, given)
    fetch = tool_name(dialect, "fetch") or ""
    return found | {url: Call(fetch, (), fetch, {"url": url, "format": "text"}) for url in URLS}


@pytest.mark.parametrize("target", sorted(ALL))
@pytest.mark.parametrize("origin", sorted(ALL))
def test_a_converted_configuration_is_never_looser(origin: str, target: str) -> None:
    before = compile_policy(source(origin, ALL[origin]))
    after = compile_policy(source(target, convert(before, target).config))
    asked, again = calls(origin), calls(target)
    if target == "claude":
        # Claude Code runs commands that only look without any rule.
        again = {text: call for text, call in again.items() if not text.startswith("ls")}
    looser = {
        text: (said.value, now.value)
        for text in asked.keys() & again.keys()
        if (now := Judged(after, again[text]).verdict)
        is not strictest([said := Judged(before, asked[text]).verdict, now])
        and (said is not Verdict.DENY or now is Verdict.ALLOW)
    }
    assert looser == {}


def test_claude_s_rules_become_opencode_s_with_a_default_that_asks() -> None:
    found = convert(compile_policy(source("claude", CLAUDE)), "opencode")
    assert found.config == {
        "permission": {
            "*": "ask",
            "bash": {
                "git *": "allow",
                "npm test": "allow",
                "ls *": "allow",
                "git push *": "ask",
                "rm *": "deny",
                "git push --force *": "deny",
            },
            "read": {
                "*": "allow",
                ".env": "deny",
                ".env/*": "deny",
                "*/.env": "deny",
                "*/.env/*": "deny",
            },
            "edit": {"src/*": "allow"},
            "webfetch": "deny",
        }
    }
    assert [(one.rule.ref.text, one.text) for one in found.changes] == [
        ("WebFetch(domain:example.com)", "opencode cannot say it; the allow is left out, so it asks"),
        ("WebFetch(domain:evil.com)", "opencode cannot say it; it is about the whole tool now"),
    ]


def test_opencode_s_rules_become_claude_s_and_what_would_be_lost_is_told() -> None:
    found = convert(compile_policy(source("opencode", OPENCODE)), "claude")
    assert found.config == {
        "permissions": {
            "allow": ["Bash(git:*)", "Bash(npm test)", "Read"],
            "ask": ["Bash(git push:*)"],
            "deny": ["Bash(rm:*)", "Bash(git push --force:*)", "Read(*.env)", "Edit", "WebFetch"],
        }
    }
    assert [(one.rule.ref.text, one.text) for one in found.changes] == [
        ("edit * deny", "it now comes before `edit src/* allow` too"),
        ("edit src/* allow", "the allow is left out: `edit * deny` would come before it, or cannot be said"),
    ]


def test_a_program_without_ask_rules_gets_no_allow_that_an_ask_limits() -> None:
    found = convert(compile_policy(source("claude", CLAUDE)), "codelia")
    assert {"tool": "bash", "command": "git"} not in found.config["permissions"]["allow"]
    assert "Bash(git:*)" in [one.rule.ref.text for one in found.changes]


def test_there_and_back_again_says_the_same() -> None:
    plain = {"permissions": {"allow": ["Bash(git status:*)", "Read"], "deny": ["Bash(rm:*)"]}}
    there = convert(compile_policy(source("claude", plain)), "opencode").config
    assert convert(compile_policy(source("opencode", there)), "claude").config == plain


def test_every_subject_has_a_name_in_opencode_and_in_claude() -> None:
    assert [subject for subject, names in NAMES.items() if not names[0] or not names[1]] == []

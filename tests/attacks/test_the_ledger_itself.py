"""Attacks by an agent that is allowed everything on the ledger itself: its files, its sockets, its commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from ledger import Ledger
from ledger.client.machine import DiskFacts
from ledger.core.errors import DeniedError
from ledger.core.policy import Call, Evaluation, Layer, PolicySource, Verdict
from ledger.policy.check_questions import with_facts
from ledger.policy.dialects import compile_policy
from tests.support.gateways import RunningGateway, gateway
from tests.support.processes import ROOT
from workers.bridges.session_ids import folder_name

__all__ = ["gateway"]

HOME: Final = "/home/ann/ledger"
FACTS: Final = DiskFacts((HOME,))
EVERYTHING: Final[dict[str, Any]] = {
    "opencode": {"permission": {"*": "allow"}},
    "claude": {"permissions": {"allow": ["Bash", "Edit", "Write", "Read", "mcp__x"]}},
    "betcode": {"rules": [{"tool_name": "*", "pattern": "*", "action": "allow", "priority": 1}]},
}
BASH: Final = {"opencode": "bash", "claude": "Bash"}

ANSWERING: Final = [
    "permission-ledger reply per_1 once",
    "/usr/local/bin/permission-ledger reply per_1 once",
    "uvx permission-ledger reply per_1 once",
    "uv run permission-ledger reply per_1 once",
    "pipx run permission-ledger grant bash '*'",
    "env A=1 permission-ledger token create me --role admin",
    "sudo -u ann permission-ledger inbox",
    "python -m workers.cli reply per_1 once",
    "python3 -P -m workers.cli token create me",
    "python -m permission_ledger reply per_1 once",
    "python3 /srv/lib/permission_ledger.py reply per_1 once",
    "sh -c 'permission-ledger reply per_1 once'",
    'bash -lc "python -m workers.cli reply per_1 once"',
    "echo per_1 | xargs permission-ledger reply",
    "ls; cd src && permission-ledger reply per_1 once",
    "alias x='permission-ledger reply'; x per_1 once",
    "P=permission-ledger; $P reply per_1 once",
    "f() { permission-ledger reply $1 once; }; f per_1",
    "perm''ission-\"ledger\" reply per_1 once",
    "permission-ledger hook claude --uninstall",
    "permission-ledger bridge codex --uninstall --yes",
    "permission-ledger bridge claude --install --event PermissionRequest --yes",
    "permission-ledger serve --no-tokens",
    "permission-ledger some-new-command",
    "permission-ledger config trust --yes",
    "permission-ledger init --yes",
]
TOUCHING: Final = [
    f"cat {HOME}/gateway.json",
    f"cat {HOME}/../ledger/gateway-token",
    f"cp {HOME}/gateway.json .",
    "cat ~/.local/share/permission-ledger/gateway.json",
    "cat $HOME/.local/share/permission-ledger/gateway-token",
    "cat ~/.local/share/permission-*/gateway.json",
    "cd ~/.local/share && cat permission-ledger/gateway.json",
    f"curl --unix-socket {HOME}/gateway.sock http://gateway/v1/me",
    f"curl --unix-socket={HOME}/gateway.sock http://gateway/v1/me",
    "redis-cli -s /tmp/permission-ledger-0123456789/server.sock",
    "rm -rf /home/ann",
    f"echo x > {HOME}/brought-rules/ses_1",
    f"X={HOME}/gateway.json sh -c 'cat $X'",
    "sed -i s/a/b/ .claude/settings.json",
    "echo {} > .claude/settings.local.json",
    "cd .claude && rm settings.json",
    "rm -rf .claude",
    "mv ~/.codex /tmp/x",
    "tee ~/.gemini/settings.json",
    "cp other.json opencode.json",
    "ln -sf /dev/null ~/.qwen/settings.json",
    "python edit.py --file=.codelia/config.json",
    "git checkout HEAD~1 -- .CLAUDE/settings.json",
    "echo 'url = \"redis://elsewhere\"' > permission-ledger.toml",
    "rm permission-ledger.toml",
    "cp mine.json permission-ledger.claude.json",
    "cp mine.json ~/.config/permission-ledger/trusted.json",
    "tee ~/.config/permission-ledger/config.toml",
]
HARMLESS: Final = [
    "permission-ledger pending",
    "permission-ledger policy explain bash 'git push'",
    "permission-ledger --help",
    "grep -rn permission-ledger reply.md",
    "git clone https://example.com/permission-ledger",
    "cat .claude/settings.json",
    "git add .",
    "rm -rf build",
    "ls ~/.local/share",
    "echo the gateway is up",
]


def judged(dialect: str, call: Call, **options: Any) -> Evaluation:
    source = PolicySource(dialect, (Layer("project", config=EVERYTHING[dialect]),), {"cwd": "/srv/shop", **options})
    return with_facts(compile_policy(source), FACTS).evaluate(call)


def command(dialect: str, line: str, **options: Any) -> Evaluation:
    tool = BASH[dialect]
    return judged(dialect, Call(tool, (line,), tool, {"command": line}, "/srv/shop"), **options)


@pytest.mark.parametrize("dialect", BASH)
@pytest.mark.parametrize("line", ANSWERING)
def test_answering_its_own_request_by_a_command(dialect: str, line: str) -> None:
    found = command(dialect, line)
    assert found.verdict is Verdict.DENY
    assert "permission-ledger" in str(found.reason)
    assert "which is for people" in str(found.reason)


@pytest.mark.parametrize("dialect", BASH)
@pytest.mark.parametrize("line", TOUCHING)
def test_touching_the_data_folder_or_the_hooks_by_a_command(dialect: str, line: str) -> None:
    found = command(dialect, line)
    assert found.verdict is Verdict.DENY
    assert "touches" in str(found.reason)
    assert [rule.text for rule in found.rules] == ["the ledger guards itself (hardened)"]


@pytest.mark.parametrize("dialect", BASH)
@pytest.mark.parametrize("line", HARMLESS)
def test_what_only_mentions_the_ledger_is_judged_by_the_rules(dialect: str, line: str) -> None:
    assert command(dialect, line).verdict is not Verdict.DENY


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        ("edit", {"filePath": "/srv/shop/.claude/settings.json", "newString": "{}"}),
        ("edit", {"filePath": ".claude/../.claude/settings.json", "newString": "{}"}),
        ("write", {"file_path": "/srv/shop/opencode.json", "content": "{}"}),
        ("read", {"filePath": f"{HOME}/gateway.json"}),
        ("read", {"filePath": "~/.local/share/permission-ledger/gateway-token"}),
        ("grep", {"pattern": "token", "path": HOME}),
        ("apply_patch", {"patchText": "*** Begin Patch\n*** Update File: .claude/settings.json\n@@\n-a\n+b"}),
        ("multiedit", {"edits": [{"path": "/srv/shop/.codex/hooks.json", "new": "x"}]}),
        ("some_mcp_tool", {"deep": {"er": ["x", f"file://{HOME}/gateway.json"]}}),
        ("bash", {"command": ["bash", "-lc", "permission-ledger reply per_1 once"]}),
        ("bash", {"command": "ls", "cmd": "permission-ledger reply per_1 once"}),
    ],
)
def test_touching_them_by_another_tool(tool: str, value: dict[str, Any]) -> None:
    assert judged("opencode", Call(tool, (), tool, value, "/srv/shop")).verdict is Verdict.DENY


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        ("write", {"filePath": "/srv/shop/README.md", "content": ".claude/settings.json"}),
        ("read", {"filePath": "/srv/shop/.claude/settings.json"}),
        ("grep", {"pattern": "permission-ledger", "path": "/srv/shop"}),
    ],
)
def test_what_reads_the_settings_or_writes_about_them_is_not_denied(tool: str, value: dict[str, Any]) -> None:
    assert judged("opencode", Call(tool, (), tool, value, "/srv/shop")).verdict is not Verdict.DENY


def test_reaching_a_file_through_a_link_of_the_project(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "gateway.json").touch()
    (tmp_path / "notes.txt").symlink_to(data / "gateway.json")
    source = PolicySource("opencode", (Layer("project", config=EVERYTHING["opencode"]),), {"cwd": str(tmp_path)})
    policy = with_facts(compile_policy(source), DiskFacts((str(data),)))
    call = Call("read", (), "read", {"filePath": str(tmp_path / "notes.txt")}, str(tmp_path))
    assert policy.evaluate(call).verdict is Verdict.DENY


def test_the_faithful_profile_is_the_source_and_nothing_more() -> None:
    assert command("opencode", "permission-ledger reply per_1 once", profile="faithful").verdict is Verdict.ALLOW


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://") as ledger:
        yield ledger


def test_keeping_a_stricter_file_of_rules_from_being_brought(gateway: RunningGateway, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"

    def asked(call_id: str, *, says: str) -> str:
        """Return a hook's answer to `git push` with this verdict in the rule file."""
        rules.write_text(json.dumps({"permissions": {says: ["Bash(git push *)"]}}))
        # The note of an earlier version, for any state of the file.
        status = rules.stat()
        noted = f"{rules}\n{status.st_mtime_ns} {status.st_ctime_ns} {status.st_size} {status.st_ino}"
        (gateway.home / "brought-rules").mkdir(exist_ok=True)
        (gateway.home / "brought-rules" / folder_name("ses_1")).write_text(noted)
        event = {"session_id": "ses_1", "cwd": "/tmp", "hook_event_name": "PreToolUse", "tool_use_id": call_id}
        call = {"tool_name": "Bash", "tool_input": {"command": "git push origin"}}
        ran = subprocess.run(
            [sys.executable, "-m", "workers.bridges.hooks.run", "claude", "--rules", str(rules)],
            cwd=ROOT,
            env=gateway.environment,
            input=json.dumps({**event, **call}),
            capture_output=True,
            text=True,
            check=True,
        )
        answer: str = json.loads(ran.stdout)["hookSpecificOutput"]["permissionDecision"]
        return answer

    assert asked("toolu_1", says="allow") == "allow"
    assert asked("toolu_2", says="deny") == "deny"


async def test_no_grant_and_no_compat_switch_lifts_it(ledger: Ledger) -> None:
    session = await ledger.session(
        "ses_1", project="shop", rules=EVERYTHING["opencode"], dialect="opencode", options={"compat": "v1"}
    )
    await session.grant("bash", "*", actor="ann")
    with pytest.raises(DeniedError) as refused:
        await session.ask_tool("bash", {"command": "permission-ledger reply per_1 once"})
    assert "the ledger keeps itself from the agents that it judges" in str(refused.value)

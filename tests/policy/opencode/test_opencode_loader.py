"""Places and order in which OpenCode's configuration is found, and the refused ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger.policy import Call, PolicyError, PolicySource, Rule, Verdict
from ledger.policy.checks import shown
from ledger.policy.opencode import OpenCodePolicy, load_layers
from ledger.policy.opencode.loader import read_frontmatter

AGENT = """---
name: reviewer
description: reads: everything, changes nothing
mode: subagent
permission:
  "*": deny
  bash:   # only what looks
    "git *": allow
    'say ''hi''': ask
    ls: allow
tools:
    write: false
---
You review.
"""


class Machine:
    """A home, and a repository with a folder in which the agent starts."""

    def __init__(self, base: Path) -> None:
        self.base, self.home, self.repo = base, base / "home", base / "repo"
        self.start = self.repo / "app"
        self.environ = {"HOME": str(self.home)}
        for folder in (self.home, self.start, self.repo / ".git"):
            folder.mkdir(parents=True)

    def write(self, path: str, text: str) -> Path:
        file = self.base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def allow(self, path: str, *permissions: str) -> Path:
        members = ", ".join(f'"{permission}": "allow"' for permission in permissions)
        return self.write(path, '{"permission": {' + members + "}}")

    def places(self, **more: Any) -> list[str | None]:
        """The files of the layers, from the base; a layer without one by its name."""
        layers = load_layers(self.start, self.environ, **more)
        return [str(Path(one.file).relative_to(self.base)) if one.file else one.name for one in layers]

    def refusal(self, **more: Any) -> str:
        with pytest.raises(PolicyError) as caught:
            load_layers(self.start, self.environ, **more)
        file = str(caught.value.data.get("file", ""))
        return caught.value.text.replace(shown(file), f"`{file.removeprefix(str(self.base))}`")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_found_is_no_layer(machine: Machine) -> None:
    assert machine.places() == []


def test_layers_are_found_in_the_order_of_the_program(machine: Machine) -> None:
    for path in (
        "home/.config/opencode/opencode.jsonc",
        "home/.config/opencode/opencode.json",
        "home/.config/opencode/config.json",
        "elsewhere/custom.json",
        "repo/opencode.json",
        "repo/app/opencode.jsonc",
        "repo/app/opencode.json",
        "repo/.opencode/opencode.json",
        "repo/app/.opencode/opencode.jsonc",
        "home/.opencode/opencode.json",
        "own/opencode.json",
        "opencode.json",
    ):
        machine.allow(path, "read")
    machine.environ |= {
        "OPENCODE_CONFIG": str(machine.base / "elsewhere/custom.json"),
        "OPENCODE_CONFIG_CONTENT": '{"permission": "ask", /* of today */}',
        "OPENCODE_CONFIG_DIR": str(machine.base / "own"),
    }
    assert machine.places(remote={"permission": {"bash": "ask"}}) == [
        "remote",
        "home/.config/opencode/config.json",
        "home/.config/opencode/opencode.json",
        "home/.config/opencode/opencode.jsonc",
        "elsewhere/custom.json",
        "repo/opencode.json",
        "repo/app/opencode.json",
        "repo/app/opencode.jsonc",
        "OPENCODE_CONFIG_CONTENT",
        "repo/app/.opencode/opencode.jsonc",
        "repo/.opencode/opencode.json",
        "home/.opencode/opencode.json",
        "own/opencode.json",
    ]


def test_a_later_layer_s_value_wins_and_its_key_stays_where_it_was(machine: Machine) -> None:
    machine.write("home/.config/opencode/opencode.json", '{"permission": {"bash": {"*": "ask", "rm *": "deny"}}}')
    machine.write("repo/opencode.json", '{"permission": {"bash": {"*": "allow"}}}')
    layers = load_layers(machine.start, machine.environ)
    judge = OpenCodePolicy(PolicySource(layers=layers))
    judged = judge.evaluate(Call("bash", ("ls",)))
    assert [(rule.file, rule.line) for rule in judged.rules] == [(str(machine.repo / "opencode.json"), 1)]
    assert judge.evaluate(Call("bash", ("rm x",))).verdict is Verdict.DENY


def test_the_search_ends_at_the_worktree_and_other_homes_are_honoured(machine: Machine) -> None:
    machine.allow("opencode.json", "read")
    machine.allow("repo/opencode.json", "read")
    machine.allow("other/opencode/opencode.json", "read")
    machine.environ["XDG_CONFIG_HOME"] = str(machine.base / "other")
    assert machine.places() == ["other/opencode/opencode.json", "repo/opencode.json"]
    assert machine.places(worktree=machine.start) == ["other/opencode/opencode.json"]
    machine.environ["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
    assert machine.places() == ["other/opencode/opencode.json"]


def test_files_of_a_project_that_is_not_trusted_allow_nothing(machine: Machine) -> None:
    machine.allow("home/.config/opencode/opencode.json", "read")
    machine.allow("repo/opencode.json", "bash")
    machine.allow("repo/.opencode/opencode.json", "edit")
    layers = load_layers(machine.start, machine.environ, trusted=False)
    assert [layer.trusted for layer in layers] == [True, False, False]
    assert [rule.permission for rule in OpenCodePolicy(PolicySource(layers=layers)).rules] == ["read"]


def test_only_what_concerns_permissions_is_kept(machine: Machine) -> None:
    machine.write(
        "repo/opencode.json", '{"provider": {"x": {"apiKey": "secret"}}, "mode": {"a": {"tools": {"bash": false}}}}'
    )
    machine.write("repo/app/opencode.json", '{"model": "x"}')
    machine.write("repo/app/opencode.jsonc", "")
    layers = load_layers(machine.start, machine.environ)
    assert [layer.config for layer in layers] == [{"mode": {"a": {"tools": {"bash": False}}}}]


def test_the_head_of_an_agent_s_file_is_its_section(machine: Machine) -> None:
    file = machine.write("repo/.opencode/agent/deep/er.md", AGENT)
    machine.write("repo/.opencode/agents/silent.md", "no head")
    machine.write("repo/.opencode/modes/plain.md", "---\npermission: deny\n---\n")
    layers = load_layers(machine.start, machine.environ)
    assert [rule for name in ("reviewer", "plain") for rule in rules(layers, name)] == [
        Rule("edit", "*", Verdict.DENY, ".opencode", str(file), 12),
        Rule("*", "*", Verdict.DENY, ".opencode", str(file), 6),
        Rule("bash", "git *", Verdict.ALLOW, ".opencode", str(file), 8),
        Rule("bash", "say 'hi'", Verdict.ASK, ".opencode", str(file), 9),
        Rule("bash", "ls", Verdict.ALLOW, ".opencode", str(file), 10),
        Rule("*", "*", Verdict.DENY, ".opencode", str(machine.repo / ".opencode/modes/plain.md"), 2),
    ]


def rules(layers: Any, agent: str) -> tuple[Rule, ...]:
    return OpenCodePolicy(PolicySource(layers=layers, options={"agent": agent})).rules


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("permission: {bash: deny}", 2),
        ("permission:\n  bash: &a deny", 3),
        ("permission:\n  - bash", 3),
        ("permission:\n    bash: deny\n  read: deny", 4),
        ("permission:\n  bash: deny\n  bash: allow", 4),
        ("permission: deny\n  bash: deny", 2),
        ("permission", 2),
        ("? permission\n: deny", 2),
        ("{permission: deny}", 2),
        ("base: &base\n  permission: deny\n<<: *base", 4),
        ('permission: "deny', 2),
        ("tools:\n  bash: |\n    false", 3),
    ],
)
def test_a_head_whose_rules_are_not_understood_is_refused_with_its_line(head: str, line: int) -> None:
    with pytest.raises(PolicyError) as caught:
        read_frontmatter(f"---\n{head}\n---\n", "a.md")
    assert (caught.value.data["file"], caught.value.data["line"]) == ("a.md", line)


def test_what_cannot_be_read_is_refused_and_never_taken_for_no_rules(machine: Machine) -> None:
    machine.environ["OPENCODE_CONFIG"] = str(machine.base / "missing.json")
    assert machine.refusal() == "`/missing.json` cannot be read: no such file or directory"
    machine.environ["OPENCODE_CONFIG"] = ""
    machine.environ["OPENCODE_CONFIG_CONTENT"] = '{"permission": {"bash": "no"}}'
    assert machine.refusal() == (
        "`OPENCODE_CONFIG_CONTENT` line 1: the action of `bash` must be `allow`, `ask` or `deny`, not `no`"
    )
    machine.environ["OPENCODE_CONFIG_CONTENT"] = "{"
    assert "`OPENCODE_CONFIG_CONTENT` line 1" in machine.refusal()
    del machine.environ["OPENCODE_CONFIG_CONTENT"]
    machine.write("repo/opencode.json", '{"permission": {"read": {"{env:SECRETS}/*": "deny"}}}')
    assert machine.refusal() == "`/repo/opencode.json`: `{env:SECRETS}/*` is not expanded here; write the value itself"
    machine.write("repo/opencode.json", '{"permissions": [{"action": "bash", "resource": "*", "effect": "deny"}]}')
    assert machine.refusal() == (
        "`/repo/opencode.json`: `permissions` is a list of OpenCode 2, which is not supported; "
        "write the rules under `permission`"
    )
    machine.write("repo/opencode.json", "{}")
    machine.write("repo/.opencode/agent/a.md", "---\npermission: deny\n")
    assert machine.refusal() == "`/repo/.opencode/agent/a.md` line 1: the head does not end with `---`"


def test_a_link_to_nowhere_is_a_file_that_cannot_be_read(machine: Machine) -> None:
    (machine.repo / "opencode.json").symlink_to(machine.base / "gone")
    assert "cannot be read" in machine.refusal()


def test_without_a_home_only_the_project_is_searched(machine: Machine) -> None:
    machine.allow("repo/opencode.json", "read")
    machine.environ.clear()
    assert machine.places() == ["repo/opencode.json"]
    machine.allow("home/.config/opencode/opencode.json", "read")
    assert machine.places(home=str(machine.home)) == ["home/.config/opencode/opencode.json", "repo/opencode.json"]

"""`init` sums up what it finds and would change, asks once, changes nothing twice, and can be undone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.gateways import RunningGateway, gateway
from tests.workers.cli.config.person import Person
from workers.cli.init import KNOWN

__all__ = ["gateway"]

OURS = {"permission-ledger.toml", "permission-ledger.claude.json", "permission-ledger.opencode.json"}
HOOKS = {".claude/settings.local.json", ".codex/hooks.json", ".gemini/settings.json", ".qwen/settings.json"}


def put_on_path(person: Person, *names: str) -> None:
    """Install programs of these names that do nothing."""
    folder = Path(person.environment["PATH"].partition(os.pathsep)[0])
    for name in names:
        program = folder / name
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)


def files_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_it_connects_the_agents_on_the_path_and_shows_every_file_before(person: Person) -> None:
    put_on_path(person, "claude", "codex", "gemini", "qwen", "opencode")
    dry = person("init", "--dry-run", "--diff", code=0)
    assert files_of(person.project) == {}
    assert files_of(person.home) == {}
    person("init", "--yes", code=0)
    written = files_of(person.project)
    assert set(written) == OURS | HOOKS
    assert {f"+++ {person.project}/{name}" for name in written} <= set(dry.out.splitlines())
    outside = {
        name for name in files_of(person.home) if not name.startswith(".local/share/permission-ledger/installed/")
    }
    assert outside == {".config/permission-ledger/trusted.json"}
    assert f"{person.settings}/trusted.json: with {person.file}" in dry.err


def test_it_says_in_six_lines_what_it_found_and_would_write_and_then_the_one_next_step(person: Person) -> None:
    put_on_path(person, "claude", "opencode")
    done = person("init", "--yes", code=0).out.splitlines()
    own = [f"permission-ledger.{name}.json" for name in ("claude", "opencode")]
    assert done[:7] == [
        f"project    {person.project}",
        "agents     Claude Code by a hook; OpenCode by a bridge, which starts it",
        f"rules      claude={own[0]}, opencode={own[1]}: looking is allowed, secrets are denied, the rest asks",
        f"writes     {own[0]}, {own[1]}, permission-ledger.toml, .claude/settings.local.json",
        "trusts     permission-ledger.toml, and these rules as they are now",
        "details    permission-ledger init --diff --dry-run",
        "",
    ]
    assert [line.split()[0] for line in done[7:]] == ["written", "next", "then"]
    assert "permission-ledger up" in done[8]


def test_where_the_ledger_runs_it_says_how_to_answer_and_how_to_start_the_other_agents(
    person: Person, gateway: RunningGateway
) -> None:
    put_on_path(person, "claude", "opencode")
    person.environment["PERMISSION_LEDGER_HOME"] = str(gateway.home)
    said = [line for line in person("init", "--yes", code=0).out.splitlines() if line.startswith("next ")]
    assert [line.split("  # ")[0].split(maxsplit=1)[1] for line in said] == [
        "permission-ledger inbox --open",
        "permission-ledger bridge opencode -- opencode serve --port 4096",
    ]


def test_nothing_is_written_without_a_yes(person: Person) -> None:
    put_on_path(person, "claude")
    unanswered = person("init", code=130)
    assert unanswered.err.endswith("? [y/N]: \n"), "the shell's prompt begins a line of its own"
    assert files_of(person.project) == {}


def test_a_second_run_changes_nothing(person: Person) -> None:
    put_on_path(person, "claude", "gemini")
    person("init", "--yes", code=0)
    before = files_of(person.project)
    again = person("init", "--yes", code=0)
    assert "nothing to change" in again.err
    assert files_of(person.project) == before


def test_the_step_after_the_next_has_the_options_that_were_typed_and_writes_nothing_more(person: Person) -> None:
    phone = "https://laptop.example.ts.net"
    done = person("init", "--yes", "--agent", "claude", "--scope", "user", "--phone", phone, code=0)
    then = f"permission-ledger init --agent claude --scope user --phone {phone}"
    assert done.out.splitlines()[-1] == f"then       {then}  # it says what is next"
    before = files_of(person.project)
    assert "nothing to change" in person(*then.split()[1:], "--yes", code=0).err
    without = person("init", "--yes", code=0)
    assert "rules      those that permission-ledger.toml names\n" in without.out, "nobody asked for OpenCode's"
    assert files_of(person.project) == before


def test_the_file_it_wrote_is_trusted_and_its_rules_are_those_of_up(person: Person) -> None:
    put_on_path(person, "claude")
    person("init", "--yes", "--phone", "https://laptop.example.ts.net", code=0)
    shown = person.shown("up")
    assert shown["rules"][0] == [f"claude={person.project}/permission-ledger.claude.json"]
    assert shown["host"][0] == ["https://laptop.example.ts.net"]


def test_the_rules_of_a_project_are_taken_over_and_shown(person: Person) -> None:
    put_on_path(person, "claude", "opencode")
    (person.project / ".claude").mkdir()
    (person.project / ".claude" / "settings.json").write_text(
        '{"permissions": {"allow": ["Bash(make *)"]}, "env": {"A": "s3cret"}}'
    )
    (person.project / "opencode.json").write_text('{"permission": {"bash": "ask"}}')
    ran = person("init", "--yes", "--diff", code=0)
    assert '"Bash(make *)"' in ran.out
    assert "s3cret" not in ran.out
    assert person.shown("up")["rules"][0] == [
        f"claude={person.project}/.claude/settings.json",
        f"opencode={person.project}/opencode.json",
    ]
    assert not (person.project / "permission-ledger.claude.json").exists()


def test_a_rule_file_that_cannot_be_read_is_told_and_a_starter_stands_in(person: Person) -> None:
    put_on_path(person, "opencode")
    (person.project / "opencode.json").write_text('{"permission": ')
    ran = person("init", "--yes", code=0)
    assert f"warning: the rules `{person.project}/opencode.json` are not taken over" in ran.err
    assert (person.project / "permission-ledger.opencode.json").exists()


def test_a_file_that_somebody_else_wrote_is_neither_changed_nor_trusted(person: Person) -> None:
    person.write('attended = "1s"\n')
    ran = person("init", "--yes", code=0)
    assert person.file.read_text() == 'attended = "1s"\n'
    assert person.shown("up")["attended"] == (None, "default")
    assert "permission-ledger config trust" in ran.out
    again = person("init", "--yes", "--phone", "https://laptop.example.ts.net", code=0)
    assert 'host = ["https://laptop.example.ts.net"]' in again.out


def test_rules_that_a_file_from_before_does_not_name_are_told(person: Person) -> None:
    put_on_path(person, "claude")
    person("init", "--yes", code=0)
    put_on_path(person, "gemini")
    added = person("init", "--yes", code=0).out
    note = 'note       permission-ledger.toml stays as it is; to its rules belongs: "opencode=permission-ledger.opencode.json"'
    assert note in added.splitlines()
    person.file.write_text(person.file.read_text().replace('"]', '", "opencode=permission-ledger.opencode.json"]'))
    again = person("init", "--yes", code=0).out
    assert "note " not in again
    assert "next       permission-ledger config trust  # " in again


def test_undo_removes_what_it_wrote_and_leaves_what_was_there(person: Person) -> None:
    put_on_path(person, "claude", "gemini", "codex")
    own = person.project / ".gemini" / "settings.json"
    own.parent.mkdir()
    own.write_text('{\n  // mine\n  "theme": "dark"\n}\n')
    before = files_of(person.project)
    person("init", "--yes", code=0)
    assert files_of(person.project) != before
    person("init", "--undo", "--yes", code=0)
    assert files_of(person.project) == before
    assert person("config", "show", code=0).err == ""
    assert "nothing to change" in person("init", "--undo", "--yes", code=0).err


def test_undo_leaves_a_file_that_was_changed_since(person: Person) -> None:
    person("init", "--yes", code=0)
    person.file.write_text(person.file.read_text() + 'attended = "5s"\n')
    starter = person.project / "permission-ledger.opencode.json"
    starter.write_text('{"permission": {"*": "deny"}}')
    person("init", "--undo", "--yes", code=0)
    assert set(files_of(person.project)) == {"permission-ledger.toml", "permission-ledger.opencode.json"}


def test_user_scope_is_for_every_run_and_undone_with_it(person: Person) -> None:
    put_on_path(person, "claude")
    person("init", "--yes", "--scope", "user", code=0)
    assert (person.home / ".claude" / "settings.json").exists()
    assert not (person.project / ".claude").exists()
    person("init", "--undo", "--yes", code=0)
    assert (person.home / ".claude" / "settings.json").exists()
    person("init", "--undo", "--scope", "user", "--yes", code=0)
    assert not (person.home / ".claude" / "settings.json").exists()


def test_json_prints_agents_rules_and_changes_as_objects(person: Person) -> None:
    put_on_path(person, "claude")
    rows = person("init", "--dry-run", "--json", code=0).rows
    assert {row["name"]: row["connected"] for row in rows if row["kind"] == "agent"} == {
        agent.name: agent.name == "claude" for agent in KNOWN
    }
    changed = [Path(row["file"]).name for row in rows if row["kind"] == "change"]
    assert changed == ["permission-ledger.claude.json", "permission-ledger.toml", "settings.local.json"]


@pytest.mark.parametrize("phone", ["http://192.168.1.5:8420", "laptop"])
def test_a_phone_is_reached_over_https_only(person: Person, phone: str) -> None:
    assert "is not an https address" in person("init", "--yes", "--phone", phone, code=12).err
    assert files_of(person.project) == {}


@pytest.mark.parametrize("dialect", ["opencode", "claude"])
def test_a_starter_allows_looking_denies_secrets_and_asks_for_the_rest(person: Person, dialect: str) -> None:
    put_on_path(person, "claude", "opencode")
    person("init", "--yes", code=0)
    file = person.project / f"permission-ledger.{dialect}.json"
    tool, key = ("bash", "command") if dialect == "opencode" else ("Bash", "command")
    read, path = ("read", "filePath") if dialect == "opencode" else ("Read", "file_path")
    lines = [
        {"id": "status", "tool": tool, "input": {key: "git status"}},
        {"id": "push", "tool": tool, "input": {key: "git push"}},
        {"id": "secret", "tool": read, "input": {path: f"{person.project}/.env"}},
        {"id": "source", "tool": read, "input": {path: f"{person.project}/main.py"}},
    ]
    ran = person.fed(
        *("policy", "check", "--dialect", dialect, "--config", str(file), "--cwd", str(person.project)),
        text="".join(f"{json.dumps(line)}\n" for line in lines),
    )
    assert {row["id"]: row["verdict"] for row in ran.rows} == {
        "status": "allow",
        "push": "ask",
        "secret": "deny",
        "source": "allow",
    }
    person("policy", "lint", "--dialect", dialect, "--config", file, code=0)

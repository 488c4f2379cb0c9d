"""`init` in a folder that an agent writes: links out of it, and files that change while a person reads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.command_line import PROGRAM
from tests.workers.cli.config.person import Person
from tests.workers.cli.init.test_init import put_on_path
from workers.bridges import settings_file
from workers.bridges.settings_file import SettingsChange
from workers.cli.init import init

OPEN = '{"permission": {"*": "allow"}}'


def test_a_rule_file_that_changes_while_the_person_reads_is_not_trusted(person: Person) -> None:
    put_on_path(person, "opencode")
    rules = person.project / "opencode.json"
    rules.write_text('{"permission": {"bash": "ask"}}')
    line = person("init", "--dry-run", code=0)
    assert "rules      " in line.out
    asked = subprocess.Popen(
        [*PROGRAM, "init", "--diff"],
        cwd=person.project,
        env=person.whole_environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with asked:
        assert asked.stdout is not None
        assert any(shown.startswith("+++ ") for shown in asked.stdout)
        rules.write_text(OPEN)
        _, err = asked.communicate("y\n", timeout=60)
    assert asked.returncode == 12, err
    assert "was changed meanwhile, so it is not trusted" in err
    assert person.shown("up")["rules"] == ([], "default")


def test_a_settings_file_that_changes_right_after_it_was_written_is_not_trusted(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = settings_file.apply

    def raced(change: SettingsChange) -> None:
        apply(change)
        if change.path == person.file:
            person.file.write_text("[serve]\nno-tokens = true\n")

    monkeypatch.setattr(settings_file, "apply", raced)
    monkeypatch.chdir(person.project)
    for name, value in person.whole_environment.items():
        monkeypatch.setenv(name, value)
    ran = CliRunner().invoke(init, ["--yes"])
    assert ran.exit_code != 0
    assert person.shown("serve")["no-tokens"] == (False, "default")


@pytest.mark.parametrize("name", ["permission-ledger.toml", "permission-ledger.opencode.json"])
def test_nothing_is_written_through_a_link(person: Person, name: str) -> None:
    (person.project / name).symlink_to(person.own)
    ran = person("init", "--yes", code=12)
    assert f"is a link to `{person.own}`" in ran.err
    assert not person.own.exists()
    assert [path.name for path in person.project.iterdir()] == [name]


def test_no_hook_is_written_into_the_persons_own_settings_for_a_project(person: Person) -> None:
    put_on_path(person, "claude")
    own = person.home / ".claude"
    own.mkdir()
    (person.project / ".claude").symlink_to(own)
    assert "is a link to" in person("init", "--yes", code=12).err
    assert list(own.iterdir()) == []


def test_undo_removes_no_file_of_another_project(person: Person) -> None:
    other = Path(person.home) / "other"
    other.mkdir()
    for folder in (other, person.project):
        person("init", "--yes", code=0, folder=folder)
    for name in ("permission-ledger.toml", "permission-ledger.opencode.json"):
        (person.project / name).unlink()
        (person.project / name).symlink_to(other / name)
    before = {path.name: path.read_text() for path in other.iterdir()}
    assert "is a link to" in person("init", "--undo", "--yes", code=12).err
    assert {path.name: path.read_text() for path in other.iterdir()} == before

"""`init` offers the service that starts the ledger at each login, with one question at a terminal, or by an option."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.stores.embedded import stop
from tests.support.command_line import CommandLine
from tests.support.service_manager import put_manager
from tests.support.terminals import END_OF_INPUT, INTERRUPT, on_a_terminal
from tests.workers.cli.config.person import Person

QUESTION = "Start the ledger now and at each login, as a service of yours? [y/N]: "
BY_SERVICE = "next       permission-ledger up --service  # "


@pytest.fixture
def line(person: Person) -> Iterator[CommandLine]:
    """The command line of somebody with a service manager, in a project."""
    put_manager(Path(person.environment["PATH"].partition(os.pathsep)[0]))
    line = CommandLine("", {**person.environment, "PERMISSION_LEDGER_URL": ""}, person.project)
    yield line
    line("down")
    stop(person.home / ".local/share/permission-ledger")


def unit_of(person: Person) -> Path:
    return person.home / ".config/systemd/user/permission-ledger.service"


@pytest.mark.slow
def test_a_yes_at_the_terminal_starts_the_service_with_the_rules_just_written(
    person: Person, line: CommandLine
) -> None:
    said = on_a_terminal(line, "init", typed="y\ny\n").splitlines()
    assert QUESTION + "y" in said
    assert "permission-ledger is up, as a service" in said
    assert said[-1].startswith("next       permission-ledger inbox --open  # "), "the next thing to do is another one"
    assert f'"opencode={person.project}/permission-ledger.opencode.json"' in unit_of(person).read_text()
    began = line("status", "--json", code=0).row["since"]
    (person.project / "till").mkdir()
    till = CommandLine("", line.environment, person.project / "till")
    assert QUESTION not in on_a_terminal(till, "init", typed="y\n"), "one that is there is not offered again"
    till("init", "--service", "--yes", code=0)
    assert line("status", "--json", code=0).row["since"] == began, "nor does a second project start it anew"
    line("down", code=0)
    again = on_a_terminal(line, "init")
    assert QUESTION not in again, "its owner ended it"
    assert BY_SERVICE in again


@pytest.mark.parametrize(
    ("typed", "code"), [("y\nn\n", 0), ("y\n\n", 0), (f"y\n{END_OF_INPUT}", 130), (f"y\n{INTERRUPT}", 130)]
)
def test_without_a_yes_the_project_is_set_up_and_no_service_is_made(
    person: Person, line: CommandLine, typed: str, code: int
) -> None:
    said = on_a_terminal(line, "init", typed=typed, code=code)
    assert QUESTION in said
    assert (BY_SERVICE in said) == (code == 0)
    assert not unit_of(person).exists()
    assert line("config", "show", code=0).err == f"{person.file}: trusted\n", "what init wrote is there"
    assert QUESTION in on_a_terminal(line, "init", typed="n\n"), "the next init offers it again"


@pytest.mark.parametrize("words", [["--yes"], ["--yes", "--json"], ["--yes", "--no-service"]], ids=" ".join)
def test_a_script_is_asked_nothing_and_starts_nothing(person: Person, line: CommandLine, words: list[str]) -> None:
    line("init", *words, code=0)
    assert not unit_of(person).exists()


@pytest.mark.parametrize("option", ["--yes", "--no-service", "--dry-run"])
def test_an_option_answers_the_question_beforehand(person: Person, line: CommandLine, option: str) -> None:
    said = on_a_terminal(line, "init", option, typed="y\n" if option == "--no-service" else "")
    assert QUESTION not in said
    assert not unit_of(person).exists()


@pytest.mark.slow
def test_the_option_starts_it_without_a_question(person: Person, line: CommandLine) -> None:
    done = line("init", "--yes", "--service", code=0)
    assert "permission-ledger is up, as a service\n" in done.out
    assert f"{unit_of(person)}: written" in done.err
    assert done.out.splitlines()[-1].startswith("next       permission-ledger inbox --open  # ")


@pytest.mark.parametrize("words", [["--undo"], ["--json"]])
def test_an_option_that_has_no_service_is_refused_before_anything_is_written(person: Person, words: list[str]) -> None:
    ran = person("init", "--yes", "--service", *words, code=2)
    assert f"give --service or {words[0]}, not both" in ran.err
    assert not person.file.exists()


def test_without_a_manager_the_project_is_set_up_and_the_line_for_a_reboot_is_printed(person: Person) -> None:
    person.environment["PATH"] = person.environment["PATH"].partition(os.pathsep)[0]
    ran = person("init", "--yes", "--service", code=12)
    assert "error: no systemd of this user and no launchd was found" in ran.err
    assert "`@reboot` in `crontab -e`: env " in ran.err
    assert f"{sys.executable} -P -m permission_ledger up --detach --rules opencode={person.project}/" in ran.err
    assert person.file.exists()
    assert "next       permission-ledger up --detach  # " in ran.out, "no command is named that cannot work here"

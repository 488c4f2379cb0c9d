"""Help: there for every command, with examples that parse; fast, and the same as the written reference."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.support.command_line import ROOT, CommandLine
from workers.cli import COMMANDS, cli
from workers.cli.base import LedgerCommand
from workers.cli.options import DocumentedCommand
from workers.cli.reference import reference

SLOW = ("asyncio", "hiredis", "ledger", "msgspec", "redis", "rich", "apscheduler")


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands by their path, those of groups included."""
    waiting: list[tuple[str, click.Command]] = []
    context = click.Context(cli, **cli.context_settings)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None, name
        waiting.append((name, command))
    for name, command in waiting:
        if isinstance(command, click.Group):
            inside = click.Context(command, **command.context_settings)
            for inner in command.list_commands(inside):
                found = command.get_command(inside, inner)
                assert found is not None, f"{name} {inner}"
                waiting.append((f"{name} {inner}", found))
        else:
            yield name, command


ALL = dict(commands())


@pytest.mark.parametrize("name", ALL)
def test_a_command_has_help_and_an_example_that_parses(name: str) -> None:
    command = ALL[name]
    assert isinstance(command, DocumentedCommand)
    assert command.help
    assert command.examples
    for example in command.examples:
        program, *words = shlex.split(example)
        path = name.split()
        assert (program, words[: len(path)]) == ("permission-ledger", path)
        command.make_context(name, words[len(path) :])


def groups() -> Iterator[tuple[str, click.Group]]:
    context = click.Context(cli, **cli.context_settings)
    yield "", cli
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            yield name, command


@pytest.mark.parametrize("width", [80, 120])
def test_no_help_cuts_a_sentence(width: int) -> None:
    cut = []
    for name, command in {**dict(groups()), **ALL}.items():
        context = click.Context(command, info_name=name, terminal_width=width, **command.context_settings)
        cut += [line for line in command.get_help(context).splitlines() if line.endswith("...") and "[" not in line]
    assert cut == []


def test_a_group_lists_each_command_with_its_whole_first_sentence() -> None:
    listed = [
        (group.get_help(context), command.help or "")
        for _, group in groups()
        if not hasattr(group, "table")
        for context in [click.Context(group, **group.context_settings)]
        for command in group.commands.values()
    ]
    assert len(listed) > 8
    for told, text in listed:
        sentence = " ".join(text.split("\n\n")[0].split()).split(". ")[0].removesuffix(".")
        assert sentence in " ".join(told.split())


@pytest.mark.parametrize("name", ALL)
def test_a_command_says_of_every_option_what_it_is_for(name: str) -> None:
    options = [option for option in ALL[name].params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []
    wanted = {"url", "as_json"} if isinstance(ALL[name], LedgerCommand) else {"session", "on_unreachable"}
    assert name == "completion" or wanted & {option.name for option in options}


def test_the_list_names_every_command_with_its_line(ledger: CommandLine) -> None:
    lines = {tuple(line.split(maxsplit=1)) for line in ledger("--help", code=0).out.splitlines()}
    assert [name for name, listed in cli.table.items() if (name, listed.short_help) not in lines] == []


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["aks"]], ids=" ".join)
def test_the_list_of_commands_imports_nothing_slow(words: list[str]) -> None:
    program = (
        "import sys; from workers.cli import main\n"
        f"sys.argv = ['permission-ledger', *{words!r}]; main()\n"
        f"print(*sorted(set(sys.modules) & {set(SLOW)!r}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == ""


def test_a_command_imports_tables_and_schedulers_only_when_it_needs_them(ledger: CommandLine) -> None:
    program = (
        "import sys; from workers.cli import main\n"
        "sys.argv = ['permission-ledger', 'pending']; main()\n"
        "print(*sorted(set(sys.modules) & {'rich', 'apscheduler'}))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=ledger.environment, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_the_written_reference_is_current() -> None:
    written = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert written == reference(), "run: python -m workers.cli.reference > docs/reference/cli.md"


def test_the_module_is_a_program_of_the_same_name() -> None:
    command = [sys.executable, "-m", "workers.cli", "--version"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("permission-ledger ")


def test_a_ledger_in_a_folder_of_its_own_needs_no_server(ledger: CommandLine, tmp_path: Path) -> None:
    home = {"PERMISSION_LEDGER_URL": "", "PERMISSION_LEDGER_HOME": str(tmp_path / "data")}
    ledger("ask", "ses_1", "bash", "git push", "--id", "r1", "--no-wait", code=7, **home)
    assert ledger("pending", "--json", code=0, **home).row["request_id"] == "r1"

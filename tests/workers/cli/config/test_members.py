"""Every option of every command is a member of the file, or says what one call does."""

from __future__ import annotations

from typing import Final

import click
import pytest

from workers.cli import cli
from workers.cli.config_files import OF_ONE_CALL, WITHOUT_FILES, judges, members_of, walk
from workers.cli.options import DocumentedCommand

ALL: Final = dict(walk(cli))
LONG: Final = {
    path: {
        next(word for word in option.opts if word.startswith("--")).removeprefix("--")
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
    }
    for path, command in ALL.items()
}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_of_a_command_has_a_member_or_is_of_one_call(path: tuple[str, ...]) -> None:
    if path[0] in WITHOUT_FILES:
        assert members_of(path, ALL[path]) == {}
    else:
        assert {*members_of(path, ALL[path])} == LONG[path] - OF_ONE_CALL
    assert isinstance(ALL[path], DocumentedCommand), "files are read where a DocumentedCommand begins"


def test_no_option_of_one_call_is_listed_that_does_not_exist() -> None:
    assert {*OF_ONE_CALL} - {"undo"} <= set().union(*LONG.values())


def test_every_command_that_rules_or_deadlines_judge_refuses_a_changed_file() -> None:
    judging = {" ".join(path) for path, command in ALL.items() if judges(path, command)}
    assert {"ask", "run", "up", "serve", "bridge claude", "bridge opencode"} <= judging
    assert not {"pending", "reply", "show", "policy check", "hook claude", "config show"} & judging

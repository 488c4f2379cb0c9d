"""`config show`: each setting with its value and its source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource

from workers.cli.base import LedgerCommand, json_option
from workers.cli.config.applied import FoundFiles, Setting, find_files, settings_of
from workers.cli.config.files import check_all
from workers.cli.config.members import COMMON, ENVIRONMENT, CommandWords, members_of, walk
from workers.cli.output import CommandOutput, talk, talk_json
from workers.presentation.text import without_passwords

DEFAULT: Final = "default"
_ENVIRONMENT_ALONE: Final = {"home": "PERMISSION_LEDGER_HOME", "token": "PERMISSION_LEDGER_TOKEN"}
"""Settings that files do not have: the data folder of all commands, and the gateway's token."""

MASKED: Final = "***"


class ShownSetting(NamedTuple):
    """A setting with its table (None: for all commands), its value and its source."""

    table: str | None
    name: str
    value: Any
    source: str

    def as_json(self) -> dict[str, Any]:
        return {"table": self.table, "name": self.name, "value": _masked(self.value), "source": self.source}

    def cells(self) -> tuple[object, ...]:
        value = _masked(self.value)
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        text = str(text).lower() if isinstance(text, bool) else text
        return (self.name if self.table is None else f"{self.table}.{self.name}", text, self.source)


@click.command(
    cls=LedgerCommand,
    examples=(
        "permission-ledger config show",
        "permission-ledger config show --json",
        "permission-ledger config show up",
        "permission-ledger config show up --attended 30s",
    ),
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND [OPTION]…]")
def show(*, words: tuple[str, ...], as_json: bool) -> None:
    """Print each setting, its value and its source: an option, a variable, a line of a file, or the default.

    Without a COMMAND these are the settings of all commands, and those of one command that a file or the environment
    has. With a COMMAND, and options as you would give them, these are all options of this command line. Passwords and
    tokens are masked. Every member of every used file is checked.
    """
    from workers.cli import cli  # noqa: PLC0415 - the table of commands names this module

    found = find_files()
    commands = dict(walk(cli))
    for file in found.used:
        check_all(file)
    shown = list(_of_line(found, words, commands) if words else _of_all(found, commands))
    CommandOutput(as_json=as_json).listing(
        shown, ShownSetting.as_json, ("SETTING", "VALUE", "SOURCE"), ShownSetting.cells
    )
    _tell_files(found, as_json=as_json)


def _of_all(found: FoundFiles, commands: dict[CommandWords, click.Command]) -> Iterator[ShownSetting]:
    for name in COMMON:
        yield _common(found, name)
    for name, named in _ENVIRONMENT_ALONE.items():
        if os.environ.get(named):
            yield ShownSetting(None, name, MASKED if name == "token" else os.environ[named], f"${named}")
    for path, command in commands.items():
        table = ".".join(path)
        for name, member in members_of(path, command).items():
            file = next((one for one in found.used if name in one.table(path)), None)
            variable = _set(member.variables)
            if variable is not None and name not in COMMON:
                yield ShownSetting(table, name, os.environ[variable], f"${variable}")
            elif file is not None:
                yield ShownSetting(table, name, file.table(path)[name], file.place(path, name))


def _common(found: FoundFiles, name: str) -> ShownSetting:
    variable = _set(ENVIRONMENT.get(name, ()))
    if variable is not None:
        return ShownSetting(None, name, os.environ[variable], f"${variable}")
    file = next((one for one in found.used if name in one.data), None)
    if file is None:
        return ShownSetting(None, name, None, DEFAULT)
    return ShownSetting(None, name, file.data[name], file.place((), name))


def _of_line(
    found: FoundFiles, words: tuple[str, ...], commands: dict[CommandWords, click.Command]
) -> Iterator[ShownSetting]:
    path = next((words[:count] for count in (1, 2) if words[:count] in commands), None)
    if path is None:
        raise click.UsageError(f"there is no command `{' '.join(words[:2])}` with settings")
    command = commands[path]
    chosen = settings_of(found, path, command)
    context = command.make_context(
        path[-1],
        list(words[len(path) :]),
        default_map={name: one.value for name, one in chosen.items()},
        resilient_parsing=True,
    )
    for name, member in members_of(path, command).items():
        parameter = str(member.option.name)
        source = context.get_parameter_source(parameter)
        place = _source(source, member.variables, chosen.get(parameter))
        value = context.params.get(parameter)
        if parameter == "url" and place == DEFAULT and (variable := _set(member.variables)) is not None:
            value, place = os.environ[variable], f"${variable}"
        yield ShownSetting(None, name, str(value) if isinstance(value, os.PathLike) else value, place)


def _source(source: ParameterSource | None, variables: tuple[str, ...], setting: Setting | None) -> str:
    if source is ParameterSource.COMMANDLINE:
        return "option"
    if source is ParameterSource.ENVIRONMENT:
        return f"${_set(variables)}"
    return setting.place if source is ParameterSource.DEFAULT_MAP and setting is not None else DEFAULT


def _set(variables: tuple[str, ...]) -> str | None:
    return next((one for one in variables if os.environ.get(one)), None)


def _masked(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_masked(one) for one in value]
    return without_passwords(value) if isinstance(value, str) else value


def _tell_files(found: FoundFiles, *, as_json: bool) -> None:
    for file in found.used:
        kind = "trusted" if file.is_project else "your own"
        if as_json:
            talk_json({"file": str(file.path), "state": kind})
        else:
            talk(f"{file.path}: {kind}")
    for one in found.ignored:
        if as_json:
            talk_json({"file": str(one.path), "state": "ignored", "reason": one.why, "hint": one.hint})
        else:
            talk(f"{one.path}: {one.why}, so it is ignored")
            talk(f"hint: {one.hint}")


show.params.append(json_option())

"""`config`: each setting with its value and its source, and the user's trust in a project's file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource

from workers.cli.base import command
from workers.cli.config_applied import (
    FoundFiles,
    Setting,
    at_its_place,
    find_files,
    load,
    named_files,
    project_file,
    record_of,
    require_outside,
    save,
    settings_of,
)
from workers.cli.config_files import (
    COMMON,
    ENVIRONMENT,
    CommandWords,
    ConfigFileError,
    SettingsFile,
    check_all,
    members_of,
    walk,
)
from workers.cli.lazy import LazyGroup
from workers.cli.output import CommandOutput, Exit, talk
from workers.presentation.text import without_passwords
from workers.transport.trusted import PROJECT_FILE

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


@command(
    "permission-ledger config show",
    "permission-ledger config show --json",
    "permission-ledger config show up",
    "permission-ledger config show up --attended 30s",
    with_url=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND [OPTION]…]")
def show(*, words: tuple[str, ...], as_json: bool) -> None:
    """Print each setting, its value and its source: an option, a variable, a line of a file, or the default.

    With a COMMAND, and options as you would give them, it prints all options of that command line; without one the settings
    of all commands, and of single ones where a file or the environment has them. Passwords and tokens are masked. Every
    member of every used file is checked.
    """
    from workers.cli import cli  # noqa: PLC0415 - the table of commands names this module

    found = find_files()
    commands = dict(walk(cli))
    for file in found.used:
        check_all(file)
    shown = list(_of_line(found, words, commands) if words else _of_all(found, commands))
    output = CommandOutput(as_json=as_json)
    output.listing(shown, ShownSetting.as_json, ("SETTING", "VALUE", "SOURCE"), ShownSetting.cells)
    _tell_files(output, found)


def _of_all(found: FoundFiles, commands: dict[CommandWords, click.Command]) -> Iterator[ShownSetting]:
    for name in COMMON:
        yield _common(found, name)
    for name, named in _ENVIRONMENT_ALONE.items():
        if os.environ.get(named):
            yield ShownSetting(None, name, MASKED if name == "token" else os.environ[named], f"${named}")
    for path, of_path in commands.items():
        table = ".".join(path)
        for name, member in members_of(path, of_path).items():
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


def _tell_files(output: CommandOutput, found: FoundFiles) -> None:
    for file in found.used:
        kind = "trusted" if file.is_project else "your own"
        output.aside({"file": str(file.path), "state": kind}, f"{file.path}: {kind}")
    for one in found.ignored:
        row = {"file": str(one.path), "state": "ignored", "reason": one.why, "hint": one.hint}
        output.aside(row, f"{one.path}: {one.why}, so it is ignored", f"hint: {one.hint}")


_PATH = click.Path(path_type=Path)


@command(
    "permission-ledger config trust",
    "permission-ledger config trust ~/shop/permission-ledger.toml --yes",
    with_url=False,
)
@click.argument("path", type=_PATH, default=Path(), metavar="[PATH]")
@click.option("--yes", is_flag=True, help="Trust it without asking.")
def trust(*, path: Path, yes: bool, as_json: bool) -> int | None:
    """Show a project's file, and use it from now on while its content stays the same.

    `trusted.json` in your configuration folder keeps its path and the SHA-256 of its content and of the files of rules and
    notifications that it names. After a change of any of them it is not used until you trust it again.
    """
    file = project_file(path)
    require_outside(file.path)
    check_all(file)
    output = CommandOutput(as_json=as_json)
    records, record = load(), record_of(file)
    if records.get(str(file.path)) == record:
        _say(output, file, "already trusted")
        return None
    for line in (f"{file.path}:", *(f"  {line}" for line in file.content.decode().splitlines())):
        talk(line)
    for named, digest in record.named.items():
        talk(f"{named}: {digest}")
    if not yes and not click.confirm("Use these settings from now on?", default=False, err=True):
        talk("nothing was written")
        return Exit.OUR_FAULT
    if project_file(path).digest != file.digest:
        raise ConfigFileError(f"`{file.path}` was changed meanwhile", hint="read it again")
    save({**records, str(file.path): record})
    _say(output, file, "trusted")
    return None


@command(
    "permission-ledger config untrust",
    "permission-ledger config untrust ~/shop/permission-ledger.toml",
    with_url=False,
)
@click.argument("path", type=_PATH, default=Path(), metavar="[PATH]")
def untrust(*, path: Path, as_json: bool) -> None:
    """Use a project's file no more. The file itself stays; it may be gone already."""
    wanted = at_its_place(path if path.name == PROJECT_FILE else path / PROJECT_FILE)
    records = load()
    if records.pop(str(wanted), None) is None:
        raise ConfigFileError(f"`{wanted}` is not trusted")
    save(records)
    CommandOutput(as_json=as_json).result({"file": str(wanted), "state": "not trusted"}, f"{wanted}: not trusted")


def _say(output: CommandOutput, file: SettingsFile, state: str) -> None:
    row = {"file": str(file.path), "state": state, "sha256": file.digest, "names": named_files(file)}
    output.result(row, f"{file.path}: {state}")


_SETTINGS = "Settings"

COMMANDS = {
    "show": ("workers.cli.config:show", "Print each setting, its value and its source.", _SETTINGS),
    "trust": ("workers.cli.config:trust", "Use a project's file, as it is now.", _SETTINGS),
    "untrust": ("workers.cli.config:untrust", "Use a project's file no more.", _SETTINGS),
}

config = LazyGroup(COMMANDS, name="config", help="Show the settings, and trust a project's file.")

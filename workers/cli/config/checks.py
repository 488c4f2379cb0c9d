"""The check of a whole configuration file against all commands."""

from __future__ import annotations

from workers.cli.config.errors import ConfigFileError
from workers.cli.config.files import SettingsFile, check_common, check_table, check_value
from workers.cli.config.members import CommandWords, common_of, walk


def check_all(file: SettingsFile) -> None:
    """Check every member and table of a file. Raises ConfigFileError."""
    from workers.cli import COMMANDS, cli  # noqa: PLC0415 - the table of commands names this module's callers

    check_common(file, tuple(COMMANDS))
    commands = dict(walk(cli))
    _check_groups(file, tuple(commands))
    for path, command in commands.items():
        check_table(file, path, command)
        for name, member in common_of(path, command).items():
            if name in file.data:
                check_value(file, (), member._replace(name=name), file.data[name])


def _check_groups(file: SettingsFile, paths: tuple[CommandWords, ...]) -> None:
    """Raise ConfigFileError for a table below a group that names none of its commands."""
    for group in {path[0] for path in paths if len(path) > 1} & set(file.data):
        known = [path[1] for path in paths if path[0] == group]
        for name in file.table((group,)):
            if name not in known:
                raise ConfigFileError(
                    f"{file.place((group, name))}: `{group}.{name}` is no table: no command has this name",
                    hint=f"the commands of `{group}`: {', '.join(known)}",
                )

"""The settings of one command from the configuration files, as defaults of its options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from workers.cli.config import places
from workers.cli.config.files import (
    ConfigFileError,
    SettingsFile,
    anchored,
    check_common,
    check_table,
    check_value,
    plain,
    read_settings,
    require_private,
)
from workers.cli.config.members import ENVIRONMENT, CommandWords, FileMember, common_of, judges, members_of
from workers.cli.config.trust import load, trust_of
from workers.cli.output import talk, talk_json
from workers.transport.errors import BridgeError
from workers.transport.place import ADDRESS, TOKEN, parse_place
from workers.transport.trusted import Records


class Ignored(NamedTuple):
    """A project's file that is not used. `was_trusted`: the user trusted other content of it, or of a file it names."""

    path: Path
    why: str
    was_trusted: bool

    @property
    def hint(self) -> str:
        if self.why == "is missing":
            return f"bring it back, or forget it: permission-ledger config untrust {self.path}"
        return f"read it, then: permission-ledger config trust {self.path}"


class FoundFiles(NamedTuple):
    """The files in the order in which they count, and those that do not count."""

    used: tuple[SettingsFile, ...]
    ignored: tuple[Ignored, ...]


def find_files() -> FoundFiles:
    """Return the files for the working folder. Raises ConfigFileError for a used file that cannot be read."""
    if not places.files_are_read() or not places.is_anything_here():
        return FoundFiles((), ())
    project, ignored = _project_files(load())
    own_path = Path(places.user_file())
    own = read_settings(own_path, is_project=False)
    if own is not None:
        require_private(own_path)
    return FoundFiles(tuple(one for one in (project, own) if one is not None), tuple(ignored))


def _project_files(records: Records) -> tuple[SettingsFile | None, list[Ignored]]:
    """Return the nearest trusted file, and what was passed over on the way to it.

    A nearer file that is not trusted never hides a trusted one: an agent could write it to switch settings off.
    """
    ignored: list[Ignored] = []
    for folder in places.folders_above(os.getcwd()):  # noqa: PTH109 - the same folder as in `is_anything_here`
        path = Path(folder) / places.FILE
        was_trusted = str(path) in records
        try:
            file = read_settings(path, is_project=True)
        except ConfigFileError as error:
            ignored.append(Ignored(path, f"cannot be used ({error.format_message()})", was_trusted))
            continue
        if file is None:
            ignored += [Ignored(path, "is missing", was_trusted=True)] if was_trusted else []
            continue
        trust, changed = trust_of(file, records)
        if trust == "trusted":
            return file, ignored
        ignored.append(Ignored(path, _why(trust, changed, path), was_trusted))
    return None, ignored


def _why(trust: str, changed: str, path: Path) -> str:
    if trust == "untrusted":
        return "is not trusted"
    return "was changed since you trusted it" if changed == str(path) else f"names `{changed}`, which was changed"


_INSTEAD_OF_URL: Final = {"up": ("--home", "--url"), "run": ("--gateway", "--url")}
"""Options that name another place than a file's `url` does."""


class Setting(NamedTuple):
    """A value, and the file and line that it stands in."""

    value: Any
    place: str


def defaults(path: CommandWords, command: click.Command, args: Sequence[str]) -> dict[str, Any]:
    """Return the defaults of the command's options, by parameter, and set the gateway's address.

    Files that are not used are told on stderr. Raises ConfigFileError for a wrong member, and for a command that judges
    where a file that was trusted has changed: without it the command could allow more than the user wrote there.
    """
    found = find_files()
    _tell(found.ignored, as_json="--json" in args)
    lost = next((one for one in found.ignored if one.was_trusted), None)
    if lost is not None and judges(path, command):
        raise ConfigFileError(f"`{lost.path}` {lost.why}, so `{' '.join(path)}` does not start", hint=lost.hint)
    _check(found.used, path, command)
    _name_gateway(found)
    chosen = settings_of(found, path, command)
    words = args[: args.index("--")] if "--" in args else args
    typed = {word.partition("=")[0] for word in words}
    if typed & set(_INSTEAD_OF_URL.get(path[0], ())) or (path == ("run",) and os.environ.get(ADDRESS)):
        chosen.pop("url", None)
    return {name: setting.value for name, setting in chosen.items()}


def settings_of(found: FoundFiles, path: CommandWords, command: click.Command) -> dict[str, Setting]:
    """Return the settings by parameter; those that the environment has are left out."""
    own, common = members_of(path, command), common_of(path, command)
    chosen: dict[str, Setting] = {}
    for file in reversed(found.used):
        for table, members in (((), common), (path, own)):
            for name, value in file.table(table).items():
                member = members.get(name)
                if member is None or any(os.environ.get(one) for one in variables(name, member, table)):
                    continue
                if not table:
                    check_value(file, (), member._replace(name=name), value)
                shaped = anchored(file, member, plain(member.option, value))
                chosen[str(member.option.name)] = Setting(shaped, file.place(table, name))
    return chosen


def variables(name: str, member: FileMember, table: CommandWords) -> tuple[str, ...]:
    """Return the variables of a member; of the common ones also those that no option of click knows."""
    return member.variables if table else (*member.variables, *ENVIRONMENT.get(name, ()))


def gateway_of(found: FoundFiles) -> tuple[SettingsFile, str] | None:
    """Return the gateway's address from the files, unless the environment names one."""
    if any(os.environ.get(name) for name in ENVIRONMENT["gateway"]):
        return None
    return next(((file, str(file.data["gateway"])) for file in found.used if file.data.get("gateway")), None)


def _name_gateway(found: FoundFiles) -> None:
    """Put the gateway's address where bridges look for it. Raises ConfigFileError for an address that is none.

    A token of the environment was set for another address, so it goes to a project's gateway on this machine only.
    """
    named = gateway_of(found)
    if named is None:
        return
    file, address = named
    try:
        place = parse_place(address, None)
    except BridgeError as error:
        raise ConfigFileError(f"{file.place((), 'gateway')}: `gateway`: {error.text}") from None
    if file.is_project and os.environ.get(TOKEN) and not place.is_local:
        raise ConfigFileError(
            f"{file.place((), 'gateway')}: `gateway` is another machine, and {TOKEN} is set without {ADDRESS}",
            hint=f"set {ADDRESS} to the gateway that the token is for",
        )
    os.environ[ADDRESS] = address


def _check(files: Sequence[SettingsFile], path: CommandWords, command: click.Command) -> None:
    from workers.cli import COMMANDS  # noqa: PLC0415 - the table of commands imports this module's callers

    for file in files:
        check_common(file, tuple(COMMANDS))
        check_table(file, path, command)


def _tell(ignored: Sequence[Ignored], *, as_json: bool) -> None:
    for one in ignored:
        text = f"`{one.path}` {one.why}, so it is ignored"
        if as_json:
            talk_json({"warning": text, "hint": one.hint})
        else:
            talk(f"warning: {text}")
            talk(f"hint: {one.hint}")

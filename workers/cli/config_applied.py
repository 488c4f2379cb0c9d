"""The settings of one command from the configuration files that count: the user's own, and a trusted project's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import click

from ledger.core.regular_files import private_file
from workers.cli.config_files import (
    ENVIRONMENT,
    CommandWords,
    ConfigFileError,
    FileMember,
    SettingsFile,
    anchored,
    check_common,
    check_table,
    check_value,
    common_of,
    judges,
    members_of,
    path_in,
    plain,
    read_settings,
    require_private,
)
from workers.cli.output import CommandOutput
from workers.transport.place import ADDRESS, TOKEN, BridgeError, parse_place
from workers.transport.trusted import (
    PROJECT_FILE,
    Records,
    TrustListError,
    TrustRecord,
    config_folder,
    folders_above,
    is_anything_here,
    load_records,
    trust_file,
    user_file,
)
from workers.transport.trusted import digest_of_file as digest_of

Trust = Literal["trusted", "untrusted", "changed"]

_NAMING: Final = frozenset({"rules", "notify", "config", "oidc", "proxy-sign-in"})
"""The members that name a file whose content decides: it is trusted together with the file that names it."""


def load() -> Records:
    """Return the records by path. Raises ConfigFileError for a list that others may have written."""
    try:
        return load_records()
    except TrustListError as error:
        raise ConfigFileError(error.text, hint=error.hint) from None


def save(records: Records) -> None:
    """Replace the list, readable by its owner only. Raises ConfigFileError."""
    path = Path(trust_file())
    said = {file: {"sha256": one.digest, "named": one.named} for file, one in sorted(records.items())}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        require_private(path)
        with private_file(path) as written:
            written.write(json.dumps({"files": said}, indent=2).encode() + b"\n")
    except OSError as error:
        raise ConfigFileError(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}") from None


def trust_of(file: SettingsFile, records: Records) -> tuple[Trust, str]:
    """Return the state of a project's file, and the path of what changed."""
    record = records.get(str(file.path))
    if record is None:
        return "untrusted", str(file.path)
    if record.digest != file.digest:
        return "changed", str(file.path)
    changed = next((path for path, digest in record.named.items() if digest_of(path) != digest), None)
    return ("trusted", str(file.path)) if changed is None else ("changed", changed)


def record_of(file: SettingsFile) -> TrustRecord:
    """Return the record that trusts a file as it is now, with the files that it names."""
    return TrustRecord(file.digest, {path: digest_of(path) for path in named_files(file)})


def require_outside(path: Path) -> None:
    """Raise ConfigFileError if the list would be inside the project, where an agent may write it."""
    folder = path.parent.resolve()
    if Path(config_folder()).resolve().is_relative_to(folder):
        raise ConfigFileError(
            f"your configuration folder `{config_folder()}` is inside the project `{folder}`: "
            "whoever writes there could trust a file in your name",
            hint=f"put these settings into `{user_file()}`, which needs no trust",
        )


def named_files(file: SettingsFile) -> list[str]:
    """Return the absolute paths of the files whose content counts as the content of this one."""
    return sorted({path for table in _tables(file.data) for path in _named_in(file, table)})


def project_file(path: Path) -> SettingsFile:
    """Return a project's file by its path or folder. Raises ConfigFileError where there is none."""
    wanted = path / PROJECT_FILE if path.is_dir() else path
    if wanted.name != PROJECT_FILE:
        raise ConfigFileError(f"`{wanted}` is not named `{PROJECT_FILE}`")
    found = read_settings(at_its_place(wanted), is_project=True)
    if found is None:
        raise ConfigFileError(f"there is no `{wanted}`", hint="`permission-ledger init` writes one")
    return found


def at_its_place(path: Path) -> Path:
    """Return the path with the links of its folder resolved; a link with the file's own name stays."""
    return path.parent.resolve() / path.name


def _tables(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [data, *(one for value in data.values() if isinstance(value, dict) for one in _tables(value))]


def _named_in(file: SettingsFile, table: dict[str, Any]) -> list[str]:
    found = []
    for name in _NAMING & set(table):
        values = table[name] if isinstance(table[name], list) else [table[name]]
        found += [path_in(file.path.parent, value)[1] for value in values if isinstance(value, str)]
    return found


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
    if not is_anything_here():
        return FoundFiles((), ())
    project, ignored = _project_files(load())
    own_path = Path(user_file())
    own = read_settings(own_path, is_project=False)
    if own is not None:
        require_private(own_path)
    return FoundFiles(tuple(one for one in (project, own) if one is not None), tuple(ignored))


def _project_files(records: Records) -> tuple[SettingsFile | None, list[Ignored]]:
    """Return the nearest trusted file, and what was passed over on the way to it.

    A nearer file that is not trusted never hides a trusted one: an agent could write it to switch settings off.
    """
    ignored: list[Ignored] = []
    for folder in folders_above(os.getcwd()):  # noqa: PTH109 - the same folder as in `is_anything_here`
        path = Path(folder) / PROJECT_FILE
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


_INSTEAD_OF_URL: Final = {
    **dict.fromkeys(("up", "down", "status"), ("--home", "--url")),
    "run": ("--gateway", "--url"),
}
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
    _tell(CommandOutput(as_json="--json" in args), found.ignored)
    lost = next((one for one in found.ignored if one.was_trusted), None)
    if lost is not None and judges(path, command):
        raise ConfigFileError(f"`{lost.path}` {lost.why}, so `{' '.join(path)}` does not start", hint=lost.hint)
    from workers.cli import COMMANDS  # noqa: PLC0415 - the table of commands imports this module's callers

    for file in found.used:
        check_common(file, tuple(COMMANDS))
        check_table(file, path, command)
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


def _name_gateway(found: FoundFiles) -> None:
    """Put the gateway's address where bridges look for it, unless the environment names one. Raises ConfigFileError for an address that is none.

    A token of the environment was set for another address, so it goes to a project's gateway on this machine only.
    """
    file = next((one for one in found.used if one.data.get("gateway")), None)
    if file is None or any(os.environ.get(name) for name in ENVIRONMENT["gateway"]):
        return
    address = str(file.data["gateway"])
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


def _tell(output: CommandOutput, ignored: Sequence[Ignored]) -> None:
    for one in ignored:
        text = f"`{one.path}` {one.why}, so it is ignored"
        output.aside({"warning": text, "hint": one.hint}, f"warning: {text}", f"hint: {one.hint}")

"""A configuration file and its check: the members that commands' options give it, and the line of each."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ledger.core.regular_files import read_regular
from workers.presentation.text import without_passwords
from workers.transport import trusted

CommandWords = tuple[str, ...]
"""The words of a command: `("bridge", "claude")`."""

RULES_OF_GATEWAY: Final = "[DIALECT=]FILE"
"""The metavar of `--rules` of commands that take one file a dialect."""

COMMON: Final = ("url", "gateway", "attended", "unattended", "rules", "notify")
"""The members above all tables. Each is the default of an option of several commands."""

ENVIRONMENT: Final[Mapping[str, tuple[str, ...]]] = {
    "url": ("PERMISSION_LEDGER_URL", "PERMISSION_LEDGER_URL_FILE", "PERMISSION_LEDGER_HOME"),
    "gateway": ("PERMISSION_LEDGER_GATEWAY", "PERMISSION_LEDGER_HOME"),
    "notify": ("PERMISSION_LEDGER_NOTIFY",),
}
"""The variables that come before a common member. A data folder names both a ledger and its gateway."""

OF_ONE_CALL: Final = frozenset(
    {
        *(
            "after",
            "all",
            "always",
            "at",
            "claim",
            "detach",
            "digest",
            "dry-run",
            "failed",
            "id",
            "input",
            "install",
            "json",
        ),
        *("list", "matching", "message", "metadata", "open", "output", "pattern", "permission", "prompt-tool"),
        *("reason", "round", "service", "settings", "status", "tool", "trust", "uninstall", "undo", "uses-of", "yes"),
    }
)
"""Options that say what one call of a command does. They are no settings, so files have no members for them."""

WITHOUT_FILES: Final = frozenset({"completion", "config", "hook", "init"})
"""Commands that take no settings from files. An installed hook reads none either, so both judge alike."""

_JUDGING: Final = frozenset({"attended", "unattended", "rules", "on_unreachable"})


class FileMember(NamedTuple):
    """One member of the table of a command, and its option."""

    name: str
    option: click.Option

    @property
    def is_path(self) -> bool:
        """Return whether its values are paths, which are relative to the folder of their file."""
        metavar = self.option.metavar or ""
        return isinstance(self.option.type, click.Path) or metavar.endswith(("FILE", "FOLDER", "DIR"))

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the environment variables that come before a file."""
        named = self.option.envvar
        own = () if named is None else (named,) if isinstance(named, str) else tuple(named)
        return own or (ENVIRONMENT["url"] if self.option.name == "url" else ())


def members_of(path: CommandWords, command: click.Command) -> dict[str, FileMember]:
    """Return the members of the table of a command, by name."""
    if path[0] in WITHOUT_FILES:
        return {}
    return {name: FileMember(name, option) for name, option in _options(command) if name not in OF_ONE_CALL}


def common_of(path: CommandWords, command: click.Command) -> dict[str, FileMember]:
    """Return the common members that are defaults of this command's options, by name."""
    return {
        common: member
        for member in members_of(path, command).values()
        if (common := _common_name(path, member.option)) is not None
    }


def judges(path: CommandWords, command: click.Command) -> bool:
    """Return whether settings of this command change what is allowed, or what happens without an answer."""
    names = {option.name for _, option in _options(command)}
    return path[0] not in {"policy", *WITHOUT_FILES} and bool(names & _JUDGING)


def walk(
    group: click.Group, above: CommandWords = (), parent: click.Context | None = None
) -> Iterator[tuple[CommandWords, Any]]:
    """Yield the words of each command with its click command, those of groups included."""
    context = click.Context(group, info_name=above[-1] if above else "permission-ledger", parent=parent)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from walk(found, (*above, name), context)
        elif found is not None:
            yield (*above, name), found


def _options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and not option.is_eager:
            long = next((word for word in option.opts if word.startswith("--")), None)
            if long is not None:
                yield long.removeprefix("--"), option


def _common_name(path: CommandWords, option: click.Option) -> str | None:
    name = str(option.name)
    if name == "url":
        # `bridge opencode --url` is OpenCode's server; the demo must not play on a ledger that somebody uses.
        return None if path[0] in ("bridge", "demo") else "url"
    if name == "rules":
        return "rules" if option.metavar == RULES_OF_GATEWAY else None
    if path in (("up",), ("worker", "notifier")) and name in ("notify", "config"):
        return "notify"
    if path == ("inbox",) and name == "gateway":
        return "gateway"
    return name if name in ("attended", "unattended") else None


class ConfigFileError(click.ClickException):
    """A configuration file that cannot be used. It ends the command with the exit code of bad input."""

    code = "CONFIG"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


SECRETS: Final = re.compile(r"(?i)token|password|secret|api[-_]?key")
_HEADER: Final = re.compile(r"^\s*\[([^\[\]]+)\]\s*(?:#.*)?$")


class SettingsFile(NamedTuple):
    """A parsed file. `is_project` marks the file of a project, which an agent may have written."""

    path: Path
    content: bytes
    data: dict[str, Any]
    is_project: bool

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def place(self, table: CommandWords, name: str | None = None) -> str:
        """Return `file:line` of a member, or of its table when the member is written in an unusual way."""
        return f"{self.path}:{self.line_of(table, name)}"

    def line_of(self, table: CommandWords, name: str | None = None) -> int:
        inside: CommandWords = ()
        header = 1
        for number, line in enumerate(self.content.decode().splitlines(), 1):
            if found := _HEADER.match(line):
                inside = tuple(part.strip().strip("\"'") for part in found[1].split("."))
                header = number if inside == table else header
            elif inside == table and name is not None and re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=", line):
                return number
        return header

    def table(self, path: CommandWords) -> dict[str, Any]:
        """Return the members below a command's table."""
        found: Any = self.data
        for word in path:
            found = found.get(word, {}) if isinstance(found, dict) else {}
        return found if isinstance(found, dict) else {}


def read_settings(path: Path, *, is_project: bool) -> SettingsFile | None:
    """Return the file, or None where there is none. Raises ConfigFileError for one that cannot be read."""
    try:
        content = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigFileError(f"`{path}` cannot be read: {(error.strerror or str(error)).lower()}") from None
    try:
        data = tomllib.loads(content.decode())
    except tomllib.TOMLDecodeError as error:
        raise ConfigFileError(f"`{path}` is not TOML: {_in_one_line(error)}") from None
    except (ValueError, RecursionError):
        # Python reads no number of more than 4,300 digits, and says so by a plain ValueError.
        raise ConfigFileError(
            f"`{path}` is not TOML: it must be UTF-8 text without deep nesting and without endless numbers"
        ) from None
    return SettingsFile(path, content, data, is_project)


def require_private(path: Path) -> None:
    """Raise ConfigFileError if another user may have written a file of the user's own configuration."""
    try:
        trusted.require_private(str(path))
    except trusted.TrustListError as error:
        raise ConfigFileError(error.text, hint=error.hint) from None


def check_common(file: SettingsFile, names: tuple[str, ...]) -> None:
    """Check the members above all tables, and the names of the tables. Raises ConfigFileError."""
    for name, value in file.data.items():
        if name in COMMON:
            _check_common_value(file, name, value)
        elif not isinstance(value, dict):
            raise _unknown(file, (), name, COMMON)
        elif name not in names:
            raise _unknown(file, (name,), None, names)


def check_table(file: SettingsFile, path: CommandWords, command: click.Command) -> None:
    """Check the members of one command's table. Raises ConfigFileError."""
    known = members_of(path, command)
    for name, value in file.table(path).items():
        if name not in known:
            raise _unknown(file, path, name, tuple(known))
        check_value(file, path, known[name], value)


def check_value(file: SettingsFile, table: CommandWords, member: FileMember, value: Any) -> None:
    """Check one value as the command line checks its option. Raises ConfigFileError."""
    option, where = member.option, file.place(table, member.name)
    if option.is_flag != isinstance(value, bool):
        raise ConfigFileError(f"{where}: `{member.name}` must be {'true or false' if option.is_flag else 'a value'}")
    if isinstance(value, list) != option.multiple and not (option.multiple and isinstance(value, str)):
        raise ConfigFileError(f"{where}: `{member.name}` must be {'a list' if option.multiple else 'one value'}")
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, str | int | float):
            raise ConfigFileError(f"{where}: `{member.name}` must hold text or numbers")
        _refuse_secret(file, where, member.name, one)
    if isinstance(option.type, click.Path):
        return
    try:
        option.type_cast_value(click.Context(click.Command(member.name)), plain(option, value))
    except click.UsageError as error:
        raise ConfigFileError(f"{where}: `{member.name}`: {_in_one_line(error)}") from None


def plain(option: click.Option, value: Any) -> Any:
    """Return a value in the form that the option has on the command line."""
    if isinstance(value, bool):
        return value
    if option.multiple:
        return [str(one) for one in (value if isinstance(value, list) else [value])]
    return str(value)


def anchored(file: SettingsFile, member: FileMember, value: Any) -> Any:
    """Return the value with relative paths resolved from the folder of their file."""
    if not member.is_path:
        return value
    if isinstance(value, list):
        return ["".join(path_in(file.path.parent, str(one))) for one in value]
    return "".join(path_in(file.path.parent, str(value)))


def path_in(folder: Path, text: str) -> tuple[str, str]:
    """Return the `dialect=` before a path, which may be empty, and the path as an absolute one."""
    dialect, equals, path = text.partition("=")
    if equals and re.fullmatch(r"[a-z]+", dialect):
        return f"{dialect}=", str(folder / path)
    return "", str(folder / text)


def _check_common_value(file: SettingsFile, name: str, value: Any) -> None:
    where = file.place((), name)
    texts = value if name == "rules" and isinstance(value, list) else [value]
    if not all(isinstance(one, str) and one for one in texts):
        raise ConfigFileError(f"{where}: `{name}` must be text{' or a list of texts' if name == 'rules' else ''}")
    for one in texts:
        _refuse_secret(file, where, name, one)


def _refuse_secret(file: SettingsFile, where: str, name: str, value: Any) -> None:
    if file.is_project and isinstance(value, str) and without_passwords(value) != value:
        raise ConfigFileError(
            f"{where}: `{name}` holds a password, and everybody who works on the project reads this file",
            hint="put it into your own config.toml (`permission-ledger config show` names it), or into the environment",
        )


def _unknown(file: SettingsFile, table: CommandWords, name: str | None, known: tuple[str, ...]) -> ConfigFileError:
    said = name if name is not None else ".".join(table)
    where = file.place(table, name)
    if SECRETS.search(said):
        return ConfigFileError(
            f"{where}: `{said}` is no member: tokens stand in no configuration file",
            hint="set PERMISSION_LEDGER_TOKEN in the environment",
        )
    if said in OF_ONE_CALL:
        return ConfigFileError(f"{where}: `{said}` says what one call does; give --{said} on the command line")
    near = get_close_matches(said, known, n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`?" if near else None
    kind = "member" if name is not None else "table: no command with settings has this name"
    return ConfigFileError(f"{where}: `{said}` is no {kind}", hint=hint)


def _in_one_line(error: Exception) -> str:
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    said = " ".join(text.split()).removesuffix(".")
    return said[:1].lower() + said[1:]


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
    for group in {path[0] for path in paths if len(path) > 1} & set(file.data):
        known = [path[1] for path in paths if path[0] == group]
        for name in file.table((group,)):
            if name not in known:
                raise ConfigFileError(
                    f"{file.place((group, name))}: `{group}.{name}` is no table: no command has this name",
                    hint=f"the commands of `{group}`: {', '.join(known)}",
                )

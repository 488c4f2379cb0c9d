"""The members of a configuration file, derived from the options of the commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import click

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
        *("after", "all", "always", "at", "claim", "digest", "dry-run", "failed", "id", "input", "install", "json"),
        *("list", "matching", "message", "metadata", "open", "output", "pattern", "permission", "prompt-tool"),
        *("reason", "round", "settings", "status", "tool", "trust", "uninstall", "undo", "uses-of", "yes"),
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
    """Return the common member that is the default of an option, or None."""
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

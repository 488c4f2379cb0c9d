"""`docs/reference/cli.md` from the commands themselves: `python -m workers.cli.reference > docs/reference/cli.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby
from typing import Final, TypeAlias

import click

from workers.cli import EPILOG, cli
from workers.cli.options import DocumentedCommand

WrittenOption: TypeAlias = tuple[str, str]
"""An option as the help writes it, and its meaning."""

SHARED_BY: Final = 2
"""The number of commands from which on an option of the same words is explained once."""

MOST_NAMED: Final = 3
"""The number of commands, groups of them counted once, up to which shared options stand under their names."""

_HEAD = f"""# Command line

Made from the commands' own help by `python -m workers.cli.reference`; a test keeps it current.

{EPILOG}

- Data goes to stdout, talk to stderr. With `--json` each line of stdout is one JSON object, and an error is one on
  stderr: `code`, `error`, `request_id`, `session`, `reasons`, `agent`, what else the error knows, and `hint` when there
  is a way out; a warning before it is `{{"warning": text}}`. `ask` and `reply` print their object on stdout however the
  request ended: a `reply` that came too late the outcome that stands, with the `code` of its own refusal, and one to
  several requests an object each.
- A list is a table of 50 rows on a terminal; stderr says how to see the next. With `--json` all rows are printed, as they are
  read.
- Damaged streams are named on stderr (exit code 11), beside the rows of all others. [Exit codes](errors.md#errors-and-exit-codes),
  and which of several counts.
- What agents and people wrote is shown with every control, invisible or direction-changing character escaped; colour
  and tables appear on a terminal only, and `NO_COLOR` is respected. Passwords in URLs are never shown.
- `PERMISSION_LEDGER_DEBUG=1` shows the traceback of an error in this program.
"""


def reference() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, *_commands()]).rstrip() + "\n"


def _commands() -> Iterator[str]:
    contexts = list(_below(click.Context(cli, info_name="permission-ledger", **cli.context_settings)))
    shared = _shared(contexts)
    yield "## Shared options\n"
    yield "Each command names those that it takes, and explains only its own.\n"
    for commands, options in shared.items():
        yield f"{' '.join(f'`{name}`' for name in commands) or 'Several commands'}:\n"
        yield from _option_list(options)
        yield ""
    for section, entries in groupby(contexts, key=lambda context: cli.table[context.command_path.split()[1]].section):
        yield f"## {section}\n"
        for context in entries:
            yield from _command(context, shared)


def _below(context: click.Context) -> Iterator[click.Context]:
    """Yield the commands of a group and of its groups, each as its context."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"`{name}` is listed but cannot be found"
        own = click.Context(command, info_name=name, parent=context)
        yield own
        if isinstance(command, click.Group):
            yield from _below(own)


def _shared(contexts: list[click.Context]) -> dict[tuple[str, ...], list[WrittenOption]]:
    """Return the options with the same words in several commands, by the names of these, or by none where they are many."""
    takers: dict[WrittenOption, list[str]] = {}
    for context in contexts:
        if not isinstance(context.command, click.Group):
            for option in _options(context):
                takers.setdefault(option, []).append(context.command_path.split()[1])
    groups: dict[tuple[str, ...], dict[str, WrittenOption]] = {(): {}}
    for option, names in sorted(takers.items(), key=lambda item: -len(item[1])):
        if len(names) >= SHARED_BY:
            among = tuple(dict.fromkeys(names))
            groups.setdefault(among if len(among) <= MOST_NAMED else (), {}).setdefault(_name(option), option)
    return {among: list(options.values()) for among, options in groups.items() if not among or len(options) > 1}


def _options(context: click.Context) -> list[WrittenOption]:
    """Return the options of a command as its help writes them, each with its meaning."""
    return [record for param in context.command.params if (record := param.get_help_record(context)) and record[1]]


def _name(option: WrittenOption) -> str:
    return option[0].split(" ")[0]


def _option_list(options: list[WrittenOption]) -> Iterator[str]:
    yield from (f"- `{_line(written)}`: {_line(meaning)}" for written, meaning in options)


def _command(context: click.Context, shared: dict[tuple[str, ...], list[WrittenOption]]) -> Iterator[str]:
    command = context.command
    name = context.command_path.removeprefix("permission-ledger ")
    arguments = " ".join(command.get_usage(context).partition("[OPTIONS]")[2].split())
    yield f"### {name}\n"
    if arguments and not isinstance(command, click.Group):
        yield f"`{name} {arguments}`\n"
    if command.help:
        yield inspect.cleandoc(command.help) + "\n"
    options = [] if isinstance(command, click.Group) else _options(context)
    told = {option for group in shared.values() for option in group}
    yield from _option_list([option for option in options if option not in told])
    if taken := [words for among, group in shared.items() for words in _taken(among, group, options)]:
        yield f"- Shared: {', '.join(taken)}"
    yield ""
    if isinstance(command, DocumentedCommand) and command.examples:
        known = {f"{one} --json" for one in command.examples}
        shown = [one for one in command.examples if one not in known]
        yield "\n".join(["```sh", *shown, "```\n"])


def _taken(among: tuple[str, ...], group: list[WrittenOption], options: list[WrittenOption]) -> Iterator[str]:
    """Yield the names of the options of a group that a command takes, or that it takes all of the group but a few."""
    taken = [f"`{_name(option)}`" for option in options if option in group]
    left = [f"`{_name(option)}`" for option in group if option not in options]
    if among and len(taken) > len(left) + 2:
        yield f"all of {' '.join(f'`{name}`' for name in among)}" + (f" but {' '.join(left)}" if left else "")
    else:
        yield from taken


def _line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    print(reference(), end="")

"""`docs/reference/cli.md` from the commands themselves: `python -m workers.cli.reference > docs/reference/cli.md`."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final, TypeAlias

import click

from workers.cli import EPILOG, cli
from workers.cli.options import DocumentedCommand

WrittenOption: TypeAlias = tuple[str, str]
"""An option as the help writes it, and its meaning."""

SHARED_BY: Final = 4
"""The number of commands from which on an option of the same words is explained once."""

_HEAD = f"""# Command line

Made from the commands' own help by `python -m workers.cli.reference`; a test keeps it current.

`permission-ledger COMMAND --help` says the same on a terminal. {EPILOG}

- Data goes to stdout, talk to stderr. `--json` and `--url` stand after the command's name; with `--json` each line of
  stdout is one JSON object, and an error is one JSON object on stderr: `code`, `error`, `request_id`, `session`,
  `reasons`, `agent`, what else the error knows, and `hint` when there is a way out; a warning before it is
  `{{"warning": text}}`. `ask` and `reply` print their
  object on stdout however the request ended; a `reply` that came too late prints the outcome that stands, with the
  `code` of its own refusal. A `reply` to several requests prints one object each.
- What an exit code means, and which of several counts: [exit codes](errors.md#errors-and-exit-codes).
- What agents and people wrote is shown with every control, invisible or direction-changing character escaped; colour
  and tables appear on a terminal only, and `NO_COLOR` is respected.
- `PERMISSION_LEDGER_DEBUG=1` shows the traceback of an error in this program. Passwords in URLs are never shown.
"""


def reference() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, *_commands()]).rstrip() + "\n"


def _commands() -> Iterator[str]:
    contexts = list(_below(click.Context(cli, info_name="permission-ledger", **cli.context_settings)))
    shared = _shared(contexts)
    yield "## Shared options\n"
    yield "A command names which of these it takes, and explains only what is its own.\n"
    yield from _option_table(shared)
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


def _shared(contexts: list[click.Context]) -> list[WrittenOption]:
    """Return the options with the same words in many commands, the most common first; one for each name."""
    count = Counter(option for context in contexts for option in _options(context))
    common = [option for option, times in count.most_common() if times >= SHARED_BY]
    return list({_name(option): option for option in reversed(common)}.values())[::-1]


def _options(context: click.Context) -> list[WrittenOption]:
    """Return the options of a command as its help writes them, each with its meaning."""
    return [record for param in context.command.params if (record := param.get_help_record(context)) and record[1]]


def _name(option: WrittenOption) -> str:
    return option[0].split(" ")[0]


def _option_table(options: list[WrittenOption]) -> Iterator[str]:
    if options:
        yield "| option | |"
        yield "|---|---|"
        yield from (f"| `{_cell(written)}` | {_cell(meaning)} |" for written, meaning in options)
        yield ""


def _command(context: click.Context, shared: list[WrittenOption]) -> Iterator[str]:
    command = context.command
    yield f"### {context.command_path.removeprefix('permission-ledger ')}\n"
    yield f"```\n{' '.join(command.get_usage(context).removeprefix('Usage: ').split())}\n```\n"
    if command.help:
        yield inspect.cleandoc(command.help) + "\n"
    options = _options(context)
    yield from _option_table([option for option in options if option not in shared])
    if names := [f"`{_name(option)}`" for option in options if option in shared]:
        yield f"Shared: {', '.join(names)}.\n"
    if isinstance(command, DocumentedCommand) and command.examples:
        yield "\n".join(["```sh", *command.examples, "```\n"])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")

"""`docs/reference/cli.md` from the commands themselves: `python -m workers.cli.reference > docs/reference/cli.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby

import click

from workers.cli import EPILOG, cli
from workers.cli.options import DocumentedCommand
from workers.cli.output import MEANINGS, WORST_FIRST

_HEAD = f"""# Command line

Made from the commands' own help by `python -m workers.cli.reference`; a test keeps it current.

`permission-ledger COMMAND --help` says the same on a terminal. {EPILOG}

- Data goes to stdout, talk to stderr. `--json` and `--url` stand after the command's name; with `--json` each line of
  stdout is one JSON object, and an error is one JSON object on stderr: `code`, `error`, `request_id`, `session`,
  `reasons`, `agent`, what else the error knows, and `hint` when there is a way out; a warning before it is
  `{{"warning": text}}`. `ask` and `reply` print their
  object on stdout however the request ended; a `reply` that came too late prints the outcome that stands, with the
  `code` of its own refusal. A `reply` to several requests prints one object each, and its exit code is the worst of
  theirs: {", ".join(str(code.value) for code in WORST_FIRST)}, in this order.
- What agents and people wrote is shown with every control, invisible or direction-changing character escaped; colour
  and tables appear on a terminal only, and `NO_COLOR` is respected.
- `PERMISSION_LEDGER_DEBUG=1` shows the traceback of an error in this program. Passwords in URLs are never shown.
"""


def reference() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, *_exit_codes(), *_commands()]).rstrip() + "\n"


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield "| code | meaning |"
    yield "|---|---|"
    for code, meaning in MEANINGS.items():
        yield f"| {code.value} | {meaning} |"
    yield ""


def _commands() -> Iterator[str]:
    context = click.Context(cli, info_name="permission-ledger", **cli.context_settings)
    for section, entries in groupby(cli.table.items(), key=lambda entry: entry[1].section):
        yield f"## {section}\n"
        for name, _listed in entries:
            command = cli.get_command(context, name)
            assert command is not None, "it is listed"
            yield from _command(command, name, context)


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"### {context.command_path.removeprefix('permission-ledger ')}\n"
    yield f"```\n{' '.join(command.get_usage(context).removeprefix('Usage: ').split())}\n```\n"
    if command.help:
        yield inspect.cleandoc(command.help) + "\n"
    options = [record for param in command.params if (record := param.get_help_record(context)) and record[1]]
    if options:
        yield "| option | |"
        yield "|---|---|"
        yield from (f"| `{_cell(written)}` | {_cell(meaning)} |" for written, meaning in options)
        yield ""
    if isinstance(command, DocumentedCommand) and command.examples:
        yield "\n".join(["```sh", *command.examples, "```\n"])
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None, f"`{inner}` is listed but cannot be found"
            yield from _command(found, inner, context)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")

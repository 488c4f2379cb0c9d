"""The program: groups that import a command when it is used, and the frame in which every failure is one clear message.

A group has its commands' names and one line of help each. No failure is a traceback; each has an exit code.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from workers.cli.output import Exit, silence_stdout, talk, talk_json
from workers.presentation.text import visible


class ListedCommand(NamedTuple):
    """A command that is not imported yet: `module:attribute`, its line of help, and its section."""

    target: str
    short_help: str
    section: str


class LazyGroup(click.Group):
    """A group with a table of commands; click's own `commands` stays empty."""

    def __init__(self, table: Mapping[str, tuple[str, str, str]], **settings: Any) -> None:
        super().__init__(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, **settings)
        self.table = {name: ListedCommand(*one) for name, one in table.items()}
        self.params.append(
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_version,
                help="Show the version.",
            )
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        listed = self.table.get(cmd_name)
        if listed is None:
            return None
        module, _, attribute = listed.target.partition(":")
        with _collector_paused():
            command: click.Command = getattr(import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names of commands, which the table has, and options."""
        found = [
            CompletionItem(name, help=one.short_help) for name, one in self.table.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.table and not name.startswith("-"):
            raise click.UsageError(f"there is no command `{name}`{self._meant(name)}", ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, name: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and rarely needed

        near = get_close_matches(name.lower(), self.table, n=3, cutoff=0.5)
        return f"; did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, entries in groupby(self.table.items(), key=lambda entry: entry[1].section):
            with formatter.section(section):
                formatter.write_dl([(name, listed.short_help) for name, listed in entries])


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Import without the garbage collector: it would walk over modules again and again, which are never garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow to import, and rarely needed

    try:
        number = version("permission-ledger")
    except PackageNotFoundError:
        number = "(a checkout that is not installed)"
    click.echo(f"permission-ledger {number}")
    ctx.exit()


DEBUG = "PERMISSION_LEDGER_DEBUG"


def run_program(group: click.Group) -> int:
    """Run the command that `sys.argv` names, and return its exit code."""
    # Python looks for garbage once more at the end, which takes as long as all that a short command does itself.
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # no output fails on a character
    try:
        code = _run(group)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        return Exit.CLOSED_PIPE
    return code


def _run(group: click.Group) -> int:
    try:
        code = group.main(prog_name="permission-ledger", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt) as ended:
        if isinstance(ended, click.Abort):
            click.echo(err=True)  # the question stands on the line
        return Exit.INTERRUPTED
    except click.ClickException as error:
        return _tell_usage(error)
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as error:
        return _tell_missing(error)
    except Exception as error:  # noqa: BLE001 - the last frame: a person is told in a line
        return _tell_fault(error)
    return code if isinstance(code, int) else Exit.DONE


def _tell_usage(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return Exit.USAGE
    context = error.ctx if isinstance(error, click.UsageError) else None
    # Click's message in the style of our errors: lower-case, without a full stop, on one line.
    said = " ".join(error.format_message().split()).removesuffix(".")
    message = said[:1].lower() + said[1:]
    hint = f"{context.command_path} --help" if context else getattr(error, "hint", None)
    code = Exit.USAGE if isinstance(error, click.UsageError) else Exit.BAD_INPUT
    if "--json" in sys.argv:
        talk_json({**_members(getattr(error, "code", "USAGE"), message), "hint": hint})
        return code
    if context is not None:
        click.echo(visible(context.command.get_usage(context).replace("\n", " ")), err=True)
    talk(f"error: {message}")
    if hint:
        talk(f"hint: {hint}")
    return code


def _members(code: str, text: str) -> dict[str, object]:
    """Return the members of every ledger error; its own class is too slow to import for bridges."""
    return {"code": code, "error": text, "request_id": None, "session": None, "reasons": [], "agent": "continue"}


def _tell_missing(error: ModuleNotFoundError) -> int:
    from ledger.core.extras import missing_extra  # noqa: PLC0415 - slow to import, and rarely needed
    from workers.cli.base import tell  # noqa: PLC0415 - the same

    missing = missing_extra(error)
    return _tell_fault(error) if missing is None else tell(missing, as_json="--json" in sys.argv)


def _tell_fault(error: Exception) -> int:
    text = f"this should not have happened: {str(error) or 'no message'}"
    if "--json" in sys.argv:
        talk_json(_members("LEDGER", text))
    else:
        talk(f"error: {text}")
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    elif "--json" not in sys.argv:
        talk(f"hint: report it on the issue tracker of permission-ledger, with what {DEBUG}=1 shows")
    return Exit.OUR_FAULT

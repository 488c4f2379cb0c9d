"""A group that has its commands' names and one line of help each, and imports a command when it is used."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class ListedCommand(NamedTuple):
    """A command that is not imported yet: `module:attribute`, its line of help, and its section."""

    target: str
    short_help: str
    section: str


class LazyGroup(click.Group):
    """A group with a table of commands; click's own `commands` stays empty."""

    def __init__(self, table: Mapping[str, ListedCommand], **settings: Any) -> None:
        super().__init__(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, **settings)
        self.table = table
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

    def is_present(self, name: str) -> bool:
        """Return whether a listed command is part of this version."""
        module, _, attribute = self.table[name].target.partition(":")
        return find_spec(module) is not None and hasattr(import_module(module), attribute)

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

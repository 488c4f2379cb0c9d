"""What all commands share: options, help with examples, a ledger to work on, and errors told as they should be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any

import click

from ledger import Ledger
from ledger.client import default_actor_name
from ledger.errors import LedgerError
from ledger.events import Actor
from workers.cli.exits import Exit
from workers.cli.failures import tell
from workers.cli.output import Output, talk

LOCAL = "local"
"""The kind of actor of whoever types a command on a machine that reaches the server itself."""

Run = Callable[..., int | None]


class LedgerCommand(click.Command):
    """A command whose help ends in examples, and whose ledger errors become a message and an exit code."""

    def __init__(self, name: str | None, *, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(name, **settings)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
        except LedgerError as error:
            return tell(error, as_json=bool(ctx.params.get("as_json")))
        except BaseExceptionGroup as group:
            inside = _ledger_error_in(group)
            if inside is None:
                raise
            return tell(inside, as_json=bool(ctx.params.get("as_json")))


def _ledger_error_in(group: BaseExceptionGroup[BaseException]) -> LedgerError | None:
    """What tasks that ran together failed with, when it was the ledger's doing alone."""
    ours, others = group.split(LedgerError)
    if others is not None:
        return None
    found: BaseException | None = ours
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found if isinstance(found, LedgerError) else None


def command(
    name: str | None = None, *, examples: Sequence[str], with_json: bool = True, **settings: Any
) -> Callable[[Run], LedgerCommand]:
    """Make a function a command with `--url` (as `url`) and `--json` (as `as_json`); its int is the exit code.

    The first paragraph of its docstring is the help. Every example must parse; a test sees to that.
    """

    def decorate(function: Run) -> LedgerCommand:
        options = [json_option] if with_json else []
        for option in (*options, url_option):
            function = option(function)
        return click.command(name, cls=LedgerCommand, examples=examples, **settings)(function)

    return decorate


url_option = click.option(
    "--url",
    metavar="URL",
    help="The ledger's server (default: PERMISSION_LEDGER_URL, else the embedded server of the data folder).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")


def with_ledger(function: Callable[..., Awaitable[int | None]]) -> Run:
    """Run a coroutine function as `function(ledger, output, **options)`, the ledger open at `--url`."""

    @wraps(function)
    def run(*, url: str | None, as_json: bool = False, **options: Any) -> int | None:
        async def with_open_ledger() -> int | None:
            async with Ledger.connect(url) as ledger:
                return await function(ledger, Output(as_json=as_json), **options)

        return run_async(with_open_ledger)

    return run


def run_async(main: Callable[[], Awaitable[int | None]]) -> int | None:
    """Run a coroutine function in a loop of its own, with what the ledger logs told on stderr."""
    tell_logs()

    async def awaited() -> int | None:
        return await main()

    return asyncio.run(awaited())


def tell_logs(level: int = logging.WARNING) -> None:
    """From now on, what is logged at this level or above is a line on stderr."""
    root = logging.getLogger()
    if not any(isinstance(handler, _Talking) for handler in root.handlers):
        root.addHandler(_Talking())
    root.setLevel(level)


class _Talking(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        talk(f"{record.levelname.lower()}: {record.getMessage()}")


def local_actor(name: str | None = None) -> Actor:
    """Who typed the command: `user@host` unless `--as` says otherwise."""
    return Actor(LOCAL, name or default_actor_name())

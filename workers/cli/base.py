"""Shared options and error handling of commands."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any

import click

from ledger.core.errors import LedgerError
from ledger.core.events import Actor
from ledger.core.requests import check_name
from workers.cli.documented import DocumentedCommand
from workers.cli.exits import Exit
from workers.cli.failures import tell
from workers.cli.ids import complete_ids
from workers.cli.output import CommandOutput, talk, talk_json
from workers.runtime.logs import CONNECTION

LOCAL = "local"
"""The kind of actor for commands on a machine that reaches the server itself."""

COLLECTOR_SECONDS = 1.0
"""The time before the garbage collector begins: it takes a tenth of a short command, and finds nothing."""

Run = Callable[..., int | None]


class LedgerCommand(DocumentedCommand):
    """A command whose ledger errors become a message and an exit code."""

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
    """Return the error of a task group if all of its errors are the ledger's."""
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

    The first paragraph of its docstring is the help. Every example must parse, which a test checks.
    """

    def decorate(function: Run) -> LedgerCommand:
        made = click.command(name, cls=LedgerCommand, examples=examples, **settings)(function)
        # Added here, they stand after the command's own options in the help.
        made.params += [*([json_option()] if with_json else []), url_option()]
        complete_ids(made)
        return made

    return decorate


def url_option() -> click.Option:
    text = "The ledger's server (default: PERMISSION_LEDGER_URL, else the embedded server of the data folder)."
    return click.Option(["--url"], metavar="URL", help=text)


def json_option() -> click.Option:
    return click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object a line.")


def with_ledger(function: Callable[..., Awaitable[int | None]]) -> Run:
    """Run a coroutine function as `function(ledger, output, **options)`, the ledger open at `--url`.

    It does not ask, so that no installed decider is loaded.
    """
    return _run_with_ledger(function, asks=False)


def with_asking_ledger(function: Callable[..., Awaitable[int | None]]) -> Run:
    """As `with_ledger`, for a function that asks: the deciders of installed distributions are heard."""
    return _run_with_ledger(function, asks=True)


def _run_with_ledger(function: Callable[..., Awaitable[int | None]], *, asks: bool) -> Run:
    @wraps(function)
    def run(*, url: str | None, as_json: bool = False, **options: Any) -> int | None:
        async def with_open_ledger() -> int | None:
            from ledger import Ledger  # noqa: PLC0415 - help and errors of usage need none

            async with Ledger.connect(url, entry_points=asks) as ledger:
                return await function(ledger, CommandOutput(as_json=as_json), **options)

        return run_async(with_open_ledger, as_json=as_json)

    return run


def checked(check: Callable[..., object]) -> Callable[[Run], Run]:
    """Call `check(**options)` first: invalid options are reported before a server is reached or started."""

    def decorate(function: Run) -> Run:
        @wraps(function)
        def run(**options: Any) -> int | None:
            check(**options)
            return function(**options)

        return run

    return decorate


def run_async(main: Callable[[], Awaitable[int | None]], *, as_json: bool = False) -> int | None:
    """Run a coroutine function in an event loop of its own, with the ledger's log on stderr."""
    tell_logs(as_json=as_json)

    async def awaited() -> int | None:
        asyncio.get_running_loop().call_later(COLLECTOR_SECONDS, gc.enable)
        return await main()

    gc.disable()
    try:
        return asyncio.run(awaited())
    finally:
        gc.enable()


def tell_logs(*, as_json: bool = False) -> None:
    """Print log records from level warning as lines on stderr, in JSON as `{"warning": text}`."""
    root = logging.getLogger()
    handler = next((one for one in root.handlers if isinstance(one, _Talking)), None)
    if handler is None:
        handler = _Talking()
        root.addHandler(handler)
    handler.as_json = as_json
    root.setLevel(logging.WARNING)
    # A command that waits for an answer retries by itself; a worker's log holds the outage.
    logging.getLogger(CONNECTION).setLevel(logging.ERROR)


class _Talking(logging.Handler):
    as_json = False

    def emit(self, record: logging.LogRecord) -> None:
        level, text = record.levelname.lower(), record.getMessage()
        if self.as_json:
            talk_json({level: text})
        else:
            talk(f"{level}: {text}")


def local_actor(name: str | None = None) -> Actor:
    """Return the actor who typed the command: `user@host` unless `--as` is given. Raises InputError."""
    from ledger.client.machine import default_actor_name  # noqa: PLC0415 - as above

    return Actor(LOCAL, default_actor_name() if name is None else check_name(name, "name (--as)"))


def require_reason(*, reason: str | None, lists: bool, **_others: object) -> None:
    """Raise UsageError for a change without a reason; `lists` changes nothing. For `checked`."""
    if not (reason or lists):
        raise click.UsageError("give the reason with --reason TEXT")

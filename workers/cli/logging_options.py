"""`--log-level` and `--log-format` of long-running commands."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import click

from ledger.core.errors import LedgerError
from workers.cli.base import run_async
from workers.cli.failures import exit_of
from workers.runtime import logs

log = logging.getLogger(__name__)


class Logs(NamedTuple):
    """The two options as typed."""

    level: str
    form: str


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options as the arguments `log_level` and `log_format`."""
    level = click.option(
        "--log-level", type=click.Choice(logs.LEVELS), default="warning", show_default=True, help="On stderr."
    )
    form = click.option(
        "--log-format",
        type=click.Choice(logs.FORMATS),
        default="text",
        envvar=logs.FORMAT_VARIABLE,
        help=f"One line an event, either way (default: {logs.FORMAT_VARIABLE}, else text).",
    )
    return level(form(function))


def run_logged(worker: str, main: Callable[[], Awaitable[None]], how: Logs, *, parent: int | None = None) -> int | None:
    """Run a long-running command with its log set up, and return its exit code.

    Away from a terminal, in JSON and below `up`, the error that ends it is a line of the log.
    """

    async def logged() -> int | None:
        logs.set_up(worker, how.level, how.form)
        try:
            await main()
        except LedgerError as error:
            if how.form == "text" and parent is None:
                raise
            log.error("%s", error.text)  # noqa: TRY400 - an error that a person is told has no traceback
            return exit_of(error)
        return None

    return run_async(logged)

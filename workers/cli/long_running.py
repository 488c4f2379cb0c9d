"""`worker`, `up` and `demo`: long-running commands, and a short demonstration of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ledger import InputError
from ledger.core.errors import LedgerError
from workers.cli.base import command, run_async
from workers.cli.deadlines import with_deadlines, with_run_limits
from workers.cli.failures import exit_of
from workers.cli.inputs import seconds
from workers.cli.output import CommandOutput
from workers.cli.shared_options import index_file_option
from workers.runtime import logs
from workers.runtime.process import Work, serve

if TYPE_CHECKING:
    from ledger import Ledger

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


@click.group(short_help="Run one worker: expiry, projector, notifier and others.")
def worker() -> None:
    """Run one worker until Ctrl-C or SIGTERM. Any number of each may run, on any machine; any may be killed."""


_parent_option = click.option(
    "--with-parent", type=int, hidden=True, help="End when this process is not the parent any more."
)

rules_option = click.option(
    "--rules",
    multiple=True,
    metavar="[DIALECT=]FILE",
    help="The rules for agents that may not bring their own; one file a dialect (default dialect: opencode).",
)


def _worker_command(name: str, work: Work, help_text: str) -> click.Command:
    @command(
        name,
        examples=(
            f"permission-ledger worker {name}",
            f"permission-ledger worker {name} --log-level info --log-format json",
        ),
        with_json=False,
        help=help_text,
    )
    @log_options
    @_parent_option
    def run(*, url: str | None, log_level: str, log_format: str, with_parent: int | None) -> int | None:
        return _run_worker(name, work, url, Logs(log_level, log_format), with_parent)

    return run


def _run_worker(name: str, work: Work, url: str | None, logs: Logs, parent: int | None) -> int | None:
    return run_logged(name, lambda: serve(work, url, parent=parent), logs, parent=parent)


async def _expiry(ledger: Ledger, stop: asyncio.Event) -> None:
    from workers.expiry import run  # noqa: PLC0415 - the scheduler is slow to import

    await run(ledger, stop)


async def _projector(ledger: Ledger, stop: asyncio.Event) -> None:
    from workers.projector import run  # noqa: PLC0415 - as its sibling

    await run(ledger, stop)


worker.add_command(_worker_command("expiry", _expiry, "End pending requests whose deadline has passed."))
worker.add_command(_worker_command("projector", _projector, "Keep the views up to date with the streams."))


@command(
    "notifier",
    examples=(
        "permission-ledger worker notifier --config notify.toml",
        "permission-ledger worker notifier --config notify.toml --log-level info",
    ),
    with_json=False,
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar="PERMISSION_LEDGER_NOTIFY",
    required=True,
    help="The notifier's configuration (default: PERMISSION_LEDGER_NOTIFY).",
)
@log_options
@_parent_option
def notifier(*, url: str | None, config: Path, log_level: str, log_format: str, with_parent: int | None) -> int | None:
    """Tell people what waits for them while nobody is there: by ntfy, Slack, e-mail, Telegram and many more."""
    from workers.notifier.notifier import work_of  # noqa: PLC0415 - an extra, and slow to import

    return _run_worker("notifier", work_of(config), url, Logs(log_level, log_format), with_parent)


worker.add_command(notifier)


@command(
    "indexer",
    examples=(
        "permission-ledger worker indexer",
        "permission-ledger worker indexer --file ./search.sqlite --log-level info",
    ),
    with_json=False,
)
@index_file_option
@log_options
@_parent_option
def indexer(
    *, url: str | None, file: Path | None, log_level: str, log_format: str, with_parent: int | None
) -> int | None:
    """Keep an index of requests, in which `search` and the gateway find them by words, people, projects and more."""
    from workers.indexer.schema import default_file  # noqa: PLC0415 - slow to import
    from workers.indexer.worker import work_of  # noqa: PLC0415 - as above

    return _run_worker("indexer", work_of(file or default_file()), url, Logs(log_level, log_format), with_parent)


worker.add_command(indexer)


@command(
    "archiver",
    examples=(
        "permission-ledger worker archiver",
        "permission-ledger worker archiver --older-than 90d --every 6h --log-level info",
    ),
    with_json=False,
)
@click.option("--older-than", metavar="DURATION", help="Open sessions without an event for so long (default: 30d).")
@click.option("--project", metavar="PROJECT", help="Only the sessions of this project.")
@click.option("--every", metavar="DURATION", default="1h", show_default=True, help="The interval between two rounds.")
@click.option("--when-memory-above", metavar="SIZE", help="Only while a server uses more memory: 512MB, 2GB.")
@log_options
@_parent_option
def archiver(
    *,
    url: str | None,
    older_than: str | None,
    project: str | None,
    every: str,
    when_memory_above: str | None,
    log_level: str,
    log_format: str,
    with_parent: int | None,
) -> int | None:
    """Seal sessions that are closed or idle, at intervals, as `archive` does; its --to has set the place."""
    from workers.archiver import ArchiverPace, work_of  # noqa: PLC0415 - the scheduler is slow to import
    from workers.cli.archive import memory_bound, seal_rule  # noqa: PLC0415 - as above

    interval = seconds(every, "--every")
    if interval is None:
        raise InputError("--every is a duration like `1h`")
    pace = ArchiverPace(every_seconds=interval, above_bytes=memory_bound(when_memory_above))
    work = work_of(seal_rule(older_than, project), pace)
    return _run_worker("archiver", work, url, Logs(log_level, log_format), with_parent)


worker.add_command(archiver)


@command(
    examples=(
        "permission-ledger up",
        "permission-ledger up --home ./ledger-data",
        "permission-ledger up --notify notify.toml",
        "permission-ledger up --rules opencode.json --unattended 8h",
    ),
    with_json=False,
)
@click.option(
    "--home", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER", help="The data folder to use."
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="The gateway's address: HOST:PORT, or `none` for no gateway (default: 127.0.0.1:8420).",
)
@click.option(
    "--host",
    "hosts",
    metavar="NAME|URL",
    multiple=True,
    help="Another name by which the gateway is called; as a URL, also by browsers. Repeatable.",
)
@click.option(
    "--notify",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar="PERMISSION_LEDGER_NOTIFY",
    help="Run a notifier too, with this configuration (default: PERMISSION_LEDGER_NOTIFY).",
)
@rules_option
@with_deadlines
@with_run_limits
@log_options
def up(*, url: str | None, home: Path | None, **said: Any) -> int | None:
    """Run everything that a ledger needs until Ctrl-C: a server, an expiry worker, a projector and the gateway.

    The server is the embedded one of the data folder, unless --url names another. Workers that die are started again.
    Rules and deadlines are the gateway's, for sessions that state none.
    """
    from workers.runtime.place import LedgerPlace  # noqa: PLC0415 - only this command needs it
    from workers.up import UpOptions  # noqa: PLC0415
    from workers.up import up as run_up  # noqa: PLC0415

    place, wanted = LedgerPlace(url, home), UpOptions(**said)
    return run_logged(
        "up", lambda: run_up(place, CommandOutput().line, wanted), Logs(wanted.log_level, wanted.log_format)
    )


@command(
    examples=("permission-ledger demo", "permission-ledger demo --keep ./demo-ledger"),
    with_json=False,
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Use this data folder and keep it.",
)
def demo(*, url: str | None, keep: Path | None) -> None:
    """Play a recorded agent's session with a person answering, and tell it from the log.

    Agent, person, expiry worker and projector are processes of their own. It takes a few seconds and leaves nothing
    behind, unless --keep names a folder or --url a server to play on.
    """
    from workers.demo.show import show  # noqa: PLC0415 - only people need the colours

    run_async(lambda: show(url, keep))

"""`worker`, `serve` and `demo`, which run until they are stopped; and `server-user`, which a server needs first."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from ledger import InputError
from ledger.core.errors import LedgerError
from workers.cli.base import command, exit_of, run_async, seconds
from workers.cli.options import adding, index_file_option, with_gateway
from workers.cli.output import CommandOutput, talk
from workers.runtime import logs
from workers.runtime.process import Work
from workers.runtime.process import serve as serve_work

log = logging.getLogger(__name__)


with_log: Final = adding(
    click.option(
        "--log-level", type=click.Choice(logs.LEVELS), default="warning", show_default=True, help="On stderr."
    ),
    click.option(
        "--log-format",
        type=click.Choice(logs.FORMATS),
        default="text",
        envvar=logs.FORMAT_VARIABLE,
        help=f"One line an event, either way (default: {logs.FORMAT_VARIABLE}, else text).",
    ),
)


def run_logged(
    worker: str, main: Callable[[], Awaitable[None]], level: str, form: str, *, parent: int | None = None
) -> int | None:
    """Run a long-running command with its log set up, and return its exit code.

    Away from a terminal, in JSON and below `up`, the error that ends it is a line of the log.
    """

    async def logged() -> int | None:
        logs.set_up(worker, level, form)
        try:
            await main()
        except LedgerError as error:
            if form == "text" and parent is None:
                raise
            log.error("%s", error.text)  # noqa: TRY400 - an error that a person is told has no traceback
            return exit_of(error)
        return None

    return run_async(logged)


@click.group(short_help="Run one worker: expiry (TTL scheduler), projector, indexer and others.")
def worker() -> None:
    """Run one worker until Ctrl-C or SIGTERM. Any number of each may run, on any machine; any may be killed."""


_parent_option = click.option(
    "--with-parent", type=int, hidden=True, help="End when this process is not the parent any more."
)


def _worker_command(name: str, *examples: str) -> Callable[[Callable[..., Work]], None]:
    """Make a function that returns the work of a worker a command; its docstring is the help."""

    def decorate(work_of: Callable[..., Work]) -> None:
        @command(
            *(f"permission-ledger worker {name}{example}" for example in examples),
            name=name,
            with_json=False,
            help=work_of.__doc__,
        )
        @with_log
        @_parent_option
        def run(*, url: str | None, log_level: str, log_format: str, with_parent: int | None, **own: Any) -> int | None:
            work = work_of(**own)
            serve = partial(serve_work, work, url, parent=with_parent)
            return run_logged(name, serve, log_level, log_format, parent=with_parent)

        # The worker's own options stand first.
        run.params[:0] = reversed(getattr(work_of, "__click_params__", []))
        worker.add_command(run)

    return decorate


@_worker_command("expiry", "", " --log-level info --log-format json")
def _expiry() -> Work:
    """End pending requests whose deadline (TTL) has passed: the scheduler of timeouts."""
    from workers.expiry import run  # noqa: PLC0415 - the scheduler is slow to import

    return run


@_worker_command("projector", "", " --log-level info --log-format json")
def _projector() -> Work:
    """Keep the views (read models) up to date with the streams: lists, counts, metrics."""
    from workers.projector import run  # noqa: PLC0415 - as its sibling

    return run


@_worker_command("notifier", " --config notify.toml", " --config notify.toml --log-level info")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar="PERMISSION_LEDGER_NOTIFY",
    required=True,
    help="The notifier's configuration (default: PERMISSION_LEDGER_NOTIFY).",
)
def _notifier(*, config: Path) -> Work:
    """Tell people what waits for them while nobody is there: by ntfy, Slack, e-mail, Telegram and many more."""
    from workers.notifier.notifier import work_of  # noqa: PLC0415 - an extra, and slow to import

    return work_of(config)


@_worker_command("indexer", "", " --file ./search.sqlite --log-level info")
@index_file_option
@click.option("--standby", is_flag=True, help="While another indexer writes the file, wait, and take over after it.")
def _indexer(*, file: Path | None, standby: bool) -> Work:
    """Keep an index of requests, in which `search` and the gateway find them by words, people, projects and more."""
    from workers.indexer.worker import work_of  # noqa: PLC0415 - slow to import

    return work_of(file, waits=standby)


@_worker_command("archiver", "", " --older-than 90d --every 6h --log-level info")
@click.option("--to", metavar="URL", help="Set the archive of this ledger first, as `archive --to` does.")
@click.option("--older-than", metavar="DURATION", help="Open sessions without an event for so long (default: 30d).")
@click.option("--project", metavar="PROJECT", help="Only the sessions of this project.")
@click.option("--every", metavar="DURATION", default="1h", show_default=True, help="The interval between two rounds.")
@click.option("--when-memory-above", metavar="SIZE", help="Only while a server uses more memory: 512MB, 2GB.")
def _archiver(
    *, to: str | None, older_than: str | None, project: str | None, every: str, when_memory_above: str | None
) -> Work:
    """Seal sessions that are closed or idle, at intervals, as `archive` does; its --to may have set the place."""
    from workers.archiver import ArchiverPace, work_of  # noqa: PLC0415 - the scheduler is slow to import
    from workers.cli.archive import memory_bound, seal_rule  # noqa: PLC0415 - as above

    interval = seconds(every, "--every")
    if interval is None:
        raise InputError("--every is a duration like `1h`")
    pace = ArchiverPace(every_seconds=interval, above_bytes=memory_bound(when_memory_above))
    return work_of(seal_rule(older_than, project), pace, to)


@command("permission-ledger demo", "permission-ledger demo --keep ./demo-ledger", with_json=False)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Use this data folder and keep it.",
)
def demo(*, url: str | None, keep: Path | None) -> None:
    """Play a recorded agent's session with a person answering, and tell it from the log.

    It takes a few seconds and leaves nothing behind, unless --keep names a folder or --url a server to play on.
    """
    from workers.demo.show import show  # noqa: PLC0415 - only people need the colours

    run_async(lambda: show(url, keep))


EXAMPLE = "permission-ledger server-user --server redis://redis:6379/0 --url-file secret/url --acl-file acl/users.acl"
_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@command(EXAMPLE, name="server-user", with_url=False)
@click.option("--server", metavar="URL", required=True, help="The server's URL for the ledger's processes.")
@click.option("--url-file", type=_FILE, required=True, help="For PERMISSION_LEDGER_URL_FILE; kept if it exists.")
@click.option("--acl-file", type=_FILE, required=True, help="For the server's `aclfile`; written anew each time.")
@click.option(
    "--archiver-url-file", type=_FILE, help="Make a second user, who alone may seal sessions: for `worker archiver`."
)
def server_user(*, server: str, url_file: Path, acl_file: Path, archiver_url_file: Path | None, as_json: bool) -> None:
    """Make a password for the ledger's user on a server, with the least rights that the ledger needs.

    The URL with the password goes into one file, its SHA-256 and the rights into the other. Nobody can log in as the
    server's default user.
    """
    from workers.runtime.server_user import write_server_user  # noqa: PLC0415 - slow to import

    write_server_user(server, url_file, acl_file, archiver_url_file)
    if as_json:
        CommandOutput(as_json=True).row({"url_file": str(url_file), "acl_file": str(acl_file)})
    talk(f"{url_file}: the ledger's URL; {acl_file}: its user on the server")


@command(
    "permission-ledger serve",
    "permission-ledger serve --rules opencode.json --rules claude=.claude/settings.json",
    "permission-ledger serve --listen 0.0.0.0:8420 --public-url https://permissions.example.com",
    "permission-ledger serve --listen unix:/run/permission-ledger/gateway.sock",
    with_json=False,
)
@with_gateway
@with_log
@click.option("--inherit", "inherited", type=int, multiple=True, hidden=True, help="Listen on this open socket.")
@click.option(
    "--with-parent", "parent", type=int, hidden=True, help="End when this process is not the parent any more."
)
def serve(
    *, parent: int | None, inherited: tuple[int, ...], log_level: str, log_format: str, url: str | None, **typed: Any
) -> int | None:
    """Serve the ledger over HTTP: an inbox for people, an API for agents. Any number may run on one ledger.

    Prints the address and a link that signs one browser in, once. The deadlines are those of sessions that state none.
    """
    from workers.gateway.command import read_options, serve_until_stopped  # noqa: PLC0415 - slow to import

    wanted = read_options(url=url, parent=parent, inherited=inherited, **typed)
    serve = partial(serve_until_stopped, wanted, CommandOutput().line)
    return run_logged("gateway", serve, log_level, log_format, parent=wanted.parent)

"""`up`, `down` and `status`: everything that a ledger needs, at a terminal, in the background or as a service."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args

import click

from ledger.core.errors import SetupError
from ledger.core.times import SECOND_MS, format_duration, format_time
from ledger.stores.embedded.folder import log_tail
from workers.cli.base import command, run_async
from workers.cli.config_files import path_in
from workers.cli.long_running import run_logged, with_log
from workers.cli.options import with_gateway
from workers.cli.output import CommandOutput, Exit, talk
from workers.runtime import background, service
from workers.runtime.background import LOG, Starter, StartError, UpState
from workers.runtime.place import LedgerPlace

_with_home: Final = click.option(
    "--home", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER", help="The data folder to use."
)
_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_OWN: Final = ("notify", "archive", "archive_older_than", "started_by", "log_level", "log_format")
"""The parameters of `up` that are not the gateway's."""


@command(
    "permission-ledger up",
    "permission-ledger up --detach",
    "permission-ledger up --service --host https://laptop.example.ts.net",
    "permission-ledger up --notify notify.toml --archive ./archive",
    "permission-ledger up --url redis://ledger.internal --listen 0.0.0.0:8420 --rules opencode.json --oidc oidc.toml",
    with_json=False,
)
@click.option("--detach", is_flag=True, help="Start it in the background, and return when it is ready.")
@click.option("--service", "as_service", is_flag=True, help="Start it now and after each reboot: systemd or launchd.")
@_with_home
@click.option(
    "--notify",
    type=_FILE,
    metavar="FILE",
    envvar="PERMISSION_LEDGER_NOTIFY",
    help="Run a notifier too, with this configuration (default: PERMISSION_LEDGER_NOTIFY).",
)
@click.option(
    "--archive",
    metavar="URL",
    help="Seal closed and idle sessions into this archive: a folder, or s3://, gs://, az://.",
)
@click.option("--archive-older-than", metavar="DURATION", help="Idle for so long (default: 30d).")
@with_gateway
@with_log
@click.option(
    "--started-by", type=click.Choice(get_args(Starter)), default="terminal", hidden=True, help="What starts it."
)
def up(*, url: str | None, home: Path | None, detach: bool, as_service: bool, **typed: Any) -> int | None:
    """Run everything that a ledger needs until Ctrl-C: server, inbox, deadlines (TTL), views and search.

    Workers that die are started again. Rules and deadlines are those of sessions that state none; `--listen none` runs no
    gateway. --detach and --service go on after the terminal is closed: `status` shows it, `down` ends it.
    """
    place = LedgerPlace(url, home)
    if detach and as_service:
        raise click.UsageError("give --detach or --service, not both")
    if detach or as_service:
        words = _words(up, _absolute(typed))
        return run_async(lambda: _in_background(place, words, as_service=as_service))
    from workers.up import UpOptions  # noqa: PLC0415 - only this command needs it
    from workers.up import up as run_up  # noqa: PLC0415

    own = {name: typed.pop(name) for name in _OWN}
    wanted = UpOptions(typed=typed, words=_words(_gateway, typed), **own)
    say = CommandOutput().line if wanted.started_by == "terminal" else _say_nothing
    return run_logged("up", lambda: run_up(place, say, wanted), wanted.log_level, wanted.log_format)


@click.command()
@with_gateway
def _gateway(**_typed: Any) -> None:
    """Hold the options of a gateway, for `_words`."""


def _say_nothing(_line: str) -> None:
    """Print nothing: a link that signs in does not belong into a log."""


def _words(of: click.Command, typed: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line with these values of a command's options."""
    words = []
    for option in of.params:
        value = typed.get(str(option.name))
        for one in value if isinstance(value, tuple) else [value]:
            if one is True:
                words.append(option.opts[0])
            elif one is not None and one is not False and not getattr(option, "hidden", False):
                words += [option.opts[0], str(one)]
    return words


def _absolute(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with paths that hold in any working folder."""
    here = Path.cwd()
    texts = {"rules": lambda text: "".join(path_in(here, text)), "addresses": _absolute_socket}
    found = dict(typed)
    for name, value in typed.items():
        if isinstance(value, Path):
            found[name] = value.absolute()
        elif name in texts:
            found[name] = tuple(map(texts[name], value))
    if typed["archive"] is not None and "://" not in typed["archive"]:
        found["archive"] = str(here / typed["archive"])
    return found


def _absolute_socket(text: str) -> str:
    return f"unix:{Path(text.removeprefix('unix:')).absolute()}" if text.startswith("unix:") else text


async def _in_background(place: LedgerPlace, words: list[str], *, as_service: bool) -> int:
    folder = place.data_folder
    state = await background.wait_ready(folder)
    if state is not None and not as_service and state.server != place.described():
        text = f"an `up` runs already with another server: `{state.server}`"
        raise SetupError(text, hint="`permission-ledger down` ends it")
    if state is not None and not (as_service and state.started_by != "terminal"):
        code = await _tell_up(place, state, "permission-ledger is up already")
        talk("hint: `permission-ledger down` ends it, for other options")
        return Exit.BAD_INPUT if as_service else code
    try:
        starting = _start_service(place, words) if as_service else background.start(folder, words, place.environment)
        return await _tell_up(place, await starting, "permission-ledger is up")
    except StartError as error:
        for line in error.log:
            talk(line)
        talk(f"permission-ledger did not start; its log is `{folder / LOG}`")
        return error.exit_code


async def _start_service(place: LedgerPlace, words: list[str]) -> UpState:
    folder = place.data_folder
    path = service.write(place, words)
    talk(f"{path}: written")
    await background.stop(folder)
    service.start(path)
    until = time.monotonic() + COMING_SECONDS
    state = await background.wait_ready(folder, lambda: time.monotonic() < until)
    if state is None:
        raise StartError(Exit.UNREACHABLE, log_tail(folder / LOG))
    return state


async def _tell_up(place: LedgerPlace, state: UpState, first: str) -> Exit:
    output, command_line = CommandOutput(), place.command()
    output.line(f"{first}, {_STARTED[state.started_by]}")
    for address in state.addresses:
        if address != f"unix:{place.folder}/gateway.sock":
            output.line(f"  address  {address}")
    output.line(f"  log      {_log_of(place, state)}")
    if state.addresses:
        output.line(f"  inbox    {command_line} inbox --open")
    output.line(f"  stop     {command_line} down")
    if state.started_by == "service":
        talk(service.LINGER)
    why = await background.why_not_ready(place.data_folder, state)
    if why is not None:
        talk(f"warning: it is not ready: {why}")
    return Exit.DONE if why is None else Exit.FINDINGS


COMING_SECONDS: Final = 15.0
"""The time that a service manager has to start it."""

_STARTED: Final[Mapping[Starter, str]] = {
    "terminal": "at a terminal",
    "detach": "in the background",
    "service": "as a service",
}


def _log_of(place: LedgerPlace, state: UpState) -> str:
    return "its terminal" if state.started_by == "terminal" else str(place.data_folder / LOG)


@command("permission-ledger down", "permission-ledger down --service", with_json=False)
@click.option("--service", "as_service", is_flag=True, help="Remove the service too: it starts no more.")
@_with_home
def down(*, url: str | None, home: Path | None, as_service: bool) -> int | None:
    """End what `up` runs with this data folder: server, workers and gateway; what was asked and answered stays.

    A service starts again after the next reboot, unless --service removes it.
    """
    place = LedgerPlace(url, home)

    async def ended() -> None:
        if as_service:
            path = service.uninstall(place)
            talk("no service is installed" if path is None else f"{path}: removed")
        state = await background.stop(place.data_folder)
        CommandOutput().line("permission-ledger is not running" if state is None else "permission-ledger is down")
        if state is not None and service.installed() is not None:
            talk("hint: the service starts it again after a reboot; `permission-ledger down --service` removes it")

    return run_async(ended)


@command("permission-ledger status", "permission-ledger status --json")
@_with_home
def status(*, url: str | None, home: Path | None, as_json: bool) -> int | None:
    """Show what `up` runs with this data folder: since when, where, what waits, and whether it is ready.

    The exit code is 0 if it is up and ready, 8 if it does not run, and 11 if something of it is missing.
    """
    place = LedgerPlace(url, home)
    return run_async(lambda: _show_status(place, CommandOutput(as_json=as_json)), as_json=as_json)


async def _show_status(place: LedgerPlace, output: CommandOutput) -> int:
    folder, installed = place.data_folder, service.installed()
    state, unit = background.read_state(folder), None if installed is None else str(installed)
    if state is None:
        starting = background.is_up(folder)
        said = "permission-ledger is starting" if starting else "permission-ledger is not running"
        row: dict[str, Any] = {"running": starting, "ready": False, "service": unit}
        output.result(row, said, *([] if unit is None else [f"  service  {unit}"]))
        if not starting:
            output.aside({"hint": "permission-ledger up --detach"}, "hint: `permission-ledger up --detach` starts it")
        return Exit.FINDINGS if starting else Exit.UNREACHABLE
    why = await background.why_not_ready(folder, state)
    waiting = None if state.missing else await _waiting(place)
    row = {
        "running": True,
        "ready": why is None,
        "why_not": why,
        "started_by": state.started_by,
        "process": state.process,
        "since": format_time(state.since_ms),
        "server": state.server,
        "addresses": state.addresses,
        "workers": state.workers,
        "pending": waiting,
        "log": None if state.started_by == "terminal" else str(folder / LOG),
        "service": unit,
    }
    age = format_duration((time.time_ns() // 1_000_000 - state.since_ms) // SECOND_MS * SECOND_MS)
    lines = [
        f"permission-ledger is up, {_STARTED[state.started_by]}, since {format_time(state.since_ms)} ({age})",
        f"  ready    {'yes' if why is None else f'NO: {why}'}",
        *(f"  address  {address}" for address in state.addresses),
        f"  server   {state.server}",
        f"  workers  {', '.join(f'{name} {pid}' for name, pid in state.workers.items())}",
        f"  waiting  {'unknown' if waiting is None else waiting} for an answer",
        f"  log      {_log_of(place, state)}",
        *([] if unit is None else [f"  service  {unit}"]),
    ]
    output.result(row, *lines)
    return Exit.DONE if why is None else Exit.FINDINGS


async def _waiting(place: LedgerPlace) -> int | None:
    """Return the number of pending requests; None if the ledger cannot be asked."""
    from ledger import Ledger, LedgerError  # noqa: PLC0415 - help needs none
    from projections.queries import totals  # noqa: PLC0415 - as above

    try:
        async with Ledger.connect(place.url, entry_points=False) as ledger:
            return (await totals(ledger.store)).pending
    except LedgerError:
        return None

"""`run`: a command that runs once it is allowed, in front of a script's or a CI job's own."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from ledger.core.ids import check_id, new_request_id
from workers.cli.base import command, tell_logs
from workers.cli.opening import OpeningInput, WaitInput, with_opening, with_waiting
from workers.cli.output import talk
from workers.cli.running.places import DirectRun, GatewayRun, RunPlace, RunRequest, WantedCommand
from workers.cli.running.run_once import CommandRun
from workers.transport.place import ADDRESS


@command(
    examples=(
        "permission-ledger run ses_1 -- git push origin main",
        "permission-ledger run ses_1 --id deploy-42 --project shop --timeout 10m -- ./deploy.sh prod",
        "permission-ledger run ses_1 --cwd services/api -- make test",
        "permission-ledger run ses_1 --shell 'make test && git push'",
        "permission-ledger run ci --gateway --id job-7 -- terraform apply",
    )
)
@click.argument("session")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--shell", metavar="LINE", help="Run this line in bash, instead of words.")
@click.option(
    "--cwd",
    "folder",
    type=click.Path(resolve_path=True),
    metavar="DIR",
    help="The folder that the command runs in, and is judged in (default: this one).",
)
@click.option("--id", "request_id", metavar="ID", help="Your own request id; the same command again attaches to it.")
@with_opening
@with_waiting
@click.option("--gateway", is_flag=True, help=f"Ask at the gateway (default where {ADDRESS} is set, without --url).")
def run(
    *,
    url: str | None,
    as_json: bool,
    session: str,
    words: tuple[str, ...],
    shell: str | None,
    folder: str | None,
    request_id: str | None,
    no_wait: bool,
    timeout: str | None,
    gateway: bool,
    **typed: Any,
) -> int:
    """Ask whether a command may run, wait for the answer, claim it, and run exactly these words without a shell.

    The command has this one's input, output, terminal and environment, and its folder unless --cwd names one. Signals are passed on to it, and its exit
    code is that of `run`: 128 and the number of a signal that ended it, 127 if it is not found, 126 if it cannot be
    executed. All else is said on stderr, with the exit codes of this program: 3 denied, 4 rejected, 5 expired, 6 cancelled,
    7 still pending, 13 claimed by another, 14 frozen.

    With --id a run that was killed can be repeated with the same words on the same machine; it claims again. Any other
    process is refused. The end is recorded with its exit code.
    """
    if url is not None and gateway:
        raise click.UsageError("give --url or --gateway, not both")
    if folder is not None and not Path(folder).is_dir():
        raise click.UsageError(f"--cwd `{folder}` is no folder")
    opening = OpeningInput(**{name: typed[name] for name in OpeningInput._fields})
    opening.check()
    wanted = RunRequest(
        session=check_id(session, "session id"),
        request_id=new_request_id() if request_id is None else check_id(request_id, "request id"),
        command=_wanted(words, shell),
        folder=folder or str(Path.cwd()),
        opening=opening,
        wait=WaitInput.read(no_wait, timeout),
    )
    tell_logs(as_json=as_json)
    is_behind_gateway = gateway or (url is None and bool(os.environ.get(ADDRESS)))
    place: RunPlace = GatewayRun(wanted, talk) if is_behind_gateway else DirectRun(url, wanted)
    return CommandRun(place, wanted, talk, _again(wanted, gateway=gateway), is_named=request_id is not None).run()


def _wanted(words: tuple[str, ...], shell: str | None) -> WantedCommand:
    if (shell is None) == (not words):
        raise click.UsageError("give the words of a command after `--`, or --shell LINE")
    wanted = WantedCommand(words) if shell is None else WantedCommand((shell,), is_line=True)
    if not wanted.line.strip() or not wanted.words[0]:
        raise click.UsageError("the command is empty")
    return wanted


def _again(wanted: RunRequest, *, gateway: bool) -> str:
    """Return the command line that attaches to the request."""
    said = ["permission-ledger", "run", wanted.session, f"--id={wanted.request_id}"]
    said += ["--gateway"] if gateway else []
    said += [] if wanted.folder == str(Path.cwd()) else [f"--cwd={wanted.folder}"]
    said += [] if wanted.opening.agent is None else [f"--agent={wanted.opening.agent}"]
    command_words = wanted.command.words
    return shlex.join(
        [*said, f"--shell={command_words[0]}"] if wanted.command.is_line else [*said, "--", *command_words]
    )

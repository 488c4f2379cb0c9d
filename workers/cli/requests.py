"""`claim`, `finish`, `release`, `extend`, `cancel` and `close`: what happens to a request beside its answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger import Ledger
from ledger.client.results import result_of
from ledger.core.events import Actor
from ledger.core.limits import THINKING_MS
from ledger.core.questions import Runner, claim_id_of
from ledger.core.times import format_duration, format_time, format_time_or_none
from workers.cli.base import checked, command, local_actor, with_ledger
from workers.cli.description import print_result
from workers.cli.output import CommandOutput
from workers.presentation.text import json_line

if TYPE_CHECKING:
    from ledger import Ledger

_START_TIME_FIELD = 19
"""The place of a process's start time in `/proc/PID/stat`, behind its name."""

_session_option = click.option("--session", metavar="SESSION", help="The request's session, if several have its id.")
_as_option = click.option("--as", "name", metavar="NAME", help="Act as NAME (default: user@host).")
_runner_option = click.option(
    "--runner", metavar="NAME", help="The name of what runs the call (default: the process that calls this one)."
)


@command(
    "permission-ledger claim call_42 --runner job-7",
    "permission-ledger claim call_42 --session ses_1 --json",
)
@click.argument("request")
@_session_option
@_runner_option
@_as_option
@with_ledger
async def claim(
    ledger: Ledger, output: CommandOutput, *, request: str, session: str | None, runner: str | None, name: str | None
) -> None:
    """Take the right to run an allowed call, once, right before it runs.

    Everything is judged again. The same runner again succeeds; for another one the exit code is 13, with who claimed it
    and when. Run the call with the printed input, then call `finish`. `run` does all of it.
    """
    actor = local_actor(name)
    handle = await ledger.session_of(request, session)
    held = await handle.claim(request, runner=_runner(runner, actor, request), actor=actor)
    at = format_time(held.at_ms)
    row: dict[str, Any] = {"session": held.session, "request_id": held.request_id, "claim_id": held.claim_id}
    output.result(
        {**row, "runner": held.runner, "round": held.round, "at": at, "input": held.input},
        f"claimed {held.request_id} of session {held.session} for {held.runner} at {at}",
        f"  claim    {held.claim_id}",
        *([] if held.input is None else [f"  input    {json_line(held.input)}"]),
    )


@command(
    "permission-ledger finish call_42 --runner job-7",
    "permission-ledger finish call_42 --claim clm_1 --failed --output 'exit code 3'",
)
@click.argument("request")
@_session_option
@_runner_option
@click.option("--claim", "claim_id", metavar="CLAIM", help="The claim, as `claim` printed it, instead of --runner.")
@click.option("--failed", is_flag=True, help="The call failed.")
@click.option("--output", "text", metavar="TEXT", help="What it put out, kept in the log.")
@_as_option
@with_ledger
async def finish(
    ledger: Ledger,
    output: CommandOutput,
    *,
    request: str,
    session: str | None,
    runner: str | None,
    claim_id: str | None,
    failed: bool,
    text: str | None,
    name: str | None,
) -> None:
    """Record the end of a claimed call's run; it does not run again."""
    if claim_id is not None and runner is not None:
        raise click.UsageError("give --claim or --runner, not both")
    actor = local_actor(name)
    handle = await ledger.session_of(request, session)
    claim_id = claim_id_of(_runner(runner, actor, request)) if claim_id is None else claim_id
    await handle.finish(request, claim_id, ok=not failed, output=text, actor=actor)
    print_result(output, result_of(await handle.state(), request))


@command(
    "permission-ledger release call_42 --reason 'the job was killed before it began'",
    "permission-ledger release call_42 --session ses_1 --as ann",
)
@click.argument("request")
@_session_option
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@_as_option
@with_ledger
async def release(
    ledger: Ledger, output: CommandOutput, *, request: str, session: str | None, reason: str | None, name: str | None
) -> None:
    """Give back the claim of a call whose runner has died, so that it may be claimed again.

    The call may have run: look first. A call whose end is recorded cannot be released (exit code 13).
    """
    handle = await ledger.session_of(request, session)
    await handle.release_claim(request, reason=reason, actor=local_actor(name))
    print_result(output, result_of(await handle.state(), request))


def _runner(name: str | None, actor: Actor, request: str) -> Runner:
    """Return the runner of a call: as named, else the process that calls this one, which a second process is not."""
    return Runner(f"{actor.name} {_caller()}" if name is None else name, request)


def _caller() -> str:
    """Return the calling process by its number and, where the system tells it, its start time in clock ticks."""
    parent = os.getppid()
    try:
        fields = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return f"process {parent}"
    return f"process {parent} of {fields[_START_TIME_FIELD]}"


@command(
    "permission-ledger extend per_1",
    "permission-ledger extend per_1 --session ses_1 --as ann --json",
)
@click.argument("request")
@click.option("--session", metavar="SESSION", help="The request's session, if several have its id.")
@click.option("--as", "name", metavar="NAME", help="Act as NAME (default: user@host).")
@checked(lambda *, name, **_: local_actor(name))
@with_ledger
async def extend(ledger: Ledger, output: CommandOutput, *, request: str, session: str | None, name: str | None) -> None:
    """Give an attended request five minutes more, so that there is time to read it or to write an answer.

    Never beyond the wait that the asker declared (`ask --timeout`, the limit of a hook), the session's longest time, or a
    week after the ask (exit code 12).
    """
    found = await ledger.session_of(request, session)
    before = (await found.state()).pending.get(request)
    seen = None if before is None else format_time_or_none(before.deadline_ms)
    result = await found.extend(request, seen=seen, actor=local_actor(name), administrator=True)
    deadline = format_time_or_none(result.request.deadline_ms)
    output.result(
        {"session": found.id, "request_id": request, "deadline": deadline, "tier": result.request.tier},
        f"request {request} waits until {deadline}, at most {format_duration(THINKING_MS)} more than before",
    )


@command(
    "permission-ledger cancel per_1",
    "permission-ledger cancel per_1 --reason 'not needed any more'",
)
@click.argument("request")
@click.option("--session", metavar="SESSION", help="The request's session, if several have its id.")
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@with_ledger
async def cancel(
    ledger: Ledger, output: CommandOutput, *, request: str, session: str | None, reason: str | None
) -> None:
    """Withdraw a request that is pending: nobody needs to answer it any more.

    Exit code 10 when it has ended otherwise; cancelling it again succeeds and changes nothing.
    """
    result = await ledger.cancel(request, session_id=session, reason=reason, actor=local_actor())
    print_result(output, result)


@command(
    "permission-ledger close ses_1",
    "permission-ledger close ses_1 --reason 'the work is done' --json",
)
@click.argument("session")
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@with_ledger
async def close(ledger: Ledger, output: CommandOutput, *, session: str, reason: str | None) -> None:
    """Close a session: what is pending in it is cancelled, and nothing more is asked in it.

    Closing it again succeeds and changes nothing.
    """
    handle = await ledger.attach(session)
    await handle.close(reason=reason, actor=local_actor())
    state = handle.stream.state
    ended = [
        settled.request.request_id
        for settled in sorted(state.settled.values(), key=lambda settled: settled.version)
        if settled.cancel_cause == "session_closed"
    ]
    at = format_time_or_none(state.closed_ms)
    output.result(
        {"session": session, "version": state.version, "closed_at": at, "cancelled": ended},
        f"closed session {session} at {at}",
        *(f"  cancelled  {request_id}" for request_id in ended),
    )

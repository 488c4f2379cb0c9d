"""`cancel` and `close`: the end of requests and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ledger.core.times import format_time_or_none
from workers.cli.base import command, local_actor, with_ledger
from workers.cli.output import CommandOutput
from workers.cli.results import print_result

if TYPE_CHECKING:
    from ledger import Ledger


@command(examples=("permission-ledger cancel per_1", "permission-ledger cancel per_1 --reason 'not needed any more'"))
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


@command(examples=("permission-ledger close ses_1", "permission-ledger close ses_1 --reason 'the work is done' --json"))
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
    if output.as_json:
        output.row({"session": session, "version": state.version, "closed_at": at, "cancelled": ended})
        return
    output.line(f"closed session {session} at {at}")
    for request_id in ended:
        output.line(f"  cancelled  {request_id}")

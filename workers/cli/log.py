"""`log`: the events of a stream, past and new."""

from __future__ import annotations

import click

from ledger import Ledger
from ledger.core.times import format_time
from ledger.log.history import LoggedEvent
from workers.cli.base import command, with_ledger
from workers.cli.output import CommandOutput
from workers.presentation.timeline import TimelineFold, TimelineLine


@command(examples=("permission-ledger log ses_1", "permission-ledger log ses_1 --follow --after 12 --json"))
@click.argument("session")
@click.option("--follow", is_flag=True, help="Print new events as they come, until Ctrl-C.")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="VERSION", help="Begin after this version.")
@with_ledger
async def log(ledger: Ledger, output: CommandOutput, *, session: str, follow: bool, after: int) -> None:
    """Print a session's events in order: version, time, type, actor, the id of the request, grant or client, and a sentence.

    To go on after an interruption, give the last version that you have seen as --after.
    """
    handle = await ledger.attach(session)
    if output.as_json:
        async for event in handle.events(after, follow_on=follow):
            output.row(event.as_json())
        return
    fold = TimelineFold(session)
    # A sentence names a request or a grant by the events before it.
    async for event in handle.events(follow_on=follow):
        line = event_line(event, fold.line(event))
        if event.version > after:
            output.line(line)


def event_line(event: LoggedEvent, line: TimelineLine) -> str:
    """Return one event as a line for a person: version, time, type, actor, id of its object, and sentence."""
    ids = (getattr(event.event, name, None) for name in ("request_id", "grant_id", "client_id", "call_id"))
    of = next(filter(None, ids), "-")
    return f"{event.version:>5}  {format_time(event.ms)}  {event.type:<19}  {line.actor}  {of}  {line.text}"

"""`log`: the events of a stream, past and new."""

from __future__ import annotations

import click

from ledger import Ledger
from ledger.core.times import format_time
from ledger.log.history import LoggedEvent
from workers.cli.base import command, with_ledger
from workers.cli.output import CommandOutput
from workers.presentation.words import event_words


@command(examples=("permission-ledger log ses_1", "permission-ledger log ses_1 --follow --after 12 --json"))
@click.argument("session")
@click.option("--follow", is_flag=True, help="Print new events as they come, until Ctrl-C.")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="VERSION", help="Begin after this version.")
@with_ledger
async def log(ledger: Ledger, output: CommandOutput, *, session: str, follow: bool, after: int) -> None:
    """Print a session's events in order: version, time, type, actor and what it was.

    To go on after an interruption, give the last version that you have seen as --after.
    """
    handle = await ledger.attach(session)
    async for event in handle.events(after, follow_on=follow):
        if output.as_json:
            output.row(event.as_json())
        else:
            output.line(event_line(event))


def event_line(event: LoggedEvent) -> str:
    """Return one event as a line for a person."""
    when = format_time(event.ms)
    return f"{event.version:>5}  {when}  {event.type:<19}  {event.actor.name}  {event_words(event.event)}"

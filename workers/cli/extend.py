"""`extend`: more time for an attended request, for a person who thinks about it."""

from __future__ import annotations

import click

from ledger import Ledger
from ledger.core.limits import THINKING_MS
from ledger.core.times import format_duration, format_time_or_none
from workers.cli.base import checked, command, local_actor, with_ledger
from workers.cli.output import CommandOutput


@command(examples=("permission-ledger extend per_1", "permission-ledger extend per_1 --session ses_1 --as ann --json"))
@click.argument("request")
@click.option("--session", metavar="SESSION", help="The request's session, if several have its id.")
@click.option("--as", "name", metavar="NAME", help="The person who extends it (default: user@host).")
@checked(lambda *, name, **_: local_actor(name))
@with_ledger
async def extend(ledger: Ledger, output: CommandOutput, *, request: str, session: str | None, name: str | None) -> None:
    """Give an attended request five minutes more, so that there is time to read it or to write an answer.

    Never beyond the wait that the asker declared (`ask --timeout`, the limit of a hook), the session's longest time, or a
    week after the ask: exit code 12 says why it gets no more. The log records who extended it.
    """
    found = await ledger.session_of(request, session)
    before = (await found.state()).pending.get(request)
    seen = None if before is None else format_time_or_none(before.deadline_ms)
    result = await found.extend(request, seen=seen, actor=local_actor(name), administrator=True)
    deadline = format_time_or_none(result.request.deadline_ms)
    row = {"session": found.id, "request_id": request, "deadline": deadline, "tier": result.request.tier}
    if output.as_json:
        output.row(row)
        return
    output.line(f"request {request} waits until {deadline}, at most {format_duration(THINKING_MS)} more than before")

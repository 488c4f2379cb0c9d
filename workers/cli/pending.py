"""`pending`: the requests that wait for a person, nearest deadline first."""

from __future__ import annotations

from collections.abc import Mapping

import click

from ledger import Ledger, Pending
from ledger.core.times import format_time_or_none
from ledger.log.askers import gone_askers
from ledger.log.surveys import Survey
from ledger.session.state import Request
from ledger.session.would_run.description import describe_request
from workers.cli.base import command, with_ledger
from workers.cli.description import what_would_run, who_asks
from workers.cli.output import CommandOutput, talk
from workers.cli.problems import tell_problems
from workers.presentation.dangers import danger_kinds
from workers.presentation.text import revealed
from workers.presentation.words import about, listed

COLUMNS = (
    "request", "session", "permission", "what would run", "dangers", "folder", "asked by", "always grants", "asked",
    "expires in",
)  # fmt: skip


@command(examples=("permission-ledger pending", "permission-ledger pending --session ses_1 --json"))
@click.option("--session", metavar="SESSION", help="Only requests of this session.")
@with_ledger
async def pending(ledger: Ledger, output: CommandOutput, *, session: str | None) -> int:
    """List what waits for a person, nearest deadline first.

    Calls are printed in full, up to 2000 characters; `show` has all of it, and --json the `description` of the
    gateway's rows. A character that is not what it seems is written as its escape.

    Sessions that are damaged are named on stderr (exit code 11), beside the requests of all others.
    """
    found = Survey(await ledger.pending(session), []) if session else await ledger.pending_anywhere()
    waiting = found.rows
    gone = {one: await gone_askers(ledger.store, one) for one in {row.session for row in waiting}}
    if output.as_json:
        output.rows({**one.described(), "asker_gone_at": format_time_or_none(_gone_ms(one, gone))} for one in waiting)
    elif waiting:
        now_ms = ledger.store.clock.now_ms()
        if any(gone.values()):
            cells = [(*pending_cells(one, now_ms), _since(_gone_ms(one, gone), now_ms)) for one in waiting]
            output.table((*COLUMNS, "asker"), cells)
        else:
            output.table(COLUMNS, [pending_cells(one, now_ms) for one in waiting])
    else:
        talk("nothing is pending")
    return tell_problems(output, found.problems)


def _gone_ms(one: Pending, gone: Mapping[str, Mapping[str, int]]) -> int | None:
    return gone[one.session].get(one.request.request_id)


def _since(gone_ms: int | None, now_ms: int) -> str | None:
    return None if gone_ms is None else f"gone since {about(now_ms - gone_ms)}"


def pending_cells(one: Pending, now_ms: int) -> tuple[str | None, ...]:
    request = one.request
    deadline = request.deadline_ms
    return (
        request.request_id,
        one.session,
        revealed(request.permission),
        what_would_run(request),
        danger_kinds(describe_request(request)) or None,
        None if request.cwd is None else revealed(request.cwd),
        who_asks(request),
        _granted_by_always(request),
        f"{about(now_ms - request.asked_ms)} ago",
        "never" if deadline is None else f"{about(deadline - now_ms)} ({request.tier})",
    )


def _granted_by_always(request: Request) -> str | None:
    """Return the grants of an `always`, and the parts that would be asked again all the same."""
    if not request.always:
        return None
    asked = f" (still asks: {'; '.join(request.still_asked)})" if request.still_asked else ""
    return revealed(listed(request.always) + asked)

"""`pending`: the requests that wait for a person, nearest deadline first."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ledger.client.results import pending_of, result_of
from ledger.core.policy import counted_effect
from ledger.core.times import SECOND_MS, format_time, format_time_or_none
from ledger.log.inboxes import gone_anywhere
from ledger.log.places import WaitingPlace
from ledger.log.surveys import Listed, ListPage, StreamProblem
from workers.cli.base import (
    PagesOf,
    check_page,
    checked,
    command,
    page_count,
    paged,
    print_pages,
    read_count,
    with_ledger,
)
from workers.cli.choices import NOTHING_PENDING, nothing_pending
from workers.cli.description import call_in_line, card_lines, print_result
from workers.cli.ids import neighbours
from workers.cli.output import CommandOutput, Exit, talk, tell_problems
from workers.cli.tables import At, IdCell, Styled, Wide, at
from workers.presentation.labels import EFFECT, SHORT_EFFECTS, danger_kinds
from workers.presentation.words import about

if TYPE_CHECKING:
    from ledger import Ledger, Pending

COLUMNS = (EFFECT, "request", "session", Wide("what would run"), "asked", "expires")


LATE_MS: Final = SECOND_MS
"""The time after a deadline within which a running worker has settled it."""

LATE_COUNT: Final = 1000


class _Shown(NamedTuple):
    """A pending request, and since when (server ms) its asker is gone."""

    pending: Pending
    gone_ms: int | None


@command(
    "permission-ledger pending",
    "permission-ledger pending --session ses_1 --json",
    "permission-ledger pending call_42",
    "permission-ledger pending --limit 20 --after 1763979120000-1763979060000-2-ses_1",
)
@click.argument("request", required=False)
@click.option("--session", metavar="SESSION", help="Only requests of this session, in order of asking.")
@paged
@checked(check_page)
@with_ledger
async def pending(
    ledger: Ledger,
    output: CommandOutput,
    *,
    request: str | None,
    session: str | None,
    limit: int | None,
    after: str | None,
    everything: bool,
) -> int:
    """List what waits for a person, nearest deadline first.

    Calls are printed up to 2000 characters; `show` has all of it, and --json the `description` of the gateway's rows.
    With REQUEST, an id or its beginning (4 characters or more), it prints the whole card of one request, as `show` does.

    A request whose deadline has passed is not pending; stderr names its session where no expiry worker has recorded that.
    """
    if request is not None:
        if not await print_request(ledger, output, request, session):
            talk(f"info: request `{request}` is not pending any more")
        return Exit.DONE
    count = page_count(output, limit, everything=everything)
    problems: list[StreamProblem] = []
    if session is None:
        pages = ledger.pending_pages(after, read_count(count))
    else:
        pages = _of_one(await ledger.pending(session), after)
    shown = await print_pages(
        output,
        _rows(ledger, output, pages, problems),
        count,
        COLUMNS,
        lambda one: pending_cells(one.pending, one.gone_ms),
        as_row=lambda one: {**one.pending.described(), "asker_gone_at": format_time_or_none(one.gone_ms)},
    )
    if not (shown or after):
        found = NOTHING_PENDING if session is not None else await nothing_pending(ledger)
        if found != NOTHING_PENDING or not output.as_json:
            talk(found)
    await _tell_overdue(ledger, session)
    return tell_problems(output, problems)


async def _tell_overdue(ledger: Ledger, session: str | None) -> None:
    """Say which deadlines have passed that nothing has settled: such requests are not pending, and not in the list."""
    store = ledger.store
    now_ms = await store.now_ms()
    late = await store.due(now_ms - LATE_MS, LATE_COUNT)
    of = [(one, ms) for one, ms in late if ms is not None and session in (None, one)]
    if of:
        first, ms = of[0]
        others = f", and {len(of) - 1} more sessions are overdue" if len(of) > 1 else ""
        talk(
            f"warning: overdue: a deadline of session `{first}` passed {about(now_ms - ms)} ago, and no worker has settled "
            f"it{others}; start `permission-ledger worker expiry`"
        )


async def print_request(ledger: Ledger, output: CommandOutput, request: str, session: str | None) -> bool:
    """Print one request: the whole card while it is pending, then the outcome. Return whether it is pending.

    Raises UnknownRequestError.
    """
    state = await (await ledger.session_of(request, session)).state()
    waiting = next((one for one in pending_of(state) if one.request.request_id == request), None)
    if waiting is None:
        print_result(output, result_of(state, request))
    else:
        output.result(waiting.described(), *card_lines(waiting))
    return waiting is not None


async def _rows(
    ledger: Ledger, output: CommandOutput, pages: AsyncIterator[ListPage[Pending]], problems: list[StreamProblem]
) -> PagesOf[_Shown]:
    async for page in pages:
        problems += page.problems
        if sys.stdout.isatty():
            output.other_ids |= await neighbours(ledger, {one.request.request_id for one in page.items})
        gone = await gone_anywhere(ledger.store, {one.session for one in page.items})
        for place in page.rows:
            one = place.row
            yield place.cursor, _Shown(one, gone.get((one.session, one.request.request_id)))


async def _of_one(waiting: Sequence[Pending], after: str | None) -> AsyncIterator[ListPage[Pending]]:
    version = 0 if after is None else WaitingPlace.of_cursor(after).version
    places = [(WaitingPlace.of_request(one.session, one.request), one) for one in waiting]
    yield ListPage([Listed(at.order, at.cursor, one) for at, one in places if at.version > version], [], None)


def pending_cells(one: Pending, gone_ms: int | None = None) -> tuple[object, ...]:
    """Return a pending request's cells; `gone_ms` is since when (server ms) its asker is gone."""
    from ledger.session.would_run.description import describe_request  # noqa: PLC0415 - it reads shell lines

    request = one.request
    dangers = danger_kinds(describe_request(request))
    gone = "" if gone_ms is None else f" (its asker is gone since {format_time(gone_ms)})"
    return (
        Styled(*SHORT_EFFECTS[counted_effect(request.evaluation)]),
        IdCell(request.request_id),
        IdCell(one.session),
        f"{f'! {dangers}: ' if dangers else ''}{call_in_line(request)}{gone}",
        At(format_time(request.asked_ms)),
        at(format_time_or_none(request.deadline_ms), "never"),
    )

"""`pending`: the requests that wait for a person, nearest deadline first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ledger.client.results import pending_of, result_of
from ledger.core.times import SECOND_MS, format_time_or_none
from ledger.log.inboxes import gone_anywhere
from ledger.log.places import WaitingPlace
from ledger.log.surveys import Listed, ListPage, StreamProblem
from ledger.session.state import Request
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
from workers.cli.choices import NOTHING_PENDING, named, nothing_pending
from workers.cli.description import card_lines, print_result, what_would_run, who_asks
from workers.cli.output import CommandOutput, Exit, talk, tell_problems
from workers.presentation.labels import ASKED_BY, FOLDER, STILL_ASKS, TIME_LEFT, danger_kinds
from workers.presentation.text import revealed
from workers.presentation.words import about, listed, time_left

if TYPE_CHECKING:
    from ledger import Ledger, Pending

COLUMNS = (
    "request", "session", "permission", "what would run", "dangers", FOLDER, ASKED_BY, "always allows", "asked",
    TIME_LEFT,
)  # fmt: skip


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

    A table shows a page of 50, and stderr how to see the next; `--json` prints all, as they are read. Calls are printed
    in full, up to 2000 characters; `show` has all of it, and --json the `description` of the gateway's rows. A character
    that is not what it seems is written as its escape.

    With REQUEST, an id or its beginning (4 characters or more), it prints the whole card of one request: the dangers, every member
    of the input, who asks and why, what `always` would remember. Of a settled request it prints the outcome.

    A request whose deadline has passed is not pending, whether or not an expiry worker has recorded that; where none has, stderr
    names the session.

    Sessions that are damaged are named on stderr (exit code 11), beside the requests of all others.
    """
    if request is not None:
        await _print_card(ledger, output, request, session)
        return Exit.DONE
    count = page_count(output, limit, everything=everything)
    problems: list[StreamProblem] = []
    if session is None:
        pages = ledger.pending_pages(after, read_count(count))
    else:
        pages = _of_one(await ledger.pending(session), after)
    now_ms = ledger.store.clock.now_ms()
    shown = await print_pages(
        output,
        _rows(ledger, pages, problems),
        count,
        (*COLUMNS, "asker"),
        lambda one: (
            *pending_cells(one.pending, now_ms),
            None if one.gone_ms is None else f"gone since {about(now_ms - one.gone_ms)}",
        ),
        as_row=lambda one: {**one.pending.described(), "asker_gone_at": format_time_or_none(one.gone_ms)},
        optional=True,
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


async def _print_card(ledger: Ledger, output: CommandOutput, request: str, session: str | None) -> None:
    """Print one request whole. Raises UnknownRequestError, InputError for a beginning that several have."""
    target = (await named(ledger, [request], session)).targets[0]
    found = target.session or await ledger.session_of(request, session)
    state = await found.state()
    waiting = next((one for one in pending_of(state) if one.request.request_id == target.request_id), None)
    if waiting is None:
        result = result_of(state, target.request_id)
        talk(f"info: request `{target.request_id}` is not pending any more")
        print_result(output, result)
    else:
        output.result(waiting.described(), *card_lines(waiting))


async def _rows(
    ledger: Ledger, pages: AsyncIterator[ListPage[Pending]], problems: list[StreamProblem]
) -> PagesOf[_Shown]:
    async for page in pages:
        problems += page.problems
        gone = await gone_anywhere(ledger.store, {one.session for one in page.items})
        for place in page.rows:
            one = place.row
            yield place.cursor, _Shown(one, gone.get((one.session, one.request.request_id)))


async def _of_one(waiting: Sequence[Pending], after: str | None) -> AsyncIterator[ListPage[Pending]]:
    version = 0 if after is None else WaitingPlace.of_cursor(after).version
    places = [(WaitingPlace.of_request(one.session, one.request), one) for one in waiting]
    yield ListPage([Listed(at.order, at.cursor, one) for at, one in places if at.version > version], [], None)


def pending_cells(one: Pending, now_ms: int) -> tuple[str | None, ...]:
    from ledger.session.would_run.description import describe_request  # noqa: PLC0415 - it reads shell lines

    request = one.request
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
        time_left(request.deadline_ms, now_ms, f" ({request.tier})"),
    )


def _granted_by_always(request: Request) -> str | None:
    """Return the grants of an `always`, and the parts that would be asked again all the same."""
    if not request.always:
        return None
    asked = f" ({STILL_ASKS}: {'; '.join(request.still_asked)})" if request.still_asked else ""
    return revealed(listed(request.always) + asked)

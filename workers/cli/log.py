"""`log`: the events of a stream, past and new, or of all sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ledger import DamageError, InputError
from ledger.core.ids import check_id
from ledger.core.times import format_time
from ledger.log.history import LoggedEvent, logged
from ledger.log.surveys import CURSOR_DIGITS, StreamProblem, problem_of
from ledger.log.tail import read_events
from ledger.stores.port import StreamKey
from projections.session_list import oldest_first
from projections.sessions import Latest
from workers.cli.base import checked, command, with_ledger
from workers.cli.output import CommandOutput
from workers.cli.paging import LIMIT_MAX, tell_next
from workers.cli.problems import tell_problems
from workers.presentation.timeline import TimelineFold, TimelineLine

if TYPE_CHECKING:
    from ledger import Ledger

READ_COUNT: Final = 500
"""Sessions listed at once."""


class _Point(NamedTuple):
    """An event in the order of `log --all`: the place of its session, and its version."""

    place: Latest
    version: int

    @property
    def cursor(self) -> str:
        return f"{self.place.ms}-{self.version}-{self.place.session}"

    @classmethod
    def of_cursor(cls, cursor: str) -> _Point:
        """Return the event of a cursor. Raises InputError."""
        ms, version, session = (*cursor.split("-", 2), "", "")[:3]
        if not all(one.isascii() and one.isdecimal() and len(one) <= CURSOR_DIGITS for one in (ms, version)):
            raise InputError(f"`{cursor[:40]}` is not a cursor that was handed out")
        return cls(Latest(int(ms), check_id(session, "session id of the cursor")), int(version))


def _check(
    *, session: str | None, everything: bool, follow: bool, after: str | None, limit: int | None, **_: object
) -> None:
    if (session is None) != everything:
        raise click.UsageError("give either SESSION or --all")
    if everything and follow:
        raise click.UsageError("--follow is for one session; give SESSION in place of --all")
    if follow and limit is not None:
        raise click.UsageError("give --follow or --limit COUNT, not both")
    is_version = after is None or (after.isascii() and after.isdecimal() and len(after) <= CURSOR_DIGITS)
    if session is not None and not is_version:
        raise click.UsageError("--after VERSION is the number of an event of SESSION")


@command(
    examples=(
        "permission-ledger log ses_1",
        "permission-ledger log ses_1 --follow --after 12 --json",
        "permission-ledger log --all --limit 1000 --json",
    )
)
@click.argument("session", required=False)
@click.option("--all", "everything", is_flag=True, help="The events of all sessions.")
@click.option("--follow", is_flag=True, help="Print new events as they come, until Ctrl-C.")
@click.option("--after", metavar="VERSION|CURSOR", help="Begin after this version; with --all after this cursor.")
@click.option(
    "--limit", type=click.IntRange(1, LIMIT_MAX), metavar="COUNT", help="The number of events (default: all)."
)
@checked(_check)
@with_ledger
async def log(
    ledger: Ledger,
    output: CommandOutput,
    *,
    session: str | None,
    everything: bool,
    follow: bool,
    after: str | None,
    limit: int | None,
) -> int:
    """Print a session's events in order: version, time, type, actor, the id of the request, grant or client, and a sentence.

    To go on after an interruption, give the last version that you have seen as --after.

    With --all the events of all sessions up to now, session by session, the one that rests longest first; `--json` rows
    have `session`. A session that goes on meanwhile may come again, at the end, and none is left out. After `--limit`
    events, stderr has the cursor to go on from. Sessions that are damaged are named on stderr (exit code 11).
    """
    problems: list[StreamProblem] = []
    if everything:
        start = None if after is None else _Point.of_cursor(after)
        await _print(output, _of_all(ledger, start, problems), limit, in_all=True)
    else:
        await _print(output, _of_one(ledger, session or "", int(after or 0), output, follow=follow), limit)
    return tell_problems(output, problems)


_Events = AsyncGenerator[tuple[str, int, LoggedEvent], None]
"""Events, each with the cursor of what follows it, and the version after which a person wants to see its session."""


async def _print(output: CommandOutput, events: _Events, limit: int | None, *, in_all: bool = False) -> None:
    """Print at most `limit` events as they come, and how to go on."""
    shown, last = 0, ""
    fold = TimelineFold("")
    async with aclosing(events):
        async for cursor, after, event in events:
            if output.as_json:
                text = ""
            else:
                fold = TimelineFold(event.key.id) if event.version == 1 else fold
                # A sentence names a request or a grant by the events before it.
                text = event_line(event, fold.line(event))
            if event.version <= after:
                continue
            if shown == limit:
                tell_next(output, last)
                return
            shown, last = shown + 1, cursor
            if output.as_json:
                output.row({**({"session": event.key.id} if in_all else {}), **event.as_json()})
            else:
                output.line(f"{event.key.id}  {text}" if in_all else text)


async def _of_one(ledger: Ledger, session: str, after: int, output: CommandOutput, *, follow: bool) -> _Events:
    """Iterate over the events of a session; for a person from the first one."""
    handle = await ledger.attach(session)
    async for event in handle.events(after if output.as_json else 0, follow_on=follow):
        yield str(event.version), after, event


async def _of_all(ledger: Ledger, after: _Point | None, problems: list[StreamProblem]) -> _Events:
    """Iterate over the events of all sessions up to now; note what is wrong with streams."""
    until_ms = await ledger.store.now_ms()
    if after is not None:
        async for one in _of_place(ledger, after, until_ms, problems):
            yield one
    async for places in oldest_first(ledger.store, None if after is None else after.place, READ_COUNT):
        for place in places:
            async for one in _of_place(ledger, _Point(place, 0), until_ms, problems):
                yield one


async def _of_place(ledger: Ledger, after: _Point, until_ms: int, problems: list[StreamProblem]) -> _Events:
    """Iterate over the events of the session of a place up to a time (server ms)."""
    key = StreamKey("session", after.place.session)
    try:
        async for recorded in read_events(ledger.store, key):
            if recorded.ms > until_ms:
                return
            yield after._replace(version=recorded.version).cursor, after.version, logged(key, recorded)
    except DamageError as error:
        problems.append(problem_of(key, error))


def event_line(event: LoggedEvent, line: TimelineLine) -> str:
    """Return one event as a line for a person: version, time, type, actor, id of its object, and sentence."""
    ids = (getattr(event.event, name, None) for name in ("request_id", "grant_id", "client_id", "call_id"))
    of = next(filter(None, ids), "-")
    return f"{event.version:>5}  {format_time(event.ms)}  {event.type:<19}  {line.actor}  {of}  {line.text}"

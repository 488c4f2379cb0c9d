"""`log` and `replay`: the events of sessions, past and new, and their past at its own pace with the state beside each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ledger import DamageError, InputError
from ledger.core.grants import Recorded, StandingGrant
from ledger.core.ids import CURSOR_DIGITS, check_id, cursor_number
from ledger.core.times import format_time
from ledger.log.fresh_folds import fold_before
from ledger.log.history import LoggedEvent, logged
from ledger.log.surveys import StreamProblem, problem_of, survey
from ledger.log.tail import read_events, read_folds
from ledger.session.state import in_order
from ledger.stores.port import StreamKey
from projections.session_list import oldest_first
from projections.sessions import Latest
from workers.cli.base import LIMIT_MAX, checked, command, tell_next, with_ledger
from workers.cli.output import CommandOutput, tell_problems
from workers.presentation.moments import approved_at, project_grants
from workers.presentation.timeline import TimelineFold, TimelineLine

if TYPE_CHECKING:
    from ledger import Ledger

READ_COUNT: Final = 500
"""Sessions listed at once."""


def _parts_of(cursor: str) -> tuple[int, int, str]:
    """Return time (ms), version and session of a cursor. Raises InputError."""
    ms, version, session = (*cursor.split("-", 2), "", "")[:3]
    return cursor_number(ms, cursor), cursor_number(version, cursor), session


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
        ms, version, session = _parts_of(cursor)
        return cls(Latest(ms, check_id(session, "session id of the cursor")), version)


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
    "permission-ledger log ses_1",
    "permission-ledger log ses_1 --follow --after 12 --json",
    "permission-ledger log --all --limit 1000 --json",
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

    To continue after an interruption, give the last version that you have seen as --after.

    --all prints the events of all sessions up to now, session by session, the one that rests longest first; `--json` rows
    have `session`. A session that goes on meanwhile may come again at the end; none is left out. After `--limit` events,
    stderr has the cursor to continue from.
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
    handle = await ledger.attach(session)
    async for event in handle.events(after if output.as_json else 0, follow_on=follow):
        yield str(event.version), after, event


async def _of_all(ledger: Ledger, after: _Point | None, problems: list[StreamProblem]) -> _Events:
    until_ms = await ledger.store.now_ms()
    if after is not None:
        async for one in _of_place(ledger, after, until_ms, problems):
            yield one
    async for places in oldest_first(ledger.store, None if after is None else after.place, READ_COUNT):
        for place in places:
            async for one in _of_place(ledger, _Point(place, 0), until_ms, problems):
                yield one


async def _of_place(ledger: Ledger, after: _Point, until_ms: int, problems: list[StreamProblem]) -> _Events:
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


PAUSE_MAX_SECONDS: Final = 3.0
"""The longest pause at speed 1: an expiry would take seven days."""

SESSIONS_MAX: Final = 1000
"""The limit of sessions at once: the next events of each are held in memory, to be merged by time."""


EVENTS_COUNT: Final = 1000
"""Events of a page for a person."""


class _Place(NamedTuple):
    """The place of an event in a replay: its time, the order of its session among those named, and its version."""

    ms: int
    order: int
    version: int

    @classmethod
    def of_cursor(cls, cursor: str, names: Sequence[str]) -> _Place:
        """Return the event of a cursor. Raises InputError."""
        ms, version, session = _parts_of(cursor)
        if session not in names:
            raise InputError(f"the cursor is of session `{session[:40]}`, which is not among those to replay")
        return cls(ms, names.index(session), version)


def _check_replay(*, sessions: Sequence[str], every_session: bool, limit: int | None, whole: bool, **_: object) -> None:
    if every_session == bool(sessions):
        raise click.UsageError("name sessions, or give --all")
    if whole and limit is not None:
        raise click.UsageError("give --limit COUNT or --whole, not both")


@command(
    "permission-ledger replay ses_1",
    "permission-ledger replay ses_1 ses_2 --speed 10",
    "permission-ledger replay ses_1 --limit 100 --after 1795600000000-4711-ses_1",
    "permission-ledger replay --all --speed 0 --json",
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--all", "every_session", is_flag=True, help="All sessions.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="X",
    help="X times the original speed; 0 does not pause.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    metavar="COUNT",
    help=f"The number of events (default: {EVENTS_COUNT}; with --json: all).",
)
@click.option("--after", metavar="CURSOR", help="Go on after a page: with the cursor that it ended with.")
@click.option("--whole", is_flag=True, help="All events, however many they are.")
@checked(_check_replay)
@with_ledger
async def replay(
    ledger: Ledger,
    output: CommandOutput,
    *,
    sessions: Sequence[str],
    every_session: bool,
    speed: float,
    limit: int | None,
    after: str | None,
    whole: bool,
) -> int:
    """Play the past of one session or of several as it happened, with the session's state beside each event.

    The events of several sessions come in the order of the server's time. Pauses are those of the record, at most 3 s at
    speed 1. A long past comes in pages: stderr has the cursor to continue from, with the same sessions in the same order;
    a page begins at the stored state of a long session.
    """
    names = await _some_of_all(ledger) if every_session else list(dict.fromkeys(sessions))
    if len(names) > SESSIONS_MAX:
        raise InputError(
            f"more than {SESSIONS_MAX} sessions are too many to replay at once; name at most {SESSIONS_MAX}"
        )
    place = None if after is None else _Place.of_cursor(after, names)
    order = {name: number for number, name in enumerate(names)}

    async def past_of(key: StreamKey) -> Past:
        stream = (await ledger.attach(key.id)).stream
        return Past(stream.key, await project_grants(ledger, stream.state))

    found = await survey([StreamKey("session", name) for name in names], past_of)
    if found.problems and not every_session:
        raise DamageError(found.problems[0].text, stream=found.problems[0].key.name)
    pasts = found.rows
    width = max(map(len, names)) if len(names) > 1 else 0
    last_ms, shown, cursor = None, 0, ""
    count = limit if limit is not None else None if whole or output.as_json else EVENTS_COUNT
    async for past, recorded in in_time_order(ledger, pasts, None if place is None else place.ms):
        if place is not None and (recorded.ms, order[past.key.id], recorded.version) <= place:
            past.fold.line(logged(past.key, recorded))
            continue
        if shown == count:
            tell_next(output, cursor)
            break
        shown, cursor = shown + 1, f"{recorded.ms}-{recorded.version}-{past.key.id}"
        await asyncio.sleep(pause_seconds(last_ms, recorded.ms, speed))
        last_ms = recorded.ms
        event = logged(past.key, recorded)
        line = event_line(event, past.fold.line(event))
        now = past.as_json(recorded.ms)
        waiting = sum(len(one.fold.state.pending) for one in pasts)
        if output.as_json:
            output.row({**event.as_json(), "state": now, "session": past.key.id, "waiting": waiting})
        else:
            output.line(f"{past.key.id:<{width}}  {line}" if width else line)
            in_all = [f"waiting in all: {waiting}"] if width else []
            output.line(f"{'':{width + 9 if width else 7}}{'  '.join([_state_words(now), *in_all])}")
    return tell_problems(output, found.problems)


async def _some_of_all(ledger: Ledger) -> list[str]:
    """Return the names of all sessions in order, of too many only one more than can be replayed."""
    names: dict[str, None] = {}
    async for name in ledger.sessions():
        names[name] = None
        if len(names) > SESSIONS_MAX:
            break
    return sorted(names)


class Past:
    """A session up to the last replayed event, and the grants of its project."""

    def __init__(self, key: StreamKey, of_project: list[StandingGrant]) -> None:
        self.key = key
        self.fold = TimelineFold(key.id)
        self._of_project = of_project

    def as_json(self, at_ms: int) -> dict[str, Any]:
        state = self.fold.state
        return {
            "pending": [request.request_id for request in in_order(state.pending.values())],
            "approved": [one.grant.grant_id for one in approved_at(state, self._of_project, at_ms)],
            "clients": [client.client_id for client in sorted(state.clients.values(), key=lambda one: one.version)],
            "settled": len(state.settled),
        }


async def in_time_order(
    ledger: Ledger, pasts: Sequence[Past], from_ms: int | None = None
) -> AsyncIterator[tuple[Past, Recorded]]:
    """Yield all events by the server's time; within a millisecond in the order in which sessions were named.

    With `from_ms` those before it may be left out, and are then in the states of their pasts.
    """
    readers = [await _reader(ledger, past, from_ms) for past in pasts]
    heads = [(first.ms, index, first) for index, reader in enumerate(readers) if (first := await anext(reader, None))]
    heapify(heads)
    while heads:
        _, index, recorded = heappop(heads)
        yield pasts[index], recorded
        following = await anext(readers[index], None)
        if following is not None:
            # The heap holds one event per session, so that no comparison goes beyond these two members.
            heappush(heads, (following.ms, index, following))


async def _reader(ledger: Ledger, past: Past, from_ms: int | None) -> AsyncIterator[Recorded]:
    if from_ms is None:
        return read_events(ledger.store, past.key)
    begin = await fold_before(ledger.store, past.key, lambda position: position.ms < from_ms)
    past.fold.state = begin.state
    return (recorded async for recorded, _ in read_folds(ledger.store, past.key, begin))


def pause_seconds(last_ms: int | None, ms: int, speed: float) -> float:
    """Return the pause before an event at `ms`; `last_ms` None is the first."""
    if last_ms is None or speed == 0:
        return 0.0
    return min((ms - last_ms) / 1000, PAUSE_MAX_SECONDS) / speed


def _state_words(now: dict[str, Any]) -> str:
    named = [f"{name}: {', '.join(now[name])}" for name in ("pending", "approved", "clients") if now[name]]
    return "  ".join([*named, f"settled: {now['settled']}"])

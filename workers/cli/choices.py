"""The requests that a command means: by whole ids, by the beginning of an id, by words, or the only one that waits.

Only a whole id names a request for good. Whatever else chooses one depends on what is pending at that moment, which an agent
can change: it withdraws a request that a person has read, and asks for something else. So such requests are shown whole, and
answered only as they were shown.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ledger import InputError, UnknownRequestError
from ledger.client.lookups import KnownRequest
from ledger.client.results import pending_of
from ledger.log.viewed import are_views_lost
from ledger.session.decision import shown_digest
from ledger.session.would_run import would_run
from workers.cli.description import card_lines
from workers.cli.ids import ambiguous
from workers.cli.output import CommandOutput, talk

if TYPE_CHECKING:
    from ledger import Ledger, Pending, Session

MATCHING_MAX: Final = 200
"""Requests answered at once by words; more are too many to read."""

READ_COUNT: Final = 500
LISTED_COUNT: Final = 5


NOTHING_PENDING: Final = "nothing is pending"
VIEWS_LOST: Final = (
    "nothing pending was found, but the views are not complete, and may lack requests: a running projector completes "
    "them (`permission-ledger worker projector`), and `permission-ledger rebuild` does so at once"
)


class ChosenRequest(NamedTuple):
    """A request to answer: its session, and the digest that it was shown under, unless it was named by its whole id."""

    request_id: str
    session: Session | None
    digest: str | None = None


class Choice(NamedTuple):
    """The requests to answer; those of `shown` were not named by a whole id."""

    targets: list[ChosenRequest]
    shown: list[Pending]


async def named(ledger: Ledger, typed: Sequence[str], session: str | None) -> Choice:
    """Return the requests of whole ids, or of beginnings that one request of all, pending or ended, has.

    An id that nothing has is returned without a session. Raises InputError for a beginning that several have.
    """
    targets: list[ChosenRequest] = []
    shown: list[Pending] = []
    for request_id in typed:
        found = await _whole(ledger, request_id, session)
        if found is not None:
            targets.append(ChosenRequest(request_id, found))
            continue
        begun = await _beginning(ledger, request_id, session)
        if begun is None:
            targets.append(ChosenRequest(request_id, None))
        elif all(one.request_id != begun.request_id for one in targets):
            waiting = [one for one in pending_of(begun.state) if one.request.request_id == begun.request_id]
            shown += waiting
            handle = await ledger.attach(begun.state.session_id)
            digest = shown_digest(waiting[0].request) if waiting else None
            targets.append(ChosenRequest(begun.request_id, handle, digest))
    return Choice(targets, shown)


async def the_only_one(ledger: Ledger, session: str | None) -> Choice:
    """Return the one request that is pending. Raises UnknownRequestError without any, InputError with several."""
    found: list[Pending] = []
    async for one in _pending(ledger, session, 2):
        found.append(one)
        if len(found) > 1:
            raise InputError(
                f"more than one request is pending ({_ids(found)}, …); name the one to answer, or give --matching"
            )
    if not found:
        raise UnknownRequestError(await nothing_pending(ledger), request_id=None)
    return Choice([await _target(ledger, found[0])], found)


async def nothing_pending(ledger: Ledger) -> str:
    """Return what to say where nothing is found to be pending: views that were lost may lack requests."""
    if await are_views_lost(ledger.store):
        return VIEWS_LOST
    return NOTHING_PENDING


async def matching(ledger: Ledger, words: str, session: str | None) -> Choice:
    """Return the pending requests that contain all of the words, whatever their case.

    Raises UnknownRequestError without any, InputError for no words, or for more than 200 requests.
    """
    wanted = words.casefold().split()
    if not wanted:
        raise InputError("give at least one word with --matching")
    found: list[Pending] = []
    async for one in _pending(ledger, session, READ_COUNT):
        text = searched(one)
        if all(word in text for word in wanted):
            if len(found) == MATCHING_MAX:
                raise InputError(
                    f"more than {MATCHING_MAX} pending requests contain `{words}`; give more words, or --session"
                )
            found.append(one)
    if not found:
        raise UnknownRequestError(f"no pending request contains `{words}`", request_id=None)
    return Choice([await _target(ledger, one) for one in found], found)


def searched(one: Pending) -> str:
    """Return the text of a request that words are looked for in: what would run, where, and who asks."""
    request = one.request
    parts = (
        request.request_id,
        one.session,
        request.permission,
        would_run(request).in_line(None),
        *request.patterns,
        request.cwd or "",
        request.agent or "",
        request.asker.name,
    )
    return "\n".join(parts).casefold()


def is_confirmed(output: CommandOutput, shown: Sequence[Pending], said: str, *, yes: bool) -> bool:
    """Show requests whole, and return whether they are to be answered: with `yes`, or by a person at the terminal."""
    if yes:
        return True
    if output.as_json or not sys.stdin.isatty():
        for one in shown:
            output.result(one.described(), *card_lines(one), "")
        talk("nothing was answered: repeat it with --yes, or with whole ids")
        return False
    for one in shown:
        for line in (*card_lines(one), ""):
            talk(line)
    return click.confirm(f"answer {_count(shown)} with `{said}`?", default=False, err=True)


def _count(shown: Sequence[Pending]) -> str:
    return "this request" if len(shown) == 1 else f"these {len(shown)} requests"


async def _whole(ledger: Ledger, request_id: str, session: str | None) -> Session | None:
    try:
        found = await ledger.session_of(request_id, session)
    except UnknownRequestError:
        return None
    if session is not None and (await found.state()).find(request_id) is None:
        return None
    return found


async def _beginning(ledger: Ledger, part: str, session: str | None) -> KnownRequest | None:
    """Return the request whose id begins so, None if there is none. Raises InputError for several, pending or ended."""
    known = await ledger.lookups.requests_beginning(part)
    found = [one for one in known if session in (None, one.state.session_id)]
    if len(found) > 1:
        candidates = (
            f"`{one.request_id}` in `{one.state.session_id}`{'' if one.request_id in one.state.pending else ' (ended)'}"
            for one in sorted(found, key=lambda one: (one.request_id not in one.state.pending, one.request_id))
        )
        raise ambiguous("request", part, list(candidates))
    return found[0] if found else None


def _ids(found: Sequence[Pending]) -> str:
    named = ", ".join(f"`{one.request.request_id}` in `{one.session}`" for one in found[:LISTED_COUNT])
    return named + (" and more" if len(found) > LISTED_COUNT else "")


async def _target(ledger: Ledger, one: Pending) -> ChosenRequest:
    return ChosenRequest(one.request.request_id, await ledger.attach(one.session), shown_digest(one.request))


async def _pending(ledger: Ledger, session: str | None, count: int) -> AsyncIterator[Pending]:
    if session is not None:
        for one in await ledger.pending(session):
            yield one
        return
    async for page in ledger.pending_pages(None, count):
        for one in page.items:
            yield one

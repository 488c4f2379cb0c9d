"""`search` and `why`: past requests by words and conditions, and the grants that would have answered one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ledger import Ledger, LedgerError, Session, StoreError
from ledger.client.machine import machine_facts
from ledger.client.why import Answerer, PastRequests, WhyAsked, advice_asked, explain_request, smallest_rule
from ledger.core.errors import InputError, SetupError
from ledger.core.events import Actor
from ledger.core.times import DAY_MS
from ledger.policy.check_questions import with_facts
from ledger.policy.dialects import compile_policy
from ledger.session.state import SessionState
from projections.asked_before import asked_before
from workers.cli.base import PAGE_COUNT, Pages, checked, command, local_actor, print_pages, utc_option, with_ledger
from workers.cli.options import index_file_option
from workers.cli.output import CommandOutput, talk, talk_json
from workers.cli.tables import At, IdCell, Wide
from workers.indexer.reader import (
    OUTCOMES,
    IndexLag,
    IndexReader,
    SearchQuery,
    asked_in_index,
    deployment_of,
    lag_of,
    parse_query,
)
from workers.indexer.schema import default_file
from workers.presentation.text import revealed
from workers.presentation.why import LOOK_BACK_DAYS, LOOKED_AT_COUNT, why_json, why_lines

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS: Final = ("asked", "request", "outcome", Wide("what was asked"), "agent", "project")

LIMIT_MAX: Final = 1000


def _check(*, text: tuple[str, ...], **options: Any) -> None:
    parse_query(" ".join(text), _conditions(options), now_ms=0, cursor=options["after"])


@command(
    "permission-ledger search 'git push'",
    "permission-ledger search git push --by ann --outcome allowed --since 30d",
    "permission-ledger search 'by:ann project:shop rm*' --json --limit 20",
)
@click.argument("text", nargs=-1, metavar="[WORDS]...")
@click.option("--by", metavar="NAME", help="Only what this person answered.")
@click.option("--outcome", metavar="OUTCOME", help=f"Only this outcome: {', '.join(OUTCOMES)}.")
@click.option("--since", metavar="TIME|DURATION", help="Asked at this time or later; `30d` is 30 days ago.")
@click.option("--until", metavar="TIME|DURATION", help="Asked at this time or before.")
@click.option("--project", metavar="PROJECT", help="Only requests of this project.")
@click.option("--agent", metavar="NAME", help="Only requests of this agent.")
@click.option("--permission", metavar="NAME", help="Only requests for this permission.")
@click.option("--session", metavar="SESSION", help="Only requests of this session.")
@click.option("--rule", metavar="WORDS", help="Only requests that a rule with these words decided.")
@click.option("--grant", metavar="GRANT", help="Only requests that made or used this grant.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=PAGE_COUNT, metavar="COUNT", help="Rows to show.")
@click.option("--after", metavar="CURSOR", help="Go on after a page: with the cursor that it ended with.")
@index_file_option
@utc_option
@checked(_check)
@with_ledger
async def search(
    ledger: Ledger,
    output: CommandOutput,
    *,
    text: tuple[str, ...],
    limit: int,
    after: str | None,
    file: Path | None,
    **conditions: str | None,
) -> None:
    """Find requests by words of their commands, paths, inputs and feedback, the newest first.

    Conditions may stand in the text: `by:NAME project:shop`. `*` at the end of a word is any ending. `permission-ledger
    worker indexer` keeps the index; stderr says how far it is behind the log.
    """
    query = parse_query(" ".join(text), conditions, now_ms=await ledger.store.now_ms(), cursor=after)
    ours = await deployment_of(ledger.store)
    with closing(IndexReader(file or default_file(ours))) as index:
        if index.deployment not in ("", ours):
            raise InputError(f"`{index.path}` is the index of another ledger; name another one with --file")
        lag = await lag_of(ledger.store, index)
        shown = await print_pages(output, _rows(index, query, limit), limit, COLUMNS, _cells)
    if not (shown or output.as_json):
        talk("no request matches")
    _tell_lag(output, lag)


def _conditions(options: Mapping[str, Any]) -> dict[str, str | None]:
    return {
        name: value
        for name, value in options.items()
        if name not in ("limit", "after", "file", "url", "utc", "as_json")
    }


async def _rows(index: IndexReader, query: SearchQuery, limit: int) -> Pages:
    # One more than fits tells whether there is another page.
    for one in index.search(query, limit + 1).found:
        yield str(one.request.id), one.as_json()


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    by = f" by {row['by']}" if row["by"] else ""
    reason = f" ({revealed(row['reason'])})" if row["reason"] else ""
    return (
        At(row["asked_at"]),
        IdCell(row["request_id"]),
        f"{row['outcome']}{by}",
        f"{revealed(row['permission'])} {revealed(row['call'])}{reason}",
        row["agent"],
        row["project"],
    )


def _tell_lag(output: CommandOutput, lag: IndexLag) -> None:
    if output.as_json:
        talk_json({"lag": {"sessions": lag.sessions, "events": lag.events, "whole": lag.whole}})
        return
    if lag.sessions:
        talk(f"the index is {lag.events} events of {lag.sessions} sessions behind the log; is an indexer running?")
    if not lag.whole:
        talk("the index is not whole: an indexer reads the log into it, or has to be started")


@command("permission-ledger why per_1", "permission-ledger why per_1 --session ses_1 --json")
@click.argument("request")
@click.option("--session", metavar="SESSION", help="The request's session, if several have its id.")
@click.option("--as", "name", metavar="NAME", help="Act as NAME (default: user@host).")
@index_file_option
@checked(lambda *, name, **_: local_actor(name))
@with_ledger
async def why(
    ledger: Ledger, output: CommandOutput, *, request: str, session: str | None, name: str | None, file: Path | None
) -> None:
    """Show the rule that asks, and the grants that would have answered a request, the smallest first.

    Each grant has the number of other requests of the project's last 30 days that it would have answered, with examples,
    rejected ones first, judged by the rules, grants and files of now. WIDE marks a grant that lets through much more than
    this call. The last lines are the rule to add to a file of the dialect.

    At most 300 past requests are examined: those in the index of `permission-ledger worker indexer`, else those of the
    newest sessions. REQUEST is an id, also of a settled request, or the beginning of one that is pending.
    """
    found = await ledger.session_of(request, session)
    row = await why_here(ledger, found, request, local_actor(name), file)
    output.result(row, *why_lines(row))


async def why_here(
    ledger: Ledger, session: Session, request_id: str, actor: Actor, file: Path | None = None
) -> dict[str, Any]:
    """Return the JSON object of a request's reason, with the files of this machine."""
    past = await _past_requests(ledger, session, file)
    found = await explain_request(ledger, session, request_id, past, Answerer(actor))
    return why_json(found, _rule(found))


async def _past_requests(ledger: Ledger, session: Session, file: Path | None) -> PastRequests:
    state = await session.state()
    since_ms = await ledger.store.now_ms() - LOOK_BACK_DAYS * DAY_MS
    found = await _indexed(ledger, state, since_ms, file)
    if found is not None:
        return found
    return await asked_before(
        ledger.store, ledger.streams, state, since_ms=since_ms, count=LOOKED_AT_COUNT, may_see=lambda *_: True
    )


async def _indexed(ledger: Ledger, state: SessionState, since_ms: int, file: Path | None) -> PastRequests | None:
    """Return what the index has; None without a whole index of this ledger. A named file that is none is an error."""
    ours = await deployment_of(ledger.store)
    try:
        with closing(IndexReader(file or default_file(ours))) as index:
            if not index.is_whole or index.deployment != ours:
                return None
            return asked_in_index(index, state, since_ms=since_ms, count=LOOKED_AT_COUNT, may_see=lambda *_: True)
    except SetupError:
        if file is not None:
            raise
        return None


def _rule(found: WhyAsked) -> dict[str, Any] | None:
    asked = advice_asked(found)
    if asked is None:
        return None
    try:
        return smallest_rule(asked, lambda source: with_facts(compile_policy(source), machine_facts()))
    except StoreError:
        raise
    except LedgerError:
        return None

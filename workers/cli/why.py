"""`why`: the rule that asks, and the grants that would have answered a request, with what else they would let through."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from ledger import Ledger, LedgerError, Session, StoreError
from ledger.client.machine import machine_facts
from ledger.client.why import Answerer, PastRequests, WhyAsked, advice_asked, explain_request, smallest_rule
from ledger.core.errors import SetupError
from ledger.core.events import Actor
from ledger.core.policy import Policy, PolicySource
from ledger.core.times import DAY_MS
from ledger.policy.check_questions import with_facts
from ledger.policy.dialects import compile_policy
from ledger.session.state import SessionState
from projections.session_list import asked_before
from workers.cli.base import checked, command, local_actor, with_ledger
from workers.cli.choices import named
from workers.cli.output import CommandOutput
from workers.cli.shared_options import index_file_option
from workers.indexer.reader import IndexReader, asked_in_index, deployment_of
from workers.indexer.schema import default_file
from workers.presentation.why import LOOK_BACK_DAYS, LOOKED_AT_COUNT, why_json, why_lines


@command(
    examples=(
        "permission-ledger why per_1",
        "permission-ledger why per_1 --session ses_1 --json",
    )
)
@click.argument("request")
@click.option("--session", metavar="SESSION", help="The session of the request, if several sessions have the id.")
@click.option("--as", "name", metavar="NAME", help="The person who would answer (default: user@host).")
@index_file_option
@checked(lambda *, name, **_: local_actor(name))
@with_ledger
async def why(
    ledger: Ledger, output: CommandOutput, *, request: str, session: str | None, name: str | None, file: Path | None
) -> None:
    """Show the rule that asks, and the grants that would have answered a request, the smallest first.

    Each grant has the number of requests of the last 30 days of the project that it would have answered, too, with
    examples, rejected ones first. They are judged by the rules, grants and files of now. WIDE marks a grant that lets
    through much more than this call. The last lines are the rule to add to a file of the dialect.

    Past requests are looked up in the index of `permission-ledger worker indexer`, else in the newest sessions of the project; at
    most 300 are looked at. REQUEST is an id, or the beginning of one that is pending; a settled request is explained, too.
    """
    target = (await named(ledger, [request], session)).targets[0]
    found = target.session or await ledger.session_of(target.request_id, session)
    row = await why_here(ledger, found, target.request_id, local_actor(name), file)
    if output.as_json:
        output.row(row)
        return
    for line in why_lines(row):
        output.line(line)


async def why_here(
    ledger: Ledger, session: Session, request_id: str, actor: Actor, file: Path | None = None
) -> dict[str, Any]:
    """Return the JSON object of a request's reason, with the files of this machine."""
    past = await _past(ledger, session, file)
    found = await explain_request(ledger, session, request_id, past, Answerer(actor))
    return why_json(found, _rule(found))


async def _past(ledger: Ledger, session: Session, file: Path | None) -> PastRequests:
    state = await session.state()
    since_ms = await ledger.store.now_ms() - LOOK_BACK_DAYS * DAY_MS
    found = await _indexed(ledger, state, since_ms, file)
    if found is not None:
        return found
    return await asked_before(
        ledger.store, ledger.streams, state, since_ms=since_ms, count=LOOKED_AT_COUNT, may_see=_everything
    )


async def _indexed(ledger: Ledger, state: SessionState, since_ms: int, file: Path | None) -> PastRequests | None:
    """Return what the index has; None without a whole index of this ledger. A named file that is none is an error."""
    try:
        with closing(IndexReader(file or default_file())) as index:
            if not index.is_whole or index.deployment != await deployment_of(ledger.store):
                return None
            return asked_in_index(index, state, since_ms=since_ms, count=LOOKED_AT_COUNT, may_see=_everything)
    except SetupError:
        if file is not None:
            raise
        return None


def _everything(*_: str | None) -> bool:
    return True


def _rule(found: WhyAsked) -> dict[str, Any] | None:
    asked = advice_asked(found)
    if asked is None:
        return None
    try:
        return smallest_rule(asked, _compiled_here)
    except StoreError:
        raise
    except LedgerError:
        return None


def _compiled_here(source: PolicySource) -> Policy:
    return with_facts(compile_policy(source), machine_facts())

"""`access`: recorded reads and sign-ins, failed ones too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ledger.core.times import format_time, parse_time
from ledger.log.reads import KINDS, RecordedRead, recorded
from workers.cli.base import command, with_ledger
from workers.cli.output import CommandOutput

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS: Final = ("at", "kind", "who", "via", "session", "what", "from", "times")
COUNT_DEFAULT: Final = 200
COUNT_MAX: Final = 10_000


@command(
    examples=(
        "permission-ledger access",
        "permission-ledger access --kind failed_sign_in --since 2026-01-31T00:00:00Z",
        "permission-ledger access --session ses_1 --json",
    )
)
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only reads of this kind; repeatable.")
@click.option("--who", metavar="NAME", help="Only those of this person.")
@click.option("--session", metavar="SESSION", help="Only those of this session.")
@click.option("--since", metavar="TIME", help="Only those from this time on, RFC 3339.")
@click.option(
    "--limit",
    type=click.IntRange(1, COUNT_MAX),
    default=COUNT_DEFAULT,
    show_default=True,
    help="The number of rows, newest ones.",
)
@with_ledger
async def access(
    ledger: Ledger,
    output: CommandOutput,
    *,
    kinds: Any,
    who: str | None,
    session: str | None,
    since: str | None,
    limit: int,
) -> None:
    """List who signed in, tried to, looked at a session or an answer link, or took an export, oldest first.

    The gateway records requests to it. Reads of the server itself are not recorded.
    """
    since_ms = 0 if since is None else parse_time(since)
    found = await recorded(ledger.store, tuple(kinds) or KINDS, since_ms=since_ms, count=COUNT_MAX)
    rows = [
        one
        for one in found
        if (who is None or one.read.name == who) and (session is None or one.read.session == session)
    ][-limit:]
    output.listing(rows, RecordedRead.as_json, COLUMNS, _cells, none="nothing was recorded")


def _cells(one: RecordedRead) -> tuple[object, ...]:
    read = one.read
    return (format_time(one.ms), read.kind, read.name, read.via, read.session, read.what, read.address, read.count)

"""`approved`, `grant` and `revoke`: permissions granted in advance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ledger.client.grant_list import GrantList, listed
from ledger.client.grant_uses import GrantUse
from ledger.core.times import format_time, parse_duration
from ledger.log.places import GrantPlace
from ledger.log.surveys import StreamProblem
from workers.cli.base import (
    Pages,
    check_page,
    checked,
    command,
    local_actor,
    page_count,
    paged,
    print_pages,
    read_count,
    rows_of,
    utc_option,
    with_ledger,
)
from workers.cli.options import adding
from workers.cli.output import CommandOutput, Exit, talk, tell_problems
from workers.cli.tables import At, IdCell, Wide, at

if TYPE_CHECKING:
    from ledger import Approved, Ledger

COLUMNS = ("grant", "scope", Wide("what it allows"), "by", "expires", "last used")
USE_COLUMNS = ("at", "session", "request", Wide("call"), "outcome", "ran")


where: Final = adding(
    click.option("--session", metavar="SESSION", help="One session's grants."),
    click.option("--project", metavar="PROJECT", help="One project's grants."),
)


def check_where(*, session: str | None, project: str | None, **_others: object) -> None:
    if (session is None) == (project is None):
        raise click.UsageError("give either --session SESSION or --project PROJECT")


def check_list(*, session: str | None, project: str | None, limit: int | None, everything: bool, **_: object) -> None:
    if session is not None and project is not None:
        raise click.UsageError("give --session SESSION or --project PROJECT, not both")
    check_page(limit=limit, everything=everything)


@command(
    "permission-ledger approved",
    "permission-ledger approved --session ses_1",
    "permission-ledger approved --project shop --json",
)
@where
@paged
@checked(check_list)
@with_ledger
async def approved(
    ledger: Ledger,
    output: CommandOutput,
    *,
    session: str | None,
    project: str | None,
    limit: int | None,
    after: str | None,
    everything: bool,
) -> int:
    """List the grants in force in a session (its project's too), in a project, or everywhere.

    They come oldest first; those of a session before those of its project.
    """
    count = page_count(output, limit, everything=everything)
    start = None if after is None else GrantPlace.of_cursor(after)
    problems: list[StreamProblem] = []
    if session is None and project is None:
        pages = GrantList(ledger.store, ledger.streams).pages(start, read_count(count))
        everywhere = rows_of(pages, problems)
        rows: Pages = everywhere
    else:
        # A damaged session may be one of another project, and has no grant of this one: it only tells no use.
        of_project = None if project is None else (await ledger.grants_in_project(project)).rows
        grants = of_project if session is None else await (await ledger.attach(session)).approved()
        rows = _of_one(grants or (), start)
    shown = await print_pages(output, rows, count, COLUMNS, approved_cells)
    if not (shown or problems or after or output.as_json):
        talk("no grant is in force")
    return tell_problems(output, problems)


async def _of_one(grants: Sequence[Approved], after: GrantPlace | None) -> Pages:
    rows = [listed(one) for one in grants]
    if after is not None:
        places = [one.cursor for one in rows]
        # A grant that has ended since is not there: then what is newer follows it.
        is_there = after.cursor in places
        begin = places.index(after.cursor) + 1 if is_there else 0
        rows = [one for one in rows[begin:] if is_there or one.order > after.order]
    for one in rows:
        yield one.cursor, one.row


def approved_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    wider = " (wider than offered)" if row.get("wider") else ""
    uses = "" if row["uses"] is None else f" ({row['uses_left']} of {row['uses']} uses left)"
    return (
        IdCell(row["grant_id"]),
        row["scope"],
        f"{row['permission']} `{row['pattern']}`{wider}{uses}",
        f"{row['by']}{' (imported)' if row.get('imported') else ''}",
        at(row["expires_at"], "never"),
        at(row["last_used_at"], "never"),
    )


@command(
    "permission-ledger grant --project shop bash 'git *' --expires 30d",
    "permission-ledger grant --session ses_1 edit 'src/*' 'tests/*' --reason 'refactoring'",
    "permission-ledger grant --project shop bash 'make deploy' --uses 1 --expires 1h",
)
@click.argument("permission")
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...")
@where
@click.option("--expires", metavar="DURATION", help="Its lifetime (default: until revoked).")
@click.option("--uses", type=int, metavar="COUNT", help="The number of calls that it allows (default: any number).")
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@checked(check_where)
@with_ledger
async def grant(
    ledger: Ledger,
    output: CommandOutput,
    *,
    permission: str,
    patterns: Sequence[str],
    session: str | None,
    project: str | None,
    expires: str | None,
    uses: int | None,
    reason: str | None,
) -> None:
    """Allow PATTERNs of a permission from now on; the pattern * is the whole tool.

    Each pattern is one grant. A grant answers what rules would ask; what a rule denies stays denied.
    """
    bounds: dict[str, Any] = {
        "expires_in_ms": None if expires is None else parse_duration(expires, "--expires"),
        "uses": uses,
        "reason": reason,
        "actor": local_actor(),
    }
    for pattern in patterns:
        if session is not None:
            handle = await ledger.attach(session)
            made = await handle.grant(permission, pattern, **bounds)
        else:
            made = await ledger.grant_in_project(project or "", permission, pattern, **bounds)
        output.result(made.as_json(), _sentence(made))


def _sentence(made: Approved) -> str:
    grant = made.grant
    place = f"session {made.session}" if grant.scope == "session" else f"project {made.project}"
    until = "until it is revoked" if grant.expires_ms is None else f"until {format_time(grant.expires_ms)}"
    uses = "" if grant.uses is None else f", for {grant.uses} call{'s' if grant.uses > 1 else ''}"
    return f"granted {grant.grant_id}: {grant.permission} `{grant.pattern}` in {place}, {until}{uses}"


def _check_revoke(*, grant: str | None, uses_of: str | None, reason: str | None, **_others: object) -> None:
    if (grant is None) == (uses_of is None):
        raise click.UsageError("give GRANT to revoke it, or --uses-of GRANT to see what it let through")
    if uses_of is not None and reason is not None:
        raise click.UsageError("--reason is for a revocation; --uses-of revokes nothing")


def _use_cells(use: GrantUse) -> tuple[str | None, ...]:
    return (
        At(format_time(use.at_ms)),
        IdCell(use.session),
        IdCell(use.request_id),
        f"{use.permission} {use.what}",
        use.outcome or "not allowed any more",
        "yes" if use.ran else "not recorded",
    )


@command(
    "permission-ledger revoke grn_1",
    "permission-ledger revoke grn_1 --reason 'too wide' --json",
    "permission-ledger revoke --uses-of grn_1",
)
@click.argument("grant", required=False)
@click.option("--uses-of", metavar="GRANT", help="Show the calls that a grant let through, and revoke nothing.")
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@utc_option
@checked(_check_revoke)
@with_ledger
async def revoke(
    ledger: Ledger, output: CommandOutput, *, grant: str | None, uses_of: str | None, reason: str | None
) -> int:
    """End a grant, wherever it stands: every ask that starts afterwards is judged without it.

    `--uses-of` lists what a grant let through, also one that has ended: each use of a grant with a limit, and each
    request that one without a limit allowed.
    """
    if uses_of is not None:
        found = await ledger.uses_of(uses_of)
        output.listing(found.rows, GrantUse.as_json, USE_COLUMNS, _use_cells, none=f"{uses_of} let nothing through")
        return tell_problems(output, found.problems)
    assert grant is not None, "checked"
    key = await ledger.revoke(grant, reason=reason, actor=local_actor())
    places = {kind: key.id if key.kind == kind else None for kind in ("session", "project")}
    output.result({"grant_id": grant, **places}, f"revoked {grant} of {key.kind} {key.id}")
    return Exit.DONE

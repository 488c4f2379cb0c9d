"""`approved`, `grant` and `revoke`: permissions granted in advance."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ledger import Approved, Ledger
from ledger.core.durations import parse_duration
from ledger.core.times import format_time
from ledger.log.surveys import Survey
from workers.cli.base import Run, checked, command, local_actor, with_ledger
from workers.cli.output import CommandOutput
from workers.cli.problems import tell_problems

COLUMNS = ("grant", "scope", "permission", "pattern", "by", "at", "expires", "from request")


def where(function: Run) -> Run:
    """Add `--session` and `--project`; exactly one must be given."""
    for option, help_text in (("project", "One project's grants."), ("session", "One session's grants.")):
        function = click.option(f"--{option}", metavar=option.upper(), help=help_text)(function)
    return function


def check_where(*, session: str | None, project: str | None, **_others: object) -> None:
    if (session is None) == (project is None):
        raise click.UsageError("give either --session SESSION or --project PROJECT")


def check_at_most_one(*, session: str | None, project: str | None, **_others: object) -> None:
    if session is not None and project is not None:
        raise click.UsageError("give --session SESSION or --project PROJECT, not both")


@command(
    examples=(
        "permission-ledger approved",
        "permission-ledger approved --session ses_1",
        "permission-ledger approved --project shop --json",
    )
)
@where
@checked(check_at_most_one)
@with_ledger
async def approved(ledger: Ledger, output: CommandOutput, *, session: str | None, project: str | None) -> int:
    """List the grants in force in a session (its project's too), in a project, or everywhere.

    Streams that are damaged are named on stderr (exit code 11), beside the grants of all others.
    """
    found = await _approved(ledger, session, project)
    output.listing(found.rows, Approved.as_json, COLUMNS, approved_cells, none="no grant is in force")
    return tell_problems(output, found.problems)


async def _approved(ledger: Ledger, session: str | None, project: str | None) -> Survey[Approved]:
    if session is not None:
        return Survey(await (await ledger.attach(session)).approved(), [])
    if project is not None:
        return Survey(await ledger.approved_in_project(project), [])
    return await ledger.grants_anywhere()


def approved_cells(one: Approved) -> tuple[str | None, ...]:
    grant = one.grant
    return (
        grant.grant_id,
        grant.scope,
        grant.permission,
        f"`{grant.pattern}`",
        f"{grant.by.name}{' (imported)' if grant.imported else ''}",
        format_time(grant.at_ms),
        "never" if grant.expires_ms is None else format_time(grant.expires_ms),
        grant.request_id,
    )


@command(
    examples=(
        "permission-ledger grant --project shop bash 'git *' --expires 30d",
        "permission-ledger grant --session ses_1 edit 'src/*' 'tests/*' --reason 'refactoring'",
    )
)
@click.argument("permission")
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...")
@where
@click.option("--expires", metavar="DURATION", help="Its lifetime (default: until revoked).")
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
    reason: str | None,
) -> None:
    """Allow PATTERNs of a permission from now on; the pattern * is the whole tool.

    Each pattern is one grant. A grant answers what rules would ask; what a rule denies stays denied.
    """
    expires_in_ms = None if expires is None else parse_duration(expires, "--expires")
    for pattern in patterns:
        if session is not None:
            handle = await ledger.attach(session)
            made = await handle.grant(
                permission, pattern, expires_in_ms=expires_in_ms, reason=reason, actor=local_actor()
            )
        else:
            made = await ledger.grant_in_project(
                project or "", permission, pattern, expires_in_ms=expires_in_ms, reason=reason, actor=local_actor()
            )
        if output.as_json:
            output.row(made.as_json())
        else:
            output.line(_sentence(made))


def _sentence(made: Approved) -> str:
    grant = made.grant
    place = f"session {made.session}" if grant.scope == "session" else f"project {made.project}"
    until = "until it is revoked" if grant.expires_ms is None else f"until {format_time(grant.expires_ms)}"
    return f"granted {grant.grant_id}: {grant.permission} `{grant.pattern}` in {place}, {until}"


@command(examples=("permission-ledger revoke grn_1", "permission-ledger revoke grn_1 --reason 'too wide' --json"))
@click.argument("grant")
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@with_ledger
async def revoke(ledger: Ledger, output: CommandOutput, *, grant: str, reason: str | None) -> None:
    """End a grant, wherever it stands: every ask that starts afterwards is judged without it."""
    key = await ledger.revoke(grant, reason=reason, actor=local_actor())
    if output.as_json:
        places = {kind: key.id if key.kind == kind else None for kind in ("session", "project")}
        output.row({"grant_id": grant, **places})
    else:
        output.line(f"revoked {grant} of {key.kind} {key.id}")

"""`archive` and `restore`: closed and idle sessions moved to files outside the server, and brought back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import click

from ledger import Ledger, UnknownSessionError
from ledger.core.durations import parse_duration
from ledger.core.errors import InputError
from ledger.core.ids import check_id
from ledger.log.archive.archived_store import archive_of
from ledger.log.archive.sealing import IDLE_MS, Sealing, SealResult, SealRule
from ledger.stores.port import START, StreamKey
from workers.cli.base import command, with_ledger
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput, talk
from workers.upkeep.archiving import bringing_up, old_or_closed

COLUMNS = ("session", "events", "file", "kept, because")


@command(
    examples=(
        "permission-ledger archive --to /srv/ledger-archive --dry-run",
        "permission-ledger archive --to s3://bucket/ledger",
        "permission-ledger archive --older-than 90d --project shop --json",
        "permission-ledger archive ses_1 ses_2",
    )
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--older-than", metavar="DURATION", help="Open sessions without an event for so long (default: 30d).")
@click.option("--project", metavar="PROJECT", help="Only the sessions of this project.")
@click.option(
    "--to",
    metavar="URL",
    help="Set the archive of this ledger, for all of its processes: a folder, or s3://, gs:// or az://.",
)
@click.option("--dry-run", is_flag=True, help="Seal nothing, and list what would be sealed.")
@with_ledger
async def archive(
    ledger: Ledger,
    output: CommandOutput,
    *,
    sessions: Sequence[str],
    older_than: str | None,
    project: str | None,
    to: str | None,
    dry_run: bool,
) -> int:
    """Seal sessions: write them to the archive, read them back from there, and take them out of the server.

    Without a SESSION it seals all that are closed, and all without an event for --older-than. A session stays where it is
    while something in it is pending or claimed, while a projector is behind, or while its project lacks a grant that it
    made. Sealed sessions are read, verified and exported like all others, and come back by themselves when something
    new is written to them. The exit code is 11 if a damaged session was left out.
    """
    held = archive_of(ledger.store)
    rule = seal_rule(older_than, project)
    if to is not None and not dry_run:
        talk(f"the archive is {await held.set_url(to)}")
    found = _named(ledger, sessions) if sessions else old_or_closed(ledger, rule)
    sealing = Sealing(ledger.store, ledger.streams, held, rule, bringing_up(ledger))
    results: list[SealResult] = []
    async for result in sealing.seal(found, dry_run=dry_run):
        results.append(result)
        if output.as_json:
            output.row({**result.as_json(), "dry_run": dry_run})
    return _tell(output, results, dry_run=dry_run)


def seal_rule(older_than: str | None, project: str | None) -> SealRule:
    """Return the rule of the options of that name. Raises InputError."""
    idle_ms = IDLE_MS if older_than is None else parse_duration(older_than, "--older-than")
    if idle_ms is None:
        raise InputError("--older-than is a duration like `30d`")
    return SealRule(idle_ms=idle_ms, project=None if project is None else check_id(project, "project id"))


async def _named(ledger: Ledger, sessions: Sequence[str]) -> AsyncIterator[StreamKey]:
    keys = [StreamKey("session", check_id(session, "session id")) for session in dict.fromkeys(sessions)]
    heads = await ledger.store.admin.heads(keys)
    for key, head in zip(keys, heads, strict=True):
        if head == START:
            raise UnknownSessionError(f"there is no session `{key.id}`", session=key.id)
    for key in keys:
        yield key


def _tell(output: CommandOutput, results: Sequence[SealResult], *, dry_run: bool) -> int:
    sealed = [one for one in results if one.kept is None]
    if results and not output.as_json:
        output.table(COLUMNS, [(one.key.id, one.events, one.file, one.kept) for one in results])
    done = "would be sealed" if dry_run else "sealed"
    events = sum(one.events for one in sealed)
    talk(f"{len(sealed)} sessions with {events} events {done}, {len(results) - len(sealed)} kept")
    return Exit.FINDINGS if any(one.is_damaged for one in results) else Exit.DONE


@command(examples=("permission-ledger restore ses_1", "permission-ledger restore ses_1 --json"))
@click.argument("session")
@with_ledger
async def restore(ledger: Ledger, output: CommandOutput, *, session: str) -> None:
    """Bring a sealed session back to the server, with every entry as it was; its file stays in the archive.

    A session that is on the server already stays as it is.
    """
    key = StreamKey("session", check_id(session, "session id"))
    (seal,) = await ledger.store.admin.seals([key])
    if seal is not None:
        await archive_of(ledger.store).restore(key, seal)
    (head,) = await ledger.store.admin.heads([key])
    if head == START:
        raise UnknownSessionError(f"there is no session `{session}`", session=session)
    if output.as_json:
        file = None if seal is None else seal.file
        output.row({"session": session, "restored": seal is not None, "versions": head.version, "file": file})
    elif seal is None:
        output.line(f"session `{session}` is on the server, and was not sealed")
    else:
        output.line(f"session `{session}` is on the server again, with {head.version} events")

"""`archive` and `restore`: closed and idle sessions moved to files outside the server, and brought back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from ledger import UnknownSessionError
from ledger.core.errors import InputError
from ledger.core.ids import check_id
from ledger.core.times import DAY_MS, parse_duration
from ledger.log.archive.archive import archive_of
from ledger.log.archive.sealing import IDLE_MS, Sealing, SealResult, SealRule
from ledger.log.archive.sweeping import Sweeping
from ledger.stores.port import START, StreamKey
from workers.cli.base import checked, command, with_ledger
from workers.cli.output import CommandOutput, Exit, talk
from workers.cli.tables import Wide
from workers.runtime.children import collect_rarely
from workers.upkeep.archiving import bringing_up, hold_reason, parse_size, to_seal, used_bytes

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("session", "events", Wide("file"), Wide("kept, because"))
SWEPT_COLUMNS = (Wide("file"), "done", "sessions", Wide("into"), Wide("because"))

SWEEP_MS: Final = DAY_MS
"""The age from which files are swept, unless --older-than says otherwise."""


def _check(
    *,
    sessions: Sequence[str],
    project: str | None,
    to: str | None,
    when_memory_above: str | None,
    sweep: bool,
    **_others: object,
) -> None:
    if sweep and (sessions or project or to or when_memory_above):
        raise click.UsageError("--sweep goes with --older-than and --dry-run only")
    if sessions and when_memory_above:
        raise click.UsageError("name sessions, or give --when-memory-above SIZE")


@command(
    "permission-ledger archive --to /srv/ledger-archive --dry-run",
    "permission-ledger archive --to s3://bucket/ledger",
    "permission-ledger archive --older-than 90d --project shop --json",
    "permission-ledger archive ses_1 ses_2",
    "permission-ledger archive --sweep --dry-run",
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--older-than", metavar="DURATION", help="Open sessions without an event for so long (default: 30d).")
@click.option("--project", metavar="PROJECT", help="Only the sessions of this project.")
@click.option(
    "--to",
    metavar="URL",
    help="Set the archive of this ledger, for all of its processes: a folder, or s3://, gs:// or az://.",
)
@click.option(
    "--when-memory-above",
    metavar="SIZE",
    help="Only while a server uses more memory: 512MB, 2GB. The sessions that rest longest go first.",
)
@click.option(
    "--sweep",
    is_flag=True,
    help="Seal nothing: remove files to which no session refers, written longer ago than --older-than (default: 1d).",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, and list what would be sealed or removed.")
@checked(_check)
@with_ledger
async def archive(
    ledger: Ledger,
    output: CommandOutput,
    *,
    sessions: Sequence[str],
    older_than: str | None,
    project: str | None,
    to: str | None,
    when_memory_above: str | None,
    sweep: bool,
    dry_run: bool,
) -> int:
    """Seal sessions: write them to the archive, read them back from there, and take them out of the server.

    Without a SESSION it seals all that are closed, and all without an event for --older-than. A session stays while
    something in it is pending or claimed, while a projector is behind, or while its project lacks a grant that it made.
    Sealed sessions are read, verified and exported like all others, and come back when something new is written to them.
    The exit code is 11 if a damaged session was left out.

    --sweep removes what a crash, a restore or a redaction left in the archive: files whose sessions are all elsewhere,
    with the same bytes; sessions that still refer to a file move to a new one first. What has to stay is named (11).
    """
    held = archive_of(ledger.store)
    if sweep:
        return await _swept(ledger, output, older_than, dry_run=dry_run)
    rule = seal_rule(older_than, project)
    if to is not None and not dry_run:
        talk(f"the archive is {await held.set_url(to)}")
    above_bytes = memory_bound(when_memory_above)
    if above_bytes is not None:
        talk(
            f"the fullest server uses {await used_bytes(ledger):,} bytes; sessions go while that is above {above_bytes:,}"
        )
    found = _named(ledger, sessions) if sessions else to_seal(ledger, rule, above_bytes)
    sealing = Sealing(ledger.store, ledger.streams, held, rule, bringing_up(ledger))
    results: list[SealResult] = []
    collect_rarely()
    async for result in sealing.seal(found, dry_run=dry_run):
        results.append(result)
        if output.as_json:
            output.row({**result.as_json(), "dry_run": dry_run})
    sealed = [one for one in results if one.kept is None]
    if results and not output.as_json:
        output.table(COLUMNS, [(one.key.id, one.events, one.file, one.kept) for one in results])
    done = "would be sealed" if dry_run else "sealed"
    events = sum(one.events for one in sealed)
    talk(f"{len(sealed)} sessions with {events} events {done}, {len(results) - len(sealed)} kept")
    return Exit.FINDINGS if any(one.is_damaged for one in results) else Exit.DONE


def seal_rule(older_than: str | None, project: str | None) -> SealRule:
    """Return the rule of the options of that name. Raises InputError."""
    idle_ms = IDLE_MS if older_than is None else parse_duration(older_than, "--older-than")
    if idle_ms is None:
        raise InputError("--older-than is a duration like `30d`")
    return SealRule(idle_ms=idle_ms, project=None if project is None else check_id(project, "project id"))


def memory_bound(text: str | None) -> int | None:
    """Return the bytes of --when-memory-above. Raises InputError."""
    return None if text is None else parse_size(text, "--when-memory-above")


async def _named(ledger: Ledger, sessions: Sequence[str]) -> AsyncIterator[StreamKey]:
    keys = [StreamKey("session", check_id(session, "session id")) for session in dict.fromkeys(sessions)]
    heads = await ledger.store.heads(keys)
    for key, head in zip(keys, heads, strict=True):
        if head.at == START:
            raise UnknownSessionError(f"there is no session `{key.id}`", session=key.id)
    for key in keys:
        yield key


async def _swept(ledger: Ledger, output: CommandOutput, older_than: str | None, *, dry_run: bool) -> int:
    age_ms = SWEEP_MS if older_than is None else parse_duration(older_than, "--older-than")
    if age_ms is None:
        raise InputError("--older-than is a duration like `1d`")
    sweeping = Sweeping(ledger.store, archive_of(ledger.store), hold_reason(ledger))
    results = []
    async for result in sweeping.sweep(age_ms, dry_run=dry_run):
        results.append(result)
        if output.as_json:
            output.row({**result.as_json(), "dry_run": dry_run})
    if results and not output.as_json:
        output.table(SWEPT_COLUMNS, [(one.file, one.done, one.sessions, one.into, one.why) for one in results])
    kept = sum(one.done == "kept" for one in results)
    done = "would be removed or rewritten" if dry_run else "removed or rewritten"
    talk(f"{len(results) - kept} files {done}, {kept} kept")
    return Exit.FINDINGS if any(one.is_problem for one in results) else Exit.DONE


@command("permission-ledger restore ses_1", "permission-ledger restore ses_1 --json")
@click.argument("session")
@with_ledger
async def restore(ledger: Ledger, output: CommandOutput, *, session: str) -> None:
    """Bring a sealed session back to the server, with every entry as it was; its file stays in the archive.

    A session on the server stays as it is.
    """
    key = StreamKey("session", check_id(session, "session id"))
    seal = (await ledger.store.heads([key]))[0].seal
    if seal is not None:
        await archive_of(ledger.store).restore(key, seal)
    head = (await ledger.store.heads([key]))[0].at
    if head == START:
        raise UnknownSessionError(f"there is no session `{session}`", session=session)
    row = {"session": session, "restored": seal is not None, "versions": head.version}
    done = "on the server, and was not sealed" if seal is None else f"on the server again, with {head.version} events"
    output.result({**row, "file": None if seal is None else seal.file}, f"session `{session}` is {done}")

"""`export` and `import`: streams to a file and from it, ids, bytes and chain unchanged."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from ledger import InputError, UnknownSessionError
from ledger.client.machine import default_actor_name
from ledger.core.errors import StoreError
from ledger.core.ids import check_id
from ledger.core.regular_files import open_regular, private_file
from ledger.log.archive.archive import all_streams
from ledger.log.reads import AuditedRead, record
from ledger.log.surveys import StreamProblem
from ledger.stores.port import StreamKey
from workers.cli import grants
from workers.cli.base import command, local_actor, with_ledger
from workers.cli.options import with_jobs
from workers.cli.output import CommandOutput, GrowingTable, progress, talk, tell_problems
from workers.presentation.text import json_line
from workers.upkeep.export_files import HEADER_LINE, places_in, portions_of
from workers.upkeep.stream_checks import check_stream
from workers.upkeep.transfer import (
    EXPORTED_AT_ONCE_COUNT,
    Arrival,
    CheckedPortion,
    FileToImport,
    ImportedStream,
    check_import,
    export_stream,
    export_streams,
    footer,
    in_force_by,
    refusal,
    write_import,
)
from workers.upkeep.works import processes_for, results_of

if TYPE_CHECKING:
    from ledger import Approved, Ledger

Write = Callable[[bytes], object]
"""Writes whole lines."""

NAMED_COUNT = 5
"""The number of sessions named in the record of an export."""


@command(
    "permission-ledger export ses_1 --out ses_1.jsonl",
    "permission-ledger export --all --out ledger.jsonl --jobs 2",
    name="export",
    with_json=False,
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--all", "all_streams", is_flag=True, help="All sessions, projects and rules.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Instead of stdout.")
@with_jobs
@with_ledger
async def export(
    ledger: Ledger,
    output: CommandOutput,
    *,
    sessions: Sequence[str],
    all_streams: bool,
    out: Path | None,
    jobs: int | None,
) -> int:
    """Write sessions, with their rules and the grants of their projects, as JSON lines; each entry stands there byte for byte.

    A stream that `verify` finds fault with is refused; with --all it is named on stderr (11), and all others are written.
    """
    if all_streams == bool(sessions):
        raise click.UsageError("name sessions, or give --all")
    if jobs and not all_streams:
        raise click.UsageError("--jobs goes with --all")
    if all_streams:
        count, problems = await _export_all(ledger, output, out, jobs)
    else:
        count, problems = await _export_named(ledger, output, await _named(ledger, sessions), out), []
    await _note(ledger, sessions, out)
    talk(f"exported {count} streams" + (f" to {out}" if out else ""))
    return tell_problems(output, problems)


async def _export_named(ledger: Ledger, output: CommandOutput, keys: Sequence[StreamKey], out: Path | None) -> int:
    with _written(out, output) as write, progress("streams", len(keys)) as advance:
        write(HEADER_LINE)
        for key in keys:
            await _write_stream(ledger, key, write)
            advance(1)
        write(_line(footer(len(keys))))
    return len(keys)


async def _write_stream(ledger: Ledger, key: StreamKey, write: Write) -> None:
    """Write a stream line by line, however long it is. Raises DamageError for a damaged one."""
    async for line in export_stream(ledger.store, await check_stream(ledger.store, key)):
        write(_line(line))


async def _export_all(
    ledger: Ledger, output: CommandOutput, out: Path | None, jobs: int | None
) -> tuple[int, list[StreamProblem]]:
    """Write all streams, in processes where there are several.

    Return the number of streams in the file, and the streams that are not in it.
    """
    # Rules and projects sort before the sessions that name them.
    keys = sorted([key async for key in all_streams(ledger.store) if key.kind != "access"])
    problems: list[StreamProblem] = []
    with _written(out, output) as write, progress("streams", len(keys)) as advance:
        write(HEADER_LINE)
        at_once = EXPORTED_AT_ONCE_COUNT
        portions = [keys[start : start + at_once] for start in range(0, len(keys), at_once)]
        async for some in results_of(export_streams, ledger, portions, processes_for(jobs, len(keys))):
            for key, found in some:
                if isinstance(found, StreamProblem):
                    problems.append(found)
                elif found is None:
                    await _write_stream(ledger, key, write)
                else:
                    write(found)
            advance(len(some))
        count = len(keys) - len(problems)
        write(_line(footer(count)))
    return count, problems


async def _note(ledger: Ledger, sessions: Sequence[str], out: Path | None) -> None:
    """Record the export. A reader who may not write to the server gets a warning instead."""
    what = ", ".join(sessions[:NAMED_COUNT]) if sessions else "everything"
    read = AuditedRead(kind="export", name=default_actor_name(), via="cli", what=f"{what} to {out or 'stdout'}")
    try:
        await record(ledger.store, (read,))
    except StoreError as error:
        talk(f"this export was not recorded: {error}")


async def _named(ledger: Ledger, sessions: Sequence[str]) -> list[StreamKey]:
    keys = [StreamKey("session", check_id(session, "session id")) for session in dict.fromkeys(sessions)]
    named: list[StreamKey] = []
    for key in keys:
        if await ledger.store.info(key) is None:
            raise UnknownSessionError(f"there is no session `{key.id}`", session=key.id)
        checked = await check_stream(ledger.store, key)
        named += [StreamKey("policy", one) for one in checked.rules]
        named += [] if checked.project is None else [StreamKey("project", checked.project)]
    # Grants and rules first, so that an interrupted import never leaves a session without them.
    return [*[one for one in dict.fromkeys(named) if await ledger.store.info(one) is not None], *keys]


@contextmanager
def _written(out: Path | None, output: CommandOutput) -> Iterator[Write]:
    """Yield a function that writes lines; the file gets its name only when it is complete."""
    if out is None:
        yield output.written_rows
        return
    try:
        with private_file(out) as file:
            yield file.write
    except OSError as error:
        raise InputError(f"`{out}` cannot be written: {error.strerror}") from error


def _line(value: dict[str, Any]) -> bytes:
    return f"{json_line(value)}\n".encode()


COLUMNS = ("stream", "entries", "added", "head")


@command(
    "permission-ledger import ledger.jsonl --dry-run",
    "permission-ledger import ledger.jsonl --with-grants",
    "permission-ledger import ledger.jsonl --jobs 2",
    "permission-ledger import ledger.jsonl --json",
    name="import",
)
@click.argument("file", metavar="FILE")
@click.option("--with-grants", is_flag=True, help="Import also what brings grants in force.")
@click.option(
    "--dry-run", is_flag=True, help="Write nothing: print what would be new, and the grants it brings in force."
)
@with_jobs
@with_ledger
async def import_(
    ledger: Ledger,
    output: CommandOutput,
    *,
    file: str,
    with_grants: bool,
    dry_run: bool,
    jobs: int | None,
) -> None:
    """Read what `export` wrote (`-` is stdin) into this ledger, ids, times and chain as they were.

    The whole file is checked before the first write. A stream that is there already is left alone if the file holds the
    same; if it is another one, or a grant would be in force and --with-grants is not given, nothing is imported. An
    `imported` event follows each stream that was written.
    """
    with _opened(file) as (opened, path):
        places = places_in(opened, file)
        to_import, count = FileToImport(path, file), processes_for(jobs, len(places))
        portions = portions_of(places)
        checked: list[CheckedPortion] = []
        # The whole file before the first write.
        with progress("streams checked", sum(len(one.keys) for one in portions)) as advance:
            async for one in results_of(partial(check_import, to_import), ledger, portions, count):
                checked.append(one)
                advance(len(one.arrivals))
        arrivals = [arrival for one in checked for arrival in one.arrivals]
        found = await in_force_by(ledger, arrivals)
        if dry_run:
            _tell_arrivals(output, arrivals, found)
            return
        if found and not with_grants:
            raise refusal(file, found)
        shown = GrowingTable(output, COLUMNS, _imported_cells, _imported_json)
        await _write(ledger, to_import, checked, _by_stream(arrivals, found), shown, jobs=count)
    shown.end()
    answers = sum(one.answers for one in arrivals)
    added = sum(one.added for one in arrivals)
    brought = f", with {len(found)} grants in force and {answers} answers that allowed something" if added else ""
    talk(f"imported {len(arrivals)} streams: {added} new{brought}")
    if added:
        talk("hint: `permission-ledger rebuild` brings back the views")


async def _write(
    ledger: Ledger,
    file: FileToImport,
    checked: Sequence[CheckedPortion],
    in_force: Counter[StreamKey],
    shown: GrowingTable[ImportedStream],
    *,
    jobs: int,
) -> None:
    """Write the portions, those of sessions last: none is there without its rules and the grants of its project."""
    work = partial(write_import, file, local_actor())
    with progress("streams", sum(len(one.arrivals) for one in checked)) as advance:
        for kind in ("policy", "project", "session"):
            portions = [
                (one.portion, one.digest, [in_force[key] for key in one.portion.keys])
                for one in checked
                if one.portion.keys[0].kind == kind
            ]
            async for imported in results_of(work, ledger, portions, jobs):
                for one in imported:
                    shown.add(one)
                advance(len(imported))


def _imported_cells(one: ImportedStream) -> tuple[object, ...]:
    return one.key.name, one.entries, one.added, one.head.position


def _imported_json(one: ImportedStream) -> dict[str, Any]:
    head = {"id": str(one.head.position), "hash": one.head.hash}
    return {"stream": one.key.name, "entries": one.entries, "added": one.added, "head": head}


def _by_stream(arrivals: Sequence[Arrival], found: Sequence[Approved]) -> Counter[StreamKey]:
    """Return the number of grants that each stream's import brings in force: a project's or its sessions' replies'."""
    arriving = {one.key for one in arrivals}
    counts: Counter[StreamKey] = Counter()
    for one in found:
        project = StreamKey("project", one.project or "")
        of_project = one.grant.scope == "project" and project in arriving
        counts[project if of_project else StreamKey("session", one.session or "")] += 1
    return counts


def _tell_arrivals(output: CommandOutput, arrivals: Sequence[Arrival], found: Sequence[Approved]) -> None:
    if output.as_json:
        output.rows({"stream": one.key.name, "entries": one.entries, "added": one.added} for one in arrivals)
        output.rows({"in_force": one.as_json()} for one in found)
    else:
        output.table(COLUMNS[:3], [(one.key.name, one.entries, one.added) for one in arrivals])
        if found:
            output.line()
            output.table(grants.COLUMNS, [grants.approved_cells(one.as_json()) for one in found])
    added, answers = sum(one.added for one in arrivals), sum(one.answers for one in arrivals)
    talk(
        f"{added} new; {len(found)} grants would be in force; {answers} answers allowed something; nothing was written"
    )


@contextmanager
def _opened(name: str) -> Iterator[tuple[IO[bytes], str]]:
    try:
        with tempfile.NamedTemporaryFile() if name == "-" else open_regular(name) as file:
            if name == "-":
                shutil.copyfileobj(sys.stdin.buffer, file)
                file.flush()
            yield file, os.path.realpath(file.name if name == "-" else name)
    except OSError as error:
        raise InputError(f"`{name}` cannot be read: {error.strerror}") from error

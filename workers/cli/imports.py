"""`import`: streams from a file, ids, bytes and chain unchanged."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING

import click

from ledger import InputError
from ledger.core.regular_files import open_regular
from ledger.stores.port import StreamKey
from workers.cli import grants
from workers.cli.base import command, local_actor, with_ledger
from workers.cli.output import CommandOutput, talk
from workers.cli.progress import progress
from workers.cli.shared_options import with_jobs
from workers.upkeep.export_files import places_in, portions_of
from workers.upkeep.transfer import (
    Arrival,
    CheckedPortion,
    FilePortion,
    FileToImport,
    ImportedStream,
    check_import,
    in_force_by,
    refusal,
    write_import,
)
from workers.upkeep.works import processes_for, results_of

if TYPE_CHECKING:
    from ledger import Approved, Ledger

COLUMNS = ("stream", "entries", "added", "head")


@command(
    "import",
    examples=(
        "permission-ledger import ledger.jsonl --dry-run",
        "permission-ledger import ledger.jsonl --with-grants",
        "permission-ledger import ledger.jsonl --jobs 2",
        "permission-ledger import ledger.jsonl --json",
    ),
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

    The whole file is checked before the first write, and every stream after it. A stream that is there already is
    left alone if the file holds the same; if it is another one, nothing is imported. Nothing is imported either, unless
    --with-grants is given, if a grant would be in force by it. An `imported` event follows each stream that was written.
    """
    with _opened(file) as (opened, path):
        places = places_in(opened, file)
        to_import, count = FileToImport(path, file), processes_for(jobs, len(places))
        checked = await _check(ledger, to_import, portions_of(places), count)
        arrivals = [arrival for one in checked for arrival in one.arrivals]
        found = await in_force_by(ledger, arrivals)
        if dry_run:
            _tell_arrivals(output, arrivals, found)
            return
        if found and not with_grants:
            raise refusal(file, found)
        shown = _Shown(output)
        await _write(ledger, to_import, checked, _by_stream(arrivals, found), shown, jobs=count)
    shown.end()
    answers = sum(one.answers for one in arrivals)
    added = sum(one.added for one in arrivals)
    brought = f", with {len(found)} grants in force and {answers} answers that allowed something" if added else ""
    talk(f"imported {len(arrivals)} streams: {added} new{brought}")
    if added:
        talk("hint: `permission-ledger rebuild` brings back the views")


async def _check(
    ledger: Ledger, file: FileToImport, portions: Sequence[FilePortion], jobs: int
) -> list[CheckedPortion]:
    """Check all portions before the first write. Raises InputError, DamageError, StoreError."""
    checked: list[CheckedPortion] = []
    with progress("streams checked", sum(len(one.keys) for one in portions)) as advance:
        async for one in results_of(partial(check_import, file), ledger, portions, jobs):
            checked.append(one)
            advance(len(one.arrivals))
    return checked


async def _write(
    ledger: Ledger,
    file: FileToImport,
    checked: Sequence[CheckedPortion],
    in_force: Counter[StreamKey],
    shown: _Shown,
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
                shown.add(imported)
                advance(len(imported))


class _Shown:
    """The streams that were imported. Rows for a program are printed at once; a person's table needs all of them."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self._rows: list[tuple[object, ...]] = []

    def add(self, imported: Sequence[ImportedStream]) -> None:
        for one in imported:
            head = str(one.head.position)
            if self._output.as_json:
                row = {"stream": one.key.name, "entries": one.entries, "added": one.added}
                self._output.row({**row, "head": {"id": head, "hash": one.head.hash}})
            else:
                self._rows.append((one.key.name, one.entries, one.added, head))

    def end(self) -> None:
        if self._rows:
            self._output.table(COLUMNS, self._rows)


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
    """Yield the file, with the path by which it is read again; input from a pipe is spooled for that."""
    try:
        with tempfile.NamedTemporaryFile() if name == "-" else open_regular(name) as file:
            if name == "-":
                shutil.copyfileobj(sys.stdin.buffer, file)
                file.flush()
            yield file, os.path.realpath(file.name if name == "-" else name)
    except OSError as error:
        raise InputError(f"`{name}` cannot be read: {error.strerror}") from error

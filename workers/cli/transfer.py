"""`export` and `import`: streams to a file and back, ids, bytes and chain unchanged."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from ledger import Approved, InputError, Ledger, UnknownSessionError
from ledger.client.machine import default_actor_name
from ledger.core.errors import StoreError
from ledger.core.ids import check_id
from ledger.core.regular_files import open_regular, private_file
from ledger.log.reads import AuditedRead, record
from ledger.log.surveys import StreamProblem, problem_of
from ledger.log.verify import head_of
from ledger.stores.port import StreamKey
from workers.cli import grants
from workers.cli.base import command, local_actor, with_ledger
from workers.cli.output import CommandOutput, talk
from workers.cli.problems import tell_problems
from workers.cli.progress import progress
from workers.presentation.text import json_line
from workers.upkeep.import_effects import Arrival, arrival_of, in_force_by, mark, refusal
from workers.upkeep.stream_checks import StreamChecker, check_stream
from workers.upkeep.transfer import (
    Exported,
    already_there,
    export_stream,
    footer,
    header,
    not_exported,
    read_export,
    restore_stream,
)

NAMED_COUNT = 5
"""The number of sessions named in the record of an export."""

COLUMNS = ("stream", "entries", "added", "head")


@command(
    "export",
    examples=(
        "permission-ledger export ses_1 --out ses_1.jsonl",
        "permission-ledger export --all --out ledger.jsonl",
    ),
    with_json=False,
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--all", "all_streams", is_flag=True, help="All sessions, projects and rules.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Instead of stdout.")
@with_ledger
async def export(
    ledger: Ledger, output: CommandOutput, *, sessions: Sequence[str], all_streams: bool, out: Path | None
) -> int:
    """Write sessions, with their rules and the grants of their projects, as JSON lines; each entry stands there byte for byte.

    A stream that `verify` finds fault with is not exported. Named, it is refused; with --all it is named on stderr
    (exit code 11), and all others are written.
    """
    if all_streams == bool(sessions):
        raise click.UsageError("name sessions, or give --all")
    keys = (
        # Rules and projects sort before the sessions that name them.
        sorted([key async for key in ledger.store.streams() if key.kind != "access"])
        if all_streams
        else await _named(ledger, sessions)
    )
    problems: list[StreamProblem] = []
    with _written(out, output) as write, progress("streams", len(keys)) as advance:
        write(header())
        async for checked, entries in StreamChecker(ledger.store).read_all(keys):
            if all_streams and not checked.ok:
                problems.append(problem_of(checked.key, not_exported(checked)))
            else:
                async for line in export_stream(ledger.store, checked, entries):
                    write(line)
            advance(1)
        write(footer(len(keys) - len(problems)))
    await _note(ledger, sessions, out)
    talk(f"exported {len(keys) - len(problems)} streams" + (f" to {out}" if out else ""))
    return tell_problems(output, problems)


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
def _written(out: Path | None, output: CommandOutput) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that writes a line; the file gets its name only when it is complete."""
    if out is None:
        yield output.row
        return
    try:
        with private_file(out) as file:
            yield lambda line: _write_line(file, line)
    except OSError as error:
        raise InputError(f"`{out}` cannot be written: {error.strerror}") from error


def _write_line(file: IO[bytes], line: dict[str, Any]) -> None:
    file.write(f"{json_line(line)}\n".encode())


@command(
    "import",
    examples=(
        "permission-ledger import ledger.jsonl --dry-run",
        "permission-ledger import ledger.jsonl --with-grants",
        "permission-ledger import ledger.jsonl --json",
    ),
)
@click.argument("file", metavar="FILE")
@click.option("--with-grants", is_flag=True, help="Import also what brings grants in force.")
@click.option(
    "--dry-run", is_flag=True, help="Write nothing: print what would be new, and the grants it brings in force."
)
@with_ledger
async def import_(ledger: Ledger, output: CommandOutput, *, file: str, with_grants: bool, dry_run: bool) -> None:
    """Read what `export` wrote (`-` is stdin) into this ledger, ids, times and chain as they were.

    The whole file is checked before the first write, and every stream after it. A stream that is there already is
    left alone if the file holds the same; if it is another one, nothing is imported. Nothing is imported either, unless
    --with-grants is given, if a grant would be in force by it. An `imported` event follows each stream that was written.
    """
    with _opened(file) as opened:
        arrivals = [await _arrival(ledger, exported) for exported in read_export(opened, file)]
        found = await in_force_by(ledger, arrivals)
        if dry_run:
            _tell_arrivals(output, arrivals, found)
            return
        if found and not with_grants:
            raise refusal(file, found)
        opened.seek(0)
        in_force = _by_stream(arrivals, found)
        with progress("streams", len(arrivals)) as advance:
            await _write(ledger, output, read_export(opened, file), in_force, advance)
    answers = sum(one.answers for one in arrivals)
    added = sum(one.added for one in arrivals)
    brought = f", with {len(found)} grants in force and {answers} answers that allowed something" if added else ""
    talk(f"imported {len(arrivals)} streams: {added} new{brought}")
    if added:
        talk("hint: `permission-ledger rebuild` brings back the views")


async def _arrival(ledger: Ledger, exported: Exported) -> Arrival:
    there = await already_there(ledger.store, exported)
    return arrival_of(exported.key, exported.entries, there, ledger.store.clock.now_ms())


async def _write(
    ledger: Ledger,
    output: CommandOutput,
    streams: Iterable[Exported],
    in_force: Counter[StreamKey],
    advance: Callable[[int], object],
) -> None:
    rows: list[tuple[object, ...]] = []
    for exported in streams:
        marked = mark(exported.entries, local_actor(), in_force[exported.key], ledger.store.clock.now_ms())
        added = await restore_stream(ledger.store, exported, marked)
        head = head_of(exported.entries[-1])
        if output.as_json:
            output.row(
                {
                    "stream": exported.key.name,
                    "entries": len(exported.entries),
                    "added": added,
                    "head": {"id": str(head.position), "hash": head.hash},
                }
            )
        rows.append((exported.key.name, len(exported.entries), added, str(head.position)))
        advance(1)
    if rows and not output.as_json:
        output.table(COLUMNS, rows)


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
def _opened(name: str) -> Iterator[IO[bytes]]:
    """Yield the file, which is read twice; input from a pipe is spooled for that."""
    try:
        with tempfile.TemporaryFile() if name == "-" else open_regular(name) as file:
            if name == "-":
                shutil.copyfileobj(sys.stdin.buffer, file)
                file.seek(0)
            yield file
    except OSError as error:
        raise InputError(f"`{name}` cannot be read: {error.strerror}") from error

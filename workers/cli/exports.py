"""`export`: streams to a file, ids, bytes and chain unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger import InputError, UnknownSessionError
from ledger.client.machine import default_actor_name
from ledger.core.errors import StoreError
from ledger.core.ids import check_id
from ledger.core.regular_files import private_file
from ledger.log.archive.archive import all_streams
from ledger.log.reads import AuditedRead, record
from ledger.log.surveys import StreamProblem
from ledger.stores.port import StreamKey
from workers.cli.base import command, with_ledger
from workers.cli.output import CommandOutput, talk
from workers.cli.problems import tell_problems
from workers.cli.progress import progress
from workers.cli.shared_options import with_jobs
from workers.presentation.text import json_line
from workers.upkeep.export_files import HEADER_LINE
from workers.upkeep.stream_checks import check_stream
from workers.upkeep.transfer import EXPORTED_AT_ONCE_COUNT, export_stream, export_streams, footer
from workers.upkeep.works import processes_for, results_of

if TYPE_CHECKING:
    from ledger import Ledger

Write = Callable[[bytes], object]
"""Writes whole lines."""

NAMED_COUNT = 5
"""The number of sessions named in the record of an export."""


@command(
    "export",
    examples=(
        "permission-ledger export ses_1 --out ses_1.jsonl",
        "permission-ledger export --all --out ledger.jsonl --jobs 2",
    ),
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

    A stream that `verify` finds fault with is not exported. Named, it is refused; with --all it is named on stderr
    (exit code 11), and all others are written.
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

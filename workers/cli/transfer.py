"""`export` and `import`: streams to a file and back, ids, bytes and chain as they were."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from ledger import InputError, Ledger, UnknownSessionError
from ledger.ids import check_id
from ledger.stores.port import StreamKey
from ledger.verify import head_of
from workers.checking import check_stream
from workers.cli.base import command, with_ledger
from workers.cli.output import Output, talk
from workers.cli.progress import progress
from workers.cli.text import json_line
from workers.transfer import already_there, export_stream, footer, header, read_export, restore_stream

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
@click.option("--all", "all_streams", is_flag=True, help="All sessions and all projects.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Instead of stdout.")
@with_ledger
async def export(
    ledger: Ledger, output: Output, *, sessions: Sequence[str], all_streams: bool, out: Path | None
) -> None:
    """Write sessions, with the grants of their projects, as JSON lines; each entry stands there byte for byte.

    A stream that `verify` finds fault with is refused.
    """
    if all_streams == bool(sessions):
        raise click.UsageError("name sessions, or give --all")
    keys = (
        sorted([key async for key in ledger.store.streams() if key.kind != "access"])
        if all_streams
        else await _named(ledger, sessions)
    )
    with _written(out, output) as write, progress("streams", len(keys)) as advance:
        write(header())
        for key in keys:
            async for line in export_stream(ledger.store, key):
                write(line)
            advance(1)
        write(footer(len(keys)))
    talk(f"exported {len(keys)} streams" + (f" to {out}" if out else ""))


async def _named(ledger: Ledger, sessions: Sequence[str]) -> list[StreamKey]:
    keys = [StreamKey("session", check_id(session, "session id")) for session in dict.fromkeys(sessions)]
    projects: list[StreamKey] = []
    for key in keys:
        if await ledger.store.info(key) is None:
            raise UnknownSessionError(f"there is no session `{key.id}`", session=key.id)
        project = (await check_stream(ledger.store, key)).project
        if project is not None and await ledger.store.info(StreamKey("project", project)) is not None:
            projects.append(StreamKey("project", project))
    # Grants first, so that an import that breaks off never leaves a session that lacks its project's.
    return [*dict.fromkeys(projects), *keys]


@contextmanager
def _written(out: Path | None, output: Output) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Where lines go; a file appears under its name only when it is complete."""
    if out is None:
        yield output.row
        return
    unfinished = out.with_name(f"{out.name}.{os.getpid()}.part")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            yield lambda line: print(json_line(line), file=file)
        unfinished.replace(out)
    except OSError as error:
        raise InputError(f"`{out}` cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)


@command(
    "import",
    examples=(
        "permission-ledger import ledger.jsonl",
        "permission-ledger import ledger.jsonl --json",
    ),
)
@click.argument("file", metavar="FILE")
@with_ledger
async def import_(ledger: Ledger, output: Output, *, file: str) -> None:
    """Read what `export` wrote (`-` is stdin) into this ledger, ids, times and chain as they were.

    The whole file is checked before the first write, and every stream after it. A stream that is there already is
    left alone if the file holds the same; if it is another one, nothing is imported.
    """
    rows: list[tuple[object, ...]] = []
    with _opened(file) as opened:
        count = 0
        for exported in read_export(opened, file):
            await already_there(ledger.store, exported)
            count += 1
        opened.seek(0)
        with progress("streams", count) as advance:
            for exported in read_export(opened, file):
                added = await restore_stream(ledger.store, exported)
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
    talk(f"imported {count} streams; `permission-ledger rebuild` brings back the views")


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    """The file, which is read twice; what comes through a pipe is kept beside for that."""
    try:
        with tempfile.TemporaryFile() if name == "-" else Path(name).open("rb") as file:
            if name == "-":
                shutil.copyfileobj(sys.stdin.buffer, file)
                file.seek(0)
            yield file
    except OSError as error:
        raise InputError(f"`{name}` cannot be read: {error.strerror}") from error

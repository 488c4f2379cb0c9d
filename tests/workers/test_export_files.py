"""Files of exports: their portions, and files that change under an import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest

from ledger import InputError, Ledger
from ledger.core.events import Actor
from ledger.log.archive.archive import all_streams
from ledger.stores.port import StreamKey
from tests.workers.cli.filling import session_with_a_grant
from workers.presentation.text import json_line
from workers.upkeep import export_files, transfer
from workers.upkeep.export_files import places_in, portions_of
from workers.upkeep.stream_checks import check_stream
from workers.upkeep.transfer import (
    FileToImport,
    check_import,
    export_stream,
    export_streams,
    footer,
    header,
    read_export,
    write_import,
)

SESSIONS = [StreamKey("session", f"ses_{number}") for number in range(3)]
KEYS = [StreamKey("project", "shop"), *SESSIONS]
ANN = Actor("local", "ann")


async def filled(url: str = "memory://") -> Ledger:
    ledger = await Ledger.connect(url, entry_points=False).__aenter__()
    await session_with_a_grant(ledger)
    for name in ("ses_0", "ses_2"):
        session = await ledger.session(name, project="shop")
        await session.submit("bash", ["make"], request_id=f"r_{name}")
    return ledger


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    ledger = await filled()
    yield ledger
    await ledger.__aexit__(None, None, None)


async def text_of(ledger: Ledger) -> bytes:
    lines = [header()]
    for key in KEYS:
        lines += [line async for line in export_stream(ledger.store, await check_stream(ledger.store, key))]
    return "".join(f"{json_line(line)}\n" for line in [*lines, footer(len(KEYS))]).encode()


async def test_a_stream_that_stands_in_a_file_twice_is_refused(ledger: Ledger) -> None:
    lines = (await text_of(ledger)).splitlines(keepends=True)
    first_end = next(number for number, line in enumerate(lines) if line.startswith(b'{"end"'))
    again = [*lines[: first_end + 1], *lines[1:-1], b'{"complete":true,"streams":5}\n']
    assert len(list(read_export(BytesIO(b"".join(again)), "x"))) == 5
    with pytest.raises(InputError, match=f"`x` line {first_end + 2}: `project:shop` is in this file twice"):
        places_in(BytesIO(b"".join(again)), "x")


async def test_portions_are_bounded_and_projects_are_apart(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await text_of(ledger)
    places = places_in(BytesIO(whole), "x")
    assert [one.keys for one in portions_of(places)] == [KEYS[:1], SESSIONS]
    monkeypatch.setattr(export_files, "IMPORTED_AT_ONCE_COUNT", 2)
    portions = portions_of(places)
    assert [one.keys for one in portions] == [KEYS[:1], SESSIONS[:2], SESSIONS[2:]]
    assert [one.line for one in portions] == [whole[: one.start].count(b"\n") + 1 for one in portions]
    monkeypatch.setattr(export_files, "IMPORTED_AT_ONCE_BYTES", 10)
    assert [one.keys for one in portions_of(places)] == [[key] for key in KEYS]


async def test_streams_beyond_the_room_of_a_portion_are_left_to_the_command(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await export_streams(ledger, KEYS)
    lines = [one for _, one in found if isinstance(one, bytes)]
    assert b"".join(lines) == b"".join((await text_of(ledger)).splitlines(keepends=True)[1:-1])
    monkeypatch.setattr(transfer, "EXPORTED_AT_ONCE_BYTES", len(lines[0]) + len(lines[1]))
    assert await export_streams(ledger, KEYS) == list(zip(KEYS, [*lines[:2], None, None], strict=True))


async def test_a_file_that_changes_between_check_and_write_is_not_imported(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    whole = await text_of(ledger)
    path.write_bytes(whole)
    async with Ledger.connect("memory://", entry_points=False) as other:
        with path.open("rb") as file:
            portion = portions_of(places_in(file, "x"))[1]
            to_import = FileToImport(str(path), "x")
            checked = await check_import(to_import, other, portion)
            write = partial(write_import, to_import, ANN, other, (portion, checked.digest, [0] * 3))
            assert [one.added for one in checked.arrivals] == [2, 3, 2]
            # Another salt in the content of the last session: every line can still be read.
            changed = whole.replace(b"r_ses_2", b"r_ses_9")
            assert len(changed) == len(whole)
            for text, told in ((changed, "changed while"), (whole[: portion.start], "became shorter")):
                path.write_bytes(text)
                with pytest.raises(InputError, match=told):
                    await write()
            assert [key async for key in all_streams(other.store)] == []
            path.write_bytes(whole)
            done = await write()
            assert [(one.key, one.added) for one in done] == list(zip(SESSIONS, (2, 3, 2), strict=True))

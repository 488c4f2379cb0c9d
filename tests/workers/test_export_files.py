"""Files of exports: their portions, what is left of one that was cut off, and files that change under an import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest

from ledger import InputError, Ledger
from ledger.core.events import Actor
from ledger.core.regular_files import kept_file
from ledger.stores.port import StreamKey
from tests.workers.cli.filling import session_with_a_grant
from workers.presentation.text import json_line
from workers.upkeep import export_files, transfer_works
from workers.upkeep.export_files import cut_to_complete_streams, places_in, portions_of, require_same_ledger
from workers.upkeep.stream_checks import check_stream
from workers.upkeep.transfer import export_stream, footer, header, read_export
from workers.upkeep.transfer_works import (
    CheckImport,
    ExportStreams,
    PortionToImport,
    StreamsToExport,
    WriteImport,
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


async def test_wherever_an_export_is_cut_off_its_complete_streams_are_kept(ledger: Ledger) -> None:
    whole = await text_of(ledger)
    places = places_in(BytesIO(whole), "x")
    assert [place.key for place in places] == KEYS
    for size in range(len(whole) + 1):
        file = BytesIO(whole[:size])
        kept = cut_to_complete_streams(file, "x")
        assert kept == [place for place in places if place.end <= size]
        assert whole.startswith(file.getvalue())
        assert len(file.getvalue()) == (kept[-1].end if kept else len(export_files.HEADER_LINE))
        # Whatever is written after it makes a whole file again.
        file.write(whole[len(file.getvalue()) :])
        assert file.getvalue() == whole


async def test_bytes_that_a_crash_left_behind_are_cut_off(ledger: Ledger) -> None:
    whole = await text_of(ledger)
    second = places_in(BytesIO(whole), "x")[1]
    for rest in (b"\0" * 100, b"{}\n", b'{"stream": "access:tokens"}\n', whole[second.start : second.end - 9]):
        file = BytesIO(whole[: second.end] + rest)
        assert len(cut_to_complete_streams(file, "x")) == 2
        assert file.getvalue() == whole[: second.end]


@pytest.mark.parametrize("content", [b"my diary\n", b'{"file":"permission-ledger export","format":1}\n', b"\0\0\0"])
def test_another_file_is_refused_and_stays_as_it_is(content: bytes) -> None:
    file = BytesIO(content)
    with pytest.raises(InputError, match="not a file that an interrupted"):
        cut_to_complete_streams(file, "x")
    assert file.getvalue() == content


async def test_the_file_of_another_ledger_is_refused(ledger: Ledger) -> None:
    places = places_in(BytesIO(await text_of(ledger)), "x")
    for place in places:
        await require_same_ledger(ledger.store, "x", place)
    # Also when the session has gone on since.
    await (await ledger.attach("ses_2")).reply("r_ses_2", "once", actor="ann")
    await require_same_ledger(ledger.store, "x", places[-1])
    other = await filled()
    with pytest.raises(InputError, match="another `session:ses_2`"):
        await require_same_ledger(other.store, "x", places[-1])
    await other.__aexit__(None, None, None)


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
    # What an interrupted run has done lies between these two.
    monkeypatch.undo()
    assert [one.keys for one in portions_of([places[1], places[3]])] == [SESSIONS[:1], SESSIONS[2:]]


async def test_streams_beyond_the_room_of_a_portion_are_left_to_the_command(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await ExportStreams().done_by(ledger, StreamsToExport(KEYS))
    lines = [one.lines for one in found]
    assert b"".join(one or b"" for one in lines) == b"".join((await text_of(ledger)).splitlines(keepends=True)[1:-1])
    monkeypatch.setattr(transfer_works, "EXPORTED_AT_ONCE_BYTES", len(lines[0] or b"") + len(lines[1] or b""))
    found = await ExportStreams().done_by(ledger, StreamsToExport(KEYS))
    assert [one.lines for one in found] == [*lines[:2], None, None]
    assert [one.problem for one in found] == [None] * 4


async def test_a_file_that_changes_between_check_and_write_is_not_imported(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    whole = await text_of(ledger)
    path.write_bytes(whole)
    async with Ledger.connect("memory://", entry_points=False) as other:
        with path.open("rb") as file:
            portion = portions_of(places_in(file, "x"))[1]
            checked = await CheckImport(file.fileno(), "x").done_by(other, portion)
            to_import = PortionToImport(portion, checked.digest, [0] * 3)
            assert [one.added for one in checked.arrivals] == [2, 3, 2]
            # Another salt in the content of the last session: every line can still be read.
            changed = whole.replace(b"r_ses_2", b"r_ses_9")
            assert len(changed) == len(whole)
            for text, told in ((changed, "changed while"), (whole[: portion.start], "became shorter")):
                path.write_bytes(text)
                with pytest.raises(InputError, match=told):
                    await WriteImport(file.fileno(), "x", ANN).done_by(other, to_import)
            assert [key async for key in other.store.streams()] == []
            path.write_bytes(whole)
            done = await WriteImport(file.fileno(), "x", ANN).done_by(other, to_import)
            assert [(one.key, one.added) for one in done] == list(zip(SESSIONS, (2, 3, 2), strict=True))


async def test_two_exports_do_not_write_one_file(tmp_path: Path) -> None:
    part, out = tmp_path / "part", tmp_path / "out"
    with kept_file(part, out) as file:
        file.write(b"first")
        with pytest.raises(OSError, match="another process writes it"), kept_file(part, out):
            pytest.fail("it is locked")
    assert (out.read_bytes(), part.exists()) == (b"first", False)
    with suppress(KeyboardInterrupt), kept_file(part, out) as file:
        file.write(b"second")
        raise KeyboardInterrupt
    assert (out.read_bytes(), part.read_bytes()) == (b"first", b"second")
    (tmp_path / "link").symlink_to(out)
    with pytest.raises(OSError), kept_file(tmp_path / "link", out):
        pytest.fail("it is a link")

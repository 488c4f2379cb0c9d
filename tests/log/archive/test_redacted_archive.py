"""Redaction of sealed sessions, and the sweep: content leaves every file, no step loses a session, others' files stay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from ledger import Ledger
from ledger.core.errors import ArchiveError, DamageError, InputError, OnHoldError
from ledger.core.times import DAY_MS
from ledger.log.archive.archive import archive_of
from ledger.log.archive.buckets import FolderBucket
from ledger.log.archive.files import ArchiveFiles
from ledger.log.archive.sweeping import Sweeping, SweepResult
from ledger.log.redactions import Pattern
from ledger.stores.port import Entry, StreamKey
from ledger.stores.sealed import Seal
from ledger.testing import TestClock
from tests.api.actors import ANN, OpenLedger, raised
from tests.log.archive.test_sealed_sessions import ONE, TWO, folder, is_sealed, lived, seal
from tests.support.backends import log_of
from tests.support.store_calls import seals
from workers.upkeep.archiving import hold_reason
from workers.upkeep.redactions import Carried, carry_out
from workers.upkeep.stream_checks import check_stream

__all__ = ["folder"]

SECRET: Final = "git push ses_1"
"""The call that `lived` asks for in the first session."""

DIED: Final = ConnectionError("the process died here")


async def redact(ledger: Ledger, name: str = "ses_1") -> Carried:
    plans = await ledger.redactions.plan(name, [2])
    return await carry_out(ledger, plans, reason="a password", actor=ledger.actor(ANN, "person"), done=lambda _: None)


async def sweep(ledger: Ledger, age_ms: int = DAY_MS, *, dry_run: bool = False) -> list[SweepResult]:
    sweeping = Sweeping(ledger.store, archive_of(ledger.store), hold_reason(ledger))
    return [one async for one in sweeping.sweep(age_ms, dry_run=dry_run)]


def files_in(folder: Path, suffix: str = "") -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name.endswith(suffix))


async def contents(folder: Path) -> bytes:
    """Return the content of all entries in all files that are there, listed or not."""
    files = ArchiveFiles(FolderBucket(folder))
    found = b""
    for path in files_in(folder, ".jsonl.zst"):
        some = await files.all_entries(path.relative_to(folder).as_posix())
        found += b"".join(entry.content or b"" for entries in some.values() for entry in entries)
    return found


async def both_sealed(ledger: Ledger) -> tuple[str, tuple[Entry, ...]]:
    """Seal two sessions into one file; return its name, and the entries of the second."""
    await lived(ledger)
    two = await lived(ledger, "ses_2")
    (one, _) = await seal(ledger, ONE, TWO)
    assert one.file is not None
    return one.file, two


async def test_a_sealed_session_is_redacted_in_a_new_file_and_stays_sealed(
    ledger: Ledger, open_ledger: OpenLedger, folder: Path
) -> None:
    before, two = await both_sealed(ledger)
    other = await open_ledger()
    assert SECRET.encode() in b"".join(one.content or b"" for one in await log_of(other.store, ONE))
    carried = await redact(ledger)
    assert carried.is_complete
    assert [(one.file, one.done, one.sessions) for one in carried.archived] == [(before, "rewritten", 1)]
    assert await is_sealed(ledger)
    assert await is_sealed(ledger, TWO)
    assert SECRET.encode() not in await contents(folder)
    assert not (folder / before).exists()
    for one in (ledger, other):
        assert (await check_stream(one.store, ONE)).ok
        found = await log_of(one.store, ONE)
        assert SECRET.encode() not in b"".join(entry.content or b"" for entry in found)
        assert await log_of(one.store, TWO) == two
    assert [event.type async for event in (await other.attach("ses_1")).events(follow_on=False)][-1] == "redacted"


async def test_the_manifest_of_a_file_that_was_written_anew_says_so(ledger: Ledger, folder: Path) -> None:
    before, _ = await both_sealed(ledger)
    await redact(ledger)
    files = ArchiveFiles(FolderBucket(folder))
    manifests = [await files.manifest(name) async for name in files.files()]
    assert [one.replaces for one in manifests] == [(before,), (before,)]
    assert sorted((one.streams[0].stream, bool(one.streams[0].redacted)) for one in manifests) == [
        (ONE.name, True),
        (TWO.name, False),
    ]
    for one in manifests:
        assert await files.check(one.file) == []


async def test_a_redacted_session_comes_back_without_its_content_and_goes_on(ledger: Ledger, folder: Path) -> None:
    await both_sealed(ledger)
    await redact(ledger)
    await (await ledger.attach("ses_1")).note_tool_finished("ses_1_1", ok=True, actor="agent")
    assert not await is_sealed(ledger)
    assert (await check_stream(ledger.store, ONE)).ok
    assert SECRET.encode() not in b"".join(one.content or b"" for one in await log_of(ledger.store, ONE))


async def test_a_restored_session_is_redacted_in_the_file_from_which_it_came_too(ledger: Ledger, folder: Path) -> None:
    before, two = await both_sealed(ledger)
    (stub, _) = await seals(ledger.store, [ONE, TWO])
    assert stub is not None
    assert await archive_of(ledger.store).restore(ONE, stub)
    carried = await redact(ledger)
    assert [(one.file, one.done) for one in carried.archived] == [(before, "rewritten")]
    assert SECRET.encode() not in await contents(folder)
    assert await log_of(ledger.store, TWO) == two


async def test_a_hold_refuses_the_redaction_of_a_sealed_session_and_its_file_stays(
    ledger: Ledger, folder: Path
) -> None:
    before, _ = await both_sealed(ledger)
    await ledger.holds.place(session="ses_1", reason="case 7", actor=ANN)
    assert isinstance(await raised(redact(ledger)), OnHoldError)
    assert SECRET.encode() in await contents(folder)
    assert (folder / before).exists()


async def test_a_session_that_is_restored_while_it_is_redacted_is_redacted_where_it_is_then(
    ledger: Ledger, open_ledger: OpenLedger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await both_sealed(ledger)
    other, write = await open_ledger(), ArchiveFiles.write

    async def slowly(self: ArchiveFiles, *given: Any, **more: Any) -> object:
        monkeypatch.undo()
        written = await write(self, *given, **more)
        await (await other.attach("ses_1")).note_tool_finished("ses_1_1", ok=True, actor="agent")
        return written

    monkeypatch.setattr(ArchiveFiles, "write", slowly)
    carried = await redact(ledger)
    assert carried.is_complete
    assert not await is_sealed(ledger)
    found = await log_of(other.store, ONE)
    assert SECRET.encode() not in await contents(folder) + b"".join(one.content or b"" for one in found)
    assert (await check_stream(other.store, ONE)).ok


STEPS: Final = [
    ("put_new", "before", 1),
    *(
        (step, "after", at)
        for step, count in (("put_new", 4), ("get", 3), ("seal", 2), ("close_file", 1), ("remove", 2))
        for at in range(1, count + 1)
    ),
]
"""The steps, each with its calls in one redaction: after one is before the next."""


@pytest.mark.parametrize("death", STEPS, ids=lambda death: "-".join(map(str, death)))
async def test_a_redaction_that_dies_at_any_step_loses_nothing_and_is_repeated(
    ledger: Ledger,
    open_ledger: OpenLedger,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    death: tuple[str, str, int],
) -> None:
    step, when, at = death
    _, two = await both_sealed(ledger)
    one, calls = await log_of(ledger.store, ONE), 0
    owner = FolderBucket if hasattr(FolderBucket, step) else type(archive_of(ledger.store)._store)
    real: Callable[..., Awaitable[object]] = getattr(owner, step)

    async def dies(self: object, *given: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at and when == "before":
            raise DIED
        result = await real(self, *given)
        if calls == at:
            raise DIED
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, dies)
        with pytest.raises(ConnectionError, match="died here"):
            await redact(ledger)
    after = await open_ledger()
    found = await log_of(after.store, ONE)
    assert [entry[:3] for entry in found[: len(one)]] == [entry[:3] for entry in one]
    assert await log_of(after.store, TWO) == two
    assert (await check_stream(after.store, ONE)).ok
    carried = await redact(after)
    assert [kept for kept in carried.archived if kept.done == "kept" and "no manifest" not in (kept.why or "")] == []
    assert await log_of(after.store, TWO) == two
    assert (await check_stream(after.store, ONE)).ok


async def test_a_server_that_lost_its_last_second_finds_the_files_that_were_written_in_the_place_of_the_old_one(
    ledger: Ledger, open_ledger: OpenLedger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stubs are from before: a server without every write on its disk, or a backup, has such ones."""
    _, two = await both_sealed(ledger)
    old = await seals(ledger.store, [ONE, TWO])
    admin = archive_of(ledger.store)._store

    async def nothing(*_: object) -> None:
        return

    with monkeypatch.context() as patch:
        patch.setattr(type(admin), "close_file", nothing)
        await redact(ledger)
        new = await seals(ledger.store, [ONE, TWO])
        for key, before, now in zip((ONE, TWO), old, new, strict=True):
            assert before is not None
            assert now is not None
            assert await admin.seal(key, before, now)
    other = await open_ledger()
    assert await log_of(other.store, TWO) == two
    assert (await check_stream(other.store, ONE)).ok
    assert [one and where(one) for one in await seals(ledger.store, [ONE, TWO])] == [one and where(one) for one in new]
    assert SECRET.encode() not in b"".join(entry.content or b"" for entry in await log_of(other.store, ONE))


def where(seal: Seal) -> tuple[object, ...]:
    return seal.head, seal.hash, seal.file


# --- the sweep --------------------------------------------------------------------------------------------------------


async def test_the_sweep_removes_what_crashes_left_and_keeps_young_files(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch, clock: TestClock
) -> None:
    await lived(ledger)
    admin = type(archive_of(ledger.store)._store)
    for owner, step in ((FolderBucket, "get"), (admin, "seal")):

        async def dies(*_: object) -> None:
            raise ArchiveError("the process died here")

        with monkeypatch.context() as patch:
            patch.setattr(owner, step, dies)
            await raised(seal(ledger, ONE))
        clock.advance(1)
    (result,) = await seal(ledger, ONE)
    assert result.file is not None
    without = files_in(folder, ".json")[0]
    without.rename(without.with_name(without.name + ".17.part"))
    assert await sweep(ledger) == []
    clock.advance(2 * DAY_MS)
    would = await sweep(ledger, dry_run=True)
    assert [(one.done, one.file == result.file) for one in would] == [("removed", False)] * 2
    assert len(files_in(folder)) == 6
    assert await sweep(ledger) == would
    assert [path.suffix for path in files_in(folder)] == [".json", ".zst"]
    assert await sweep(ledger) == []
    assert (await check_stream(ledger.store, ONE)).ok


async def test_the_sweep_keeps_files_whose_sessions_are_nowhere_else(
    ledger: Ledger, open_ledger: OpenLedger, folder: Path, clock: TestClock, tmp_path: Path
) -> None:
    """They may be another ledger's, or this one's that lost its server."""
    await both_sealed(ledger)
    clock.advance(2 * DAY_MS)
    async with Ledger.connect(f"memory://{tmp_path.name}", clock=clock, entry_points=False) as stranger:
        await archive_of(stranger.store).set_url(str(folder))
        (result,) = await sweep(stranger)
    assert (result.done, result.is_problem) == ("kept", True)
    assert "does not have `session:ses_1`" in (result.why or "")
    assert len(files_in(folder, ".jsonl.zst")) == 1


async def test_the_sweep_keeps_the_only_copy_of_held_content(ledger: Ledger, folder: Path, clock: TestClock) -> None:
    before, _ = await both_sealed(ledger)
    await ledger.redactions.redact((await ledger.redactions.plan("ses_1", [2]))[0], reason="a password", actor=ANN)
    await ledger.holds.place(project="shop", reason="case 7", actor=ANN)
    clock.advance(2 * DAY_MS)
    (result,) = await sweep(ledger)
    assert (result.done, result.file) == ("kept", before)
    assert "case 7" in (result.why or "")
    await ledger.holds.lift(project="shop", reason="closed", actor=ANN)
    assert [one.done for one in await sweep(ledger)] == ["rewritten"]
    assert SECRET.encode() not in await contents(folder)


async def test_the_sweep_names_a_lost_file_that_sessions_are_in(ledger: Ledger, folder: Path, clock: TestClock) -> None:
    before, _ = await both_sealed(ledger)
    (folder / before).unlink()
    clock.advance(2 * DAY_MS)
    (result,) = await sweep(ledger)
    assert (result.done, result.file, result.is_problem) == ("kept", before, True)
    assert isinstance(await raised(log_of(ledger.store, ONE)), DamageError)


async def test_files_that_may_be_of_a_sealing_under_way_are_not_swept(ledger: Ledger, folder: Path) -> None:
    assert isinstance(await raised(sweep(ledger, 60_000)), InputError)


async def test_a_sealing_whose_file_was_closed_leaves_its_sessions_on_the_server(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redaction removes the file of a sealing under way: nothing may refer to it afterwards."""
    entries = await lived(ledger)
    write = ArchiveFiles.write

    async def closed(self: ArchiveFiles, *given: Any) -> object:
        manifest = await write(self, *given)
        await ledger.store.close_file([ONE], manifest.file)
        return manifest

    monkeypatch.setattr(ArchiveFiles, "write", closed)
    (result,) = await seal(ledger, ONE)
    assert result.kept is not None
    assert not await is_sealed(ledger)
    assert await log_of(ledger.store, ONE) == entries


async def test_a_stub_is_not_put_long_after_its_file_was_written(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch, clock: TestClock
) -> None:
    """The sweep relies on it: an old file that no stub names is never named by one."""
    await lived(ledger)
    write = ArchiveFiles.write

    async def stopped(self: ArchiveFiles, *given: Any) -> object:
        manifest = await write(self, *given)
        clock.advance(DAY_MS)
        return manifest

    monkeypatch.setattr(ArchiveFiles, "write", stopped)
    (result,) = await seal(ledger, ONE)
    assert result.kept is not None
    assert not await is_sealed(ledger)


async def test_a_lost_file_stops_no_search_for_content_in_the_other_sessions(ledger: Ledger, folder: Path) -> None:
    await lived(ledger)
    await lived(ledger, "ses_2")
    for key in (ONE, TWO):
        (result,) = await seal(ledger, key)
        if key == TWO:
            lost = result.file
    assert lost is not None
    (folder / lost).unlink()
    pattern = Pattern("git push ses_")
    with pytest.raises(DamageError):
        _ = [plan async for plan in ledger.redactions.search(pattern, since_ms=0)]
    unread: dict[StreamKey, DamageError] = {}
    plans = [plan async for plan in ledger.redactions.search(pattern, since_ms=0, unread=unread)]
    assert [plan.key for plan in plans if plan.key.kind == "session"] == [ONE]
    assert list(unread) == [TWO]
    assert lost in unread[TWO].text
    carried = await carry_out(ledger, plans, reason="a key", actor=ledger.actor(ANN, "person"), done=lambda _: None)
    assert SECRET.encode() not in await contents(folder)
    assert ONE in [plan.key for plan, versions in carried.streams if versions]

"""Sealed sessions: read as before by everybody, brought back by a write, and lost at no step of their sealing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ledger import Ledger, UnknownSessionError
from ledger.core.errors import ArchiveError, DamageError, InputError, LedgerError, SealedError
from ledger.core.times import DAY_MS
from ledger.log.archive import archive as archive_module
from ledger.log.archive import sealing as sealing_module
from ledger.log.archive.archive import all_streams, archive_of
from ledger.log.archive.buckets import FolderBucket
from ledger.log.archive.files import ArchiveFiles
from ledger.log.archive.sealing import Sealing, SealResult, SealRule
from ledger.log.archive.sweeping import Sweeping
from ledger.log.judgements import judge_again
from ledger.log.snapshots import SNAPSHOTS_VIEW, load_snapshot
from ledger.log.verify import Head, head_of
from ledger.session.judged_again import SAME
from ledger.stores.port import Entry, StreamKey
from ledger.stores.sealed import Seal
from ledger.testing import TestClock
from projections.engine import Engine
from tests.api.actors import ANN, RULES, OpenLedger, events_of, outcome_of, pend, raised
from tests.support.archives import MemoryBucket
from tests.support.backends import log_of
from tests.support.snapshots import write_snapshots_every
from tests.support.store_calls import drop_all_views, seals, view
from workers.projector import Repairs
from workers.upkeep.archiving import hold_reason
from workers.upkeep.stream_checks import StreamChecker, check_stream
from workers.upkeep.transfer import export_stream

ONE, TWO = StreamKey("session", "ses_1"), StreamKey("session", "ses_2")


@pytest.fixture
async def folder(ledger: Ledger, tmp_path: Path) -> Path:
    """The folder of the deployment's archive."""
    await archive_of(ledger.store).set_url(str(tmp_path / "archive"))
    return tmp_path / "archive"


async def lived(ledger: Ledger, name: str = "ses_1", *, closed: bool = True) -> tuple[Entry, ...]:
    """Let a session live: something was asked, allowed always, refused; return its entries."""
    session = await ledger.session(name, project="shop", rules=RULES)
    await pend(session, f"{name}_1", f"git push {name}", always=(f"git * {name}",))
    await session.reply(f"{name}_1", "always", actor=ANN)
    await pend(session, f"{name}_2", "make 'ž \\ \"'")
    await session.reply(f"{name}_2", "reject", actor=ANN)
    if closed:
        await session.close()
    await Engine(ledger.store, before_step=Repairs(ledger)).catch_up(StreamKey("session", name))
    return await log_of(ledger.store, StreamKey("session", name))


async def seal(
    ledger: Ledger, *keys: StreamKey, rule: SealRule | None = None, dry_run: bool = False
) -> list[SealResult]:
    sealing = Sealing(ledger.store, ledger.streams, archive_of(ledger.store), rule or SealRule())

    async def named() -> AsyncIterator[StreamKey]:
        for key in keys:
            yield key

    return [one async for one in sealing.seal(named(), dry_run=dry_run)]


async def is_sealed(ledger: Ledger, key: StreamKey = ONE) -> bool:
    return (await seals(ledger.store, [key]))[0] is not None


async def exported(ledger: Ledger, key: StreamKey = ONE) -> list[dict[str, object]]:
    return [line async for line in export_stream(ledger.store, await check_stream(ledger.store, key))]


async def test_a_sealed_session_has_the_same_bytes_in_the_server_the_archive_and_the_export(
    ledger: Ledger, folder: Path
) -> None:
    entries, lines = await lived(ledger), await exported(ledger)
    (result,) = await seal(ledger, ONE)
    assert (result.events, result.kept) == (len(entries), None)
    assert result.file is not None
    assert await is_sealed(ledger)
    head = head_of(entries[-1])
    in_file = await ArchiveFiles(FolderBucket(folder)).entries(ONE, result.file, head)
    assert tuple(in_file) == entries == await log_of(ledger.store, ONE)
    assert await exported(ledger) == lines


async def test_sessions_in_many_small_files_are_read_and_verified_like_others(ledger: Ledger, folder: Path) -> None:
    keys = [StreamKey("session", f"ses_{number}") for number in range(25)]
    before = {key: await lived(ledger, key.id) for key in keys}
    for key in keys:
        await seal(ledger, key)
    assert len([file async for file in ArchiveFiles(FolderBucket(folder)).files()]) == len(keys)
    assert {key: await log_of(ledger.store, key) for key in keys} == before
    ordered = await archive_of(ledger.store).in_file_order(keys)
    checked = [one async for one in StreamChecker(ledger.store).check_all(ordered)]
    assert [(one.key, one.ok) for one in checked] == [(key, True) for key in ordered]
    assert set(ordered) == set(keys)
    sweeping = Sweeping(ledger.store, archive_of(ledger.store), hold_reason(ledger))
    assert await sweeping.forget(keys) == []


async def test_every_process_reads_a_sealed_session_without_being_told(
    ledger: Ledger, open_ledger: OpenLedger, folder: Path
) -> None:
    entries = await lived(ledger)
    types, before = await events_of(await ledger.attach("ses_1")), await ledger.state_at("ses_1", 3)
    await seal(ledger, ONE)
    for other in (ledger, await open_ledger()):
        session = await other.attach("ses_1")
        assert await events_of(session) == types
        assert await outcome_of(session, "ses_1_2") == "rejected"
        assert (await other.state_at("ses_1", 3)).state == before.state
        assert (await other.state_at("ses_1")).version == len(entries)
        checked = await check_stream(other.store, ONE)
        assert (checked.ok, checked.versions, checked.project) == (True, len(entries), "shop")
        assert ONE in [key async for key in all_streams(other.store)]
        assert await other.sessions_of("ses_1_1") == ["ses_1"]
    assert await is_sealed(ledger)


async def test_the_rules_of_a_sealed_session_stay_on_the_server_and_judge_it_again(
    ledger: Ledger, folder: Path
) -> None:
    await lived(ledger)
    await seal(ledger, ONE)
    checked = await check_stream(ledger.store, ONE)
    assert len(checked.rules) == 1
    assert [key.id async for key in all_streams(ledger.store) if key.kind == "policy"] == list(checked.rules)
    assert {one.result async for one in judge_again(ledger.store, "ses_1")} == {SAME}


async def test_the_views_of_sealed_sessions_are_built_anew_from_the_archive(ledger: Ledger, folder: Path) -> None:
    entries = await lived(ledger)
    await seal(ledger, ONE)
    await drop_all_views(ledger.store, ONE.partition(ledger.store.partition_count))
    assert (await Engine(ledger.store).catch_up(ONE)).events == len(entries)
    assert await is_sealed(ledger)


async def test_the_snapshot_of_a_sealed_session_leaves_the_server_and_none_is_written_anew(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_snapshots_every(4, monkeypatch, sealing_module)
    entries, partition = await lived(ledger), ONE.partition(ledger.store.partition_count)
    assert await load_snapshot(ledger.store, ONE, len(entries)) is not None
    before = await ledger.state_at("ses_1")
    await seal(ledger, ONE)
    assert await is_sealed(ledger)
    assert await view(ledger.store, SNAPSHOTS_VIEW, partition) == {}
    assert await ledger.state_at("ses_1") == before
    await drop_all_views(ledger.store, partition)
    assert (await Engine(ledger.store).catch_up(ONE)).events == len(entries)
    assert await view(ledger.store, SNAPSHOTS_VIEW, partition) == {}


async def test_a_late_event_brings_its_session_back_by_itself(
    ledger: Ledger, open_ledger: OpenLedger, folder: Path
) -> None:
    entries = await lived(ledger)
    await seal(ledger, ONE)
    for other in (await open_ledger(), ledger):
        await (await other.attach("ses_1")).note_tool_finished("ses_1_1", ok=True, actor="agent")
        assert not await is_sealed(ledger)
    found = await log_of(ledger.store, ONE)
    assert found[: len(entries)] == entries
    assert len(found) == len(entries) + 2
    assert (await check_stream(ledger.store, ONE)).ok


async def test_an_ask_in_a_sealed_session_continues_its_one_history(
    ledger: Ledger, open_ledger: OpenLedger, folder: Path, clock: TestClock
) -> None:
    entries = await lived(ledger, closed=False)
    clock.advance(31 * DAY_MS)
    assert [one.kept for one in await seal(ledger, ONE)] == [None]
    other = await open_ledger()
    session = await other.session("ses_1", rules=RULES)
    assert await is_sealed(ledger)
    await asyncio.gather(pend(session, "late_1", "ls"), pend(await ledger.attach("ses_1"), "late_2", "ls"))
    found = await log_of(ledger.store, ONE)
    assert found[: len(entries)] == entries
    assert [one.version for one in found] == list(range(1, len(entries) + 3))
    assert [one.kept for one in await seal(ledger, ONE)] != [None]


async def test_a_session_is_restored_and_sealed_again_into_another_file(
    ledger: Ledger, folder: Path, clock: TestClock
) -> None:
    entries = await lived(ledger)
    (first,) = await seal(ledger, ONE)
    (stub,) = await seals(ledger.store, [ONE])
    assert stub is not None
    assert await archive_of(ledger.store).restore(ONE, stub)
    assert not await is_sealed(ledger)
    assert await log_of(ledger.store, ONE) == entries
    clock.advance(1)
    (second,) = await seal(ledger, ONE)
    assert second.kept is None
    assert second.file != first.file
    assert await log_of(ledger.store, ONE) == entries


async def test_a_session_with_something_to_do_stays_and_the_reason_is_told(
    ledger: Ledger, folder: Path, clock: TestClock
) -> None:
    session = await ledger.session("ses_1", project="shop", rules=RULES)
    engine = Engine(ledger.store, before_step=Repairs(ledger))

    async def reason(rule: SealRule | None = None, key: StreamKey = ONE) -> str:
        (result,) = await seal(ledger, key, rule=rule)
        assert not await is_sealed(ledger, key)
        return result.kept or ""

    assert "it is open" in await reason()
    clock.advance(31 * DAY_MS)
    assert "its views are behind" in await reason()
    await engine.catch_up(ONE)
    assert "it is not of project `other`" in await reason(SealRule(project="other"))
    await pend(session, "r1")
    clock.advance(1)
    await engine.catch_up(ONE)
    assert "1 of its requests are pending" in await reason(SealRule(idle_ms=1))
    await session.reply("r1", "once", actor=ANN)
    assert (await session.ask("bash", ["git push"], request_id="r1", claim=True)).allowed
    clock.advance(1)
    await engine.catch_up(ONE)
    assert "1 of its calls are claimed" in await reason(SealRule(idle_ms=1))
    assert "no such session" in await reason(key=TWO)


async def test_a_session_whose_grant_its_project_lacks_stays(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await ledger.session("ses_1", project="shop", rules=RULES)
    await pend(session, "r1", always=("git *",))
    with monkeypatch.context() as patch:

        async def dies(*_: object) -> None:
            raise ConnectionError("the process died here")

        patch.setattr(type(session.answers), "write_project_grants", dies)
        with pytest.raises(ConnectionError):
            await session.reply("r1", "always", actor=ANN)
    await session.close()
    await Engine(ledger.store).catch_up(ONE)
    (result,) = await seal(ledger, ONE)
    assert "lacks its grant" in (result.kept or "")
    assert not await is_sealed(ledger)


async def test_a_dry_run_changes_nothing(ledger: Ledger, folder: Path) -> None:
    await lived(ledger)
    (result,) = await seal(ledger, ONE, dry_run=True)
    assert (result.kept, result.file) == (None, None)
    assert not await is_sealed(ledger)
    assert [name async for name in FolderBucket(folder).names()] == []


async def test_a_held_session_may_be_sealed_because_nothing_is_destroyed(ledger: Ledger, folder: Path) -> None:
    await lived(ledger)
    await ledger.holds.place(session="ses_1", reason="case 7", actor=ANN)
    (result,) = await seal(ledger, ONE)
    assert result.kept is None


async def test_an_event_that_comes_while_a_session_is_written_wins_over_the_seal(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lived(ledger)
    await lived(ledger, "ses_2")
    session, write = await ledger.attach("ses_1"), ArchiveFiles.write

    async def slowly(self: ArchiveFiles, *given: object) -> object:
        written = await write(self, *given)  # type: ignore[arg-type]
        await session.note_tool_finished("ses_1_1", ok=True, actor="agent")
        return written

    monkeypatch.setattr(ArchiveFiles, "write", slowly)
    one, two = await seal(ledger, ONE, TWO)
    assert "it went on" in (one.kept or "")
    assert two.kept is None
    assert (await is_sealed(ledger), await is_sealed(ledger, TWO)) == (False, True)
    assert (await events_of(session))[-1] == "tool_finished"


async def test_two_archivers_at_once_seal_each_session_once(
    ledger: Ledger, open_ledger: OpenLedger, folder: Path
) -> None:
    keys = [StreamKey("session", f"ses_{number}") for number in range(4)]
    before = {key: await lived(ledger, key.id) for key in keys}
    other = await open_ledger()
    found = await asyncio.gather(seal(ledger, *keys), seal(other, *keys[:3]))
    sealed = [one.key for results in found for one in results if one.kept is None]
    assert sorted(sealed) == sorted(set(sealed)) == keys
    assert {key: await log_of(other.store, key) for key in keys} == before


STEPS = ("put zst", "put json", "get json", "get zst")


@pytest.mark.parametrize("step", STEPS)
async def test_a_place_that_refuses_at_any_step_leaves_the_session_on_the_server(
    ledger: Ledger, tmp_path: Path, step: str
) -> None:
    entries = await lived(ledger)
    bucket = MemoryBucket()
    archive_of(ledger.store)._files = ArchiveFiles(bucket)
    bucket.failing = {step}
    assert isinstance(await raised(seal(ledger, ONE)), ArchiveError)
    assert not await is_sealed(ledger)
    assert await log_of(ledger.store, ONE) == entries
    bucket.failing = set()
    assert [one.kept for one in await seal(ledger, ONE)] == [None]
    assert await log_of(ledger.store, ONE) == entries


@pytest.mark.parametrize("kind", ["zst", "json"])
async def test_a_place_that_gives_other_bytes_leaves_the_session_on_the_server(
    ledger: Ledger, tmp_path: Path, kind: str
) -> None:
    entries = await lived(ledger)
    bucket = MemoryBucket()
    archive_of(ledger.store)._files = ArchiveFiles(bucket)
    bucket.replaced = {kind: b"other"}
    assert isinstance(await raised(seal(ledger, ONE)), DamageError)
    assert not await is_sealed(ledger)
    assert await log_of(ledger.store, ONE) == entries


async def test_a_lost_answer_to_the_seal_leaves_the_session_in_one_place(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = await lived(ledger)
    admin = archive_of(ledger.store)._store
    real = admin.seal

    async def lost(key: StreamKey, stub: Seal) -> bool:
        await real(key, stub)
        raise ArchiveError("the process died here")

    with monkeypatch.context() as patch:
        patch.setattr(admin, "seal", lost)
        await raised(seal(ledger, ONE))
    assert await is_sealed(ledger)
    assert await log_of(ledger.store, ONE) == entries
    assert ["sealed already" in (one.kept or "") for one in await seal(ledger, ONE)] == [True]


async def test_a_lost_file_is_named_and_the_rest_is_readable(ledger: Ledger, folder: Path) -> None:
    await lived(ledger)
    two = await lived(ledger, "ses_2")
    (first,) = await seal(ledger, ONE)
    await seal(ledger, TWO)
    assert first.file is not None
    (folder / first.file).unlink()
    error = await raised(log_of(ledger.store, ONE))
    assert isinstance(error, DamageError)
    assert first.file in error.text
    assert await log_of(ledger.store, TWO) == two
    checked = await check_stream(ledger.store, ONE)
    assert [first.file in problem.text for problem in checked.problems] == [True]
    assert (await check_stream(ledger.store, TWO)).ok
    session = await raised(ledger.session("ses_1"))
    assert isinstance(session, DamageError)
    assert await is_sealed(ledger)


async def test_sealed_sessions_are_read_file_by_file_and_those_of_a_lost_file_one_by_one(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [StreamKey("session", f"ses_{number}") for number in range(1, 8)]
    logs = {key: await lived(ledger, key.id) for key in keys}
    some, others, on_server = keys[::3], [keys[4], keys[1]], [keys[2], keys[5]]
    (first, *_), (second, *_) = await seal(ledger, *some), await seal(ledger, *others)
    assert first.file is not None
    assert second.file is not None
    by_file = {first.file: sorted(some), second.file: sorted(others)}
    order = await archive_of(ledger.store).in_file_order(reversed(keys))
    assert order == [*on_server, *(key for file in sorted(by_file) for key in by_file[file])]
    reads: list[list[StreamKey]] = []
    together = ArchiveFiles.whole_streams

    async def noted(self: ArchiveFiles, file: str, heads: dict[StreamKey, Head]) -> dict[StreamKey, list[Entry]]:
        reads.append(sorted(heads))
        return await together(self, file, heads)

    monkeypatch.setattr(ArchiveFiles, "whole_streams", noted)
    found = await ledger.store.short_streams(keys, 100)
    assert [one and one.entries for one in found] == list(logs.values())
    assert sorted(reads) == sorted(by_file.values())
    (folder / first.file).unlink()
    found = await ledger.store.short_streams(keys, 100)
    assert [key for key, one in zip(keys, found, strict=True) if one is None] == sorted(some)


async def test_a_place_out_of_reach_is_asked_once_for_streams_that_are_read_together(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in (ONE, TWO):
        await lived(ledger, key.id)
        await seal(ledger, key)
    asked: list[str] = []

    async def refused(_: ArchiveFiles, file: str, heads: object) -> dict[StreamKey, list[Entry]]:
        asked.append(file)
        raise ArchiveError("the place does not answer")

    monkeypatch.setattr(ArchiveFiles, "whole_streams", refused)
    assert await ledger.store.short_streams([ONE, TWO], 100) == [None, None]
    assert len(asked) == 1


async def test_without_a_place_streams_are_ordered_by_name_and_no_stub_is_read(ledger: Ledger) -> None:
    keys = [StreamKey("session", "ses_2"), StreamKey("project", "shop"), StreamKey("session", "ses_1")]
    assert await archive_of(ledger.store).in_file_order(keys) == sorted(keys)


async def test_a_file_with_other_bytes_is_refused_by_readers_and_by_restore(ledger: Ledger, folder: Path) -> None:
    await lived(ledger)
    await lived(ledger, "ses_2")
    (first,), (second,) = await seal(ledger, ONE), await seal(ledger, TWO)
    assert first.file is not None
    assert second.file is not None
    (folder / first.file).write_bytes((folder / second.file).read_bytes())
    (stub,) = await seals(ledger.store, [ONE])
    assert stub is not None
    assert isinstance(await raised(log_of(ledger.store, ONE)), DamageError)
    assert isinstance(await raised(archive_of(ledger.store).restore(ONE, stub)), DamageError)
    assert await is_sealed(ledger)


async def test_a_ledger_without_a_place_says_how_to_set_one(ledger: Ledger) -> None:
    await lived(ledger)
    error = await raised(seal(ledger, ONE))
    assert isinstance(error, ArchiveError)
    assert "archive --to URL" in error.text
    assert not await is_sealed(ledger)


async def test_the_place_is_moved_only_to_one_that_has_all_files(
    ledger: Ledger, open_ledger: OpenLedger, folder: Path, tmp_path: Path
) -> None:
    entries = await lived(ledger)
    (result,) = await seal(ledger, ONE)
    held = archive_of(ledger.store)
    assert "lacks the file" in (await _input_error(held.set_url(str(tmp_path / "new")))).text
    await asyncio.to_thread(folder.rename, tmp_path / "new")
    assert await held.set_url(str(tmp_path / "new")) == (tmp_path / "new").as_uri()
    assert await log_of((await open_ledger()).store, ONE) == entries
    assert result.kept is None


async def test_an_unknown_session_stays_unknown(ledger: Ledger, folder: Path) -> None:
    assert isinstance(await raised(ledger.attach("ses_9")), UnknownSessionError)


async def _input_error(call: object) -> InputError:
    error: LedgerError = await raised(call)  # type: ignore[arg-type]
    assert isinstance(error, InputError)
    assert not isinstance(error, SealedError)
    return error


async def test_a_sealed_session_of_a_ledger_without_a_place_is_refused_as_sealed_and_not_listed(ledger: Ledger) -> None:
    entries = await lived(ledger)
    head = head_of(entries[-1])
    stub = Seal(head.position, head.hash, f"2026/11/24/1-{'0' * 24}.jsonl.zst", await ledger.store.now_ms())
    assert await ledger.store.seal(ONE, stub)
    for read in (log_of(ledger.store, ONE), ledger.state_at("ses_1"), (ledger.session("ses_1"))):
        assert isinstance(await raised(read), SealedError)
    assert ONE not in [key async for key in all_streams(ledger.store)]


@pytest.mark.parametrize(("room", "kept"), [(1, 1), (10_000_000, 2)])
async def test_a_reader_keeps_no_more_sealed_sessions_than_their_share_of_the_room(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch, room: int, kept: int
) -> None:
    await lived(ledger)
    await lived(ledger, "ses_2")
    await seal(ledger, ONE, TWO)
    stubs = await seals(ledger.store, [ONE, TWO])
    monkeypatch.setattr(archive_module, "cache_bytes", lambda _: room)
    archive = archive_module.Archive(ledger.store)
    reads = 0

    async def counted(key: StreamKey, seal: Seal) -> Sequence[Entry]:
        nonlocal reads
        reads += 1
        return await read(key, seal)

    read = archive._read
    monkeypatch.setattr(archive, "_read", counted)
    for _ in range(2):
        for key, stub in zip((ONE, TWO), stubs, strict=True):
            assert stub is not None
            await archive.entries(key, stub)
    # With room for one, each read drops the other.
    assert reads == (4 if kept == 1 else 2)

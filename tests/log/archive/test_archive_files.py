"""Files of sessions: what is read is what was written, byte for byte, and anything else is refused by name."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest
from backports import zstd
from msgspec.structs import replace

from ledger.core.errors import ArchiveError, DamageError, InputError
from ledger.log.archive.buckets import FolderBucket, check_url, open_bucket
from ledger.log.archive.files import AT_ONCE_COUNT, ArchiveFiles
from ledger.log.archive.manifests import FRAME_BYTES, Manifest
from ledger.log.exported import stream_lines, streams_in
from ledger.log.verify import Head
from ledger.stores.port import Entry, StreamKey
from tests.support.archives import NOW_MS, MemoryBucket, bucket_of, head_in, lived
from workers.upkeep.transfer import read_export

ONE = lived("ses_1")
TWO = lived("ses_ž", requests=5)
BOTH = dict((TWO, ONE))
FILE = f"2026/11/24/1-{'0' * 24}.jsonl.zst"


@pytest.fixture(params=["folder", "object store"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> ArchiveFiles:
    return ArchiveFiles(bucket_of(request.param, tmp_path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def in_folder(folder: Path) -> ArchiveFiles:
    return ArchiveFiles(FolderBucket(folder))


async def test_a_session_is_read_as_it_was_written_byte_for_byte(files: ArchiveFiles) -> None:
    manifest = await files.write(BOTH, NOW_MS)
    for key, entries in BOTH.items():
        assert await files.entries(key, manifest.file, head_in(entries)) == list(entries)


async def test_many_readers_of_a_process_share_a_few_threads(files: ArchiveFiles) -> None:
    manifest = await files.write(BOTH, NOW_MS)
    key, entries = ONE
    found = await asyncio.gather(*(files.entries(key, manifest.file, head_in(entries)) for _ in range(40)))
    assert found == [list(entries)] * 40
    names = [one.name for one in threading.enumerate() if one.name.startswith("ledger-archive")]
    assert 1 <= len(names) <= AT_ONCE_COUNT


async def test_the_manifest_names_each_stream_with_its_hashes_and_is_what_is_read(files: ArchiveFiles) -> None:
    manifest = await files.write(BOTH, NOW_MS)
    assert await files.manifest(manifest.file) == manifest
    assert [one async for one in files.files()] == [manifest.file]
    assert [one.key for one in manifest.streams] == [ONE[0], TWO[0]]
    assert [one.head for one in manifest.streams] == [head_in(ONE[1]), head_in(TWO[1])]
    assert (manifest.entries, manifest.written_ms) == (len(ONE[1]) + len(TWO[1]), NOW_MS)


async def test_a_whole_file_verifies(files: ArchiveFiles) -> None:
    manifest = await files.write(BOTH, NOW_MS)
    assert await files.check(manifest.file) == []


async def test_a_file_is_named_by_its_day_and_its_content_and_is_never_changed(folder: Path) -> None:
    files = in_folder(folder)
    manifest = await files.write(dict([ONE]), NOW_MS)
    data = (folder / manifest.file).read_bytes()
    assert manifest.file == f"2026/11/24/{NOW_MS}-{sha256(data).hexdigest()[:24]}.jsonl.zst"
    assert await files.write(dict([ONE]), NOW_MS) == manifest
    assert (folder / manifest.file).read_bytes() == data


async def test_a_name_that_has_other_bytes_is_not_written_again(tmp_path: Path) -> None:
    for kind in ("folder", "object store"):
        bucket = bucket_of(kind, tmp_path)
        await bucket.put_new(FILE, b"one")
        await bucket.put_new(FILE, b"one")
        with pytest.raises(ArchiveError, match="never changed"):
            await bucket.put_new(FILE, b"two")
        assert await bucket.get(FILE) == b"one"


async def test_files_are_readable_by_their_owner_only(folder: Path) -> None:
    manifest = await in_folder(folder).write(dict([ONE]), NOW_MS)
    assert [(path.stat().st_mode & 0o077) for path in (folder / manifest.file).parent.iterdir()] == [0, 0]


async def test_a_file_is_an_export_in_frames_of_whole_sessions(folder: Path) -> None:
    sessions = dict(lived(f"ses_{number:04d}", requests=50) for number in range(25))
    manifest = await in_folder(folder).write(sessions, NOW_MS)
    data = (folder / manifest.file).read_bytes()
    exported = list(read_export(BytesIO(zstd.decompress(data)), "it"))
    assert {one.key: tuple(one.entries) for one in exported} == sessions
    assert [one.key for one in exported] == sorted(sessions)
    frames = {one.place[:2] for one in manifest.streams}
    assert 1 < len(frames) < len(sessions)
    for one in manifest.streams:
        frame, frame_bytes, lines, lines_bytes = one.place
        own = zstd.decompress(data[frame : frame + frame_bytes])[lines : lines + lines_bytes]
        assert own == stream_lines(one.key, sessions[one.key])
        assert len(own) <= FRAME_BYTES


async def test_a_session_is_read_with_one_frame_of_its_file(tmp_path: Path) -> None:
    sessions = dict(lived(f"ses_{number:04d}", requests=50) for number in range(25))
    bucket, read = MemoryBucket(), list[int]()
    get = bucket.get

    async def noted(name: str, start: int = 0, length: int | None = None) -> bytes:
        data = await get(name, start, length)
        if not name.endswith(".json"):
            read.append(len(data))
        return data

    bucket.get = noted  # type: ignore[method-assign]
    manifest = await ArchiveFiles(bucket).write(sessions, NOW_MS)
    read.clear()
    files = ArchiveFiles(bucket)
    for key in [*sessions][3:5]:
        assert await files.entries(key, manifest.file, head_in(sessions[key])) == list(sessions[key])
    assert all(count <= max(one.place.frame_bytes for one in manifest.streams) < manifest.size_bytes for count in read)


@pytest.mark.parametrize("manifest_is", ["lost", "broken", "of other places"])
async def test_a_session_is_read_without_the_manifest_of_its_file(folder: Path, manifest_is: str) -> None:
    written = await in_folder(folder).write(BOTH, NOW_MS)
    path = folder / written.file.replace(".jsonl.zst", ".json")
    match manifest_is:
        case "lost":
            path.unlink()
        case "broken":
            path.write_bytes(b"{")
        case _:
            path.write_bytes(replace(written, streams=written.streams[:1]).encoded())
    for key, entries in BOTH.items():
        assert await in_folder(folder).entries(key, written.file, head_in(entries)) == list(entries)


LINES = stream_lines(*ONE)


@pytest.mark.parametrize(
    "lines",
    [
        LINES[:-1].rpartition(b"\n")[0],
        LINES.partition(b"\n")[2],
        LINES.replace(b'"entries":', b'"entries":1'),
        LINES.replace(b'{"end":"session:ses_1"', b'{"end":"session:ses_2"'),
        LINES.replace(b'{"end"', b'{"stream":"session:ses_2"}\n{"end"'),
        LINES.replace(b'{"end"', b'{"file":"x"}\n{"end"'),
        LINES + b"more\n",
        LINES.replace(b'{"id":"', b'{"id":"x'),
    ],
)
def test_lines_that_are_no_whole_streams_are_refused(lines: bytes) -> None:
    assert dict(streams_in(LINES)) == {ONE[0].name: list(ONE[1])}
    with pytest.raises(ValueError):
        list(streams_in(lines))


@pytest.mark.parametrize("at", [(0, 2**60, 0, 10), (2**60, 10, 0, 10), (50, 100, 0, 2**60), (50, 100, 2**60, 2**60)])
async def test_places_that_no_file_has_are_refused_without_taking_their_room(
    folder: Path, at: tuple[int, int, int, int]
) -> None:
    written = await in_folder(folder).write(dict([ONE]), NOW_MS)
    moved = replace(written, streams=(replace(written.streams[0], at=at),))
    (folder / written.file.replace(".jsonl.zst", ".json")).write_bytes(moved.encoded())
    with pytest.raises(DamageError, match="in the archive's file"):
        await in_folder(folder).entries(ONE[0], written.file, head_in(ONE[1]))
    assert await in_folder(folder).whole_streams(written.file, {ONE[0]: head_in(ONE[1])}) == {}


async def test_a_lost_file_is_named_and_the_others_are_read(folder: Path) -> None:
    files = in_folder(folder)
    lost, kept = await files.write(dict([ONE]), NOW_MS), await files.write(dict([TWO]), NOW_MS + 1)
    (folder / lost.file).unlink()
    with pytest.raises(DamageError, match="is not there") as caught:
        await files.entries(ONE[0], lost.file, head_in(ONE[1]))
    assert (caught.value.data["file"], caught.value.session) == (lost.file, "ses_1")
    assert await files.entries(TWO[0], kept.file, head_in(TWO[1])) == list(TWO[1])
    assert [one.file for one in await files.check(lost.file)] == [lost.file]
    assert await files.check(kept.file) == []


async def test_streams_of_a_file_are_read_together_as_each_by_itself(files: ArchiveFiles) -> None:
    manifest = await files.write(BOTH, NOW_MS)
    heads = {key: head_in(entries) for key, entries in BOTH.items()}
    assert await files.whole_streams(manifest.file, heads) == {key: list(one) for key, one in BOTH.items()}


async def test_of_streams_that_are_read_together_those_are_left_out_that_are_refused_by_themselves(
    folder: Path,
) -> None:
    files, (key, entries), (other, others) = in_folder(folder), ONE, TWO
    manifest = await files.write({key: entries[:-1], other: others}, NOW_MS)
    never = StreamKey("session", "ses_0")
    another_history = Head(others[-1].position, "0" * 64)
    for heads, whole in (
        ({key: head_in(entries), other: head_in(others), never: head_in(entries)}, [other]),
        ({key: head_in(entries[:-1]), other: another_history}, [key]),
    ):
        assert list(await files.whole_streams(manifest.file, heads)) == whole
        for one in heads.keys() - set(whole):
            with pytest.raises(DamageError):
                await files.entries(one, manifest.file, heads[one])
    (folder / manifest.file).unlink()
    assert await files.whole_streams(manifest.file, {other: head_in(others)}) == {}


@pytest.mark.parametrize("at", [0.02, 0.3, 0.6, 0.98])
async def test_a_file_with_other_bytes_is_refused(folder: Path, at: float) -> None:
    files = in_folder(folder)
    manifest = await files.write(BOTH, NOW_MS)
    path = folder / manifest.file
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0x55
    path.write_bytes(data)
    found = await files.check(manifest.file)
    assert found
    assert {one.file for one in found} == {manifest.file}
    for key, entries in BOTH.items():
        (read,) = await asyncio.gather(files.entries(key, manifest.file, head_in(entries)), return_exceptions=True)
        assert read == list(entries) or (isinstance(read, DamageError) and manifest.file in read.text)
    together = await files.whole_streams(manifest.file, {key: head_in(entries) for key, entries in BOTH.items()})
    assert together.items() <= {key: list(entries) for key, entries in BOTH.items()}.items()


async def test_a_file_of_other_sessions_under_the_same_name_is_refused(folder: Path) -> None:
    files = in_folder(folder)
    mine, other = await files.write(dict([ONE]), NOW_MS), await files.write(dict([TWO]), NOW_MS + 1)
    (folder / mine.file).write_bytes((folder / other.file).read_bytes())
    with pytest.raises(DamageError, match="in the archive's file"):
        await files.entries(ONE[0], mine.file, head_in(ONE[1]))


@pytest.mark.parametrize("change", ["payload", "content", "time", "a hole"])
async def test_a_stream_that_is_not_whole_is_not_archived(folder: Path, change: str) -> None:
    key, entries = ONE
    changed, one = list(entries), entries[1]
    match change:
        case "payload":
            changed[1] = one._replace(payload=one.payload.replace(b"bash", b"edit"))
        case "content":
            changed[1] = one._replace(content=(one.content or b"").replace(b"echo", b"curl"))
        case "time":
            changed[1] = one._replace(ms=one.ms - 1)
        case _:
            del changed[2]
    assert changed != list(entries)
    with pytest.raises(DamageError, match="not archived"):
        await in_folder(folder).write({key: changed}, NOW_MS)
    assert [name async for name in FolderBucket(folder).names()] == []


async def test_a_file_without_the_last_entries_of_a_session_is_refused(folder: Path) -> None:
    key, entries = ONE
    files = in_folder(folder)
    manifest = await files.write({key: entries[:-1]}, NOW_MS)
    with pytest.raises(DamageError, match="was sealed at"):
        await files.entries(key, manifest.file, head_in(entries))


async def test_a_head_of_another_history_is_refused(folder: Path) -> None:
    files = in_folder(folder)
    manifest = await files.write(dict([ONE]), NOW_MS)
    with pytest.raises(DamageError, match="rewritten"):
        await files.entries(ONE[0], manifest.file, Head(ONE[1][-1].position, "0" * 64))


@pytest.mark.parametrize("step", ["put zst", "put json", "get json", "get zst"])
async def test_a_refused_step_leaves_no_file_that_counts_as_written(tmp_path: Path, step: str) -> None:
    bucket = MemoryBucket()
    bucket.failing = {step}
    with pytest.raises(ArchiveError, match=step):
        await ArchiveFiles(bucket).write(BOTH, NOW_MS)
    bucket.failing = set()
    manifest = await ArchiveFiles(bucket).write(BOTH, NOW_MS + 1)
    assert await ArchiveFiles(bucket).entries(*_of(ONE, manifest)) == list(ONE[1])


@pytest.mark.parametrize("kind", ["zst", "json"])
async def test_a_place_that_gives_other_bytes_back_is_found_before_anything_is_sealed(
    tmp_path: Path, kind: str
) -> None:
    other = MemoryBucket()
    written = await ArchiveFiles(other).write(dict([ONE]), NOW_MS)
    bucket = MemoryBucket()
    bucket.replaced = {name.rpartition(".")[2]: data for name, data in other.files.items() if name.endswith(kind)}
    with pytest.raises(DamageError):
        await ArchiveFiles(bucket).write(BOTH, NOW_MS)
    assert written.file in other.files


async def test_the_manifest_of_another_file_or_with_other_members_is_refused(folder: Path) -> None:
    files = in_folder(folder)
    manifest = await files.write(dict([ONE]), NOW_MS)
    path = folder / manifest.file.replace(".jsonl.zst", ".json")
    for change in (
        {"file": "2026/11/24/1-" + "0" * 24 + ".jsonl.zst"},
        {"format": 2},
        {"entries": "many"},
        {"more": 1},
    ):
        path.write_bytes(json.dumps({**json.loads(manifest.encoded()), **change}).encode())
        with pytest.raises(DamageError, match="manifest"):
            await files.manifest(manifest.file)


async def test_entries_that_are_swapped_between_two_streams_are_found_by_the_check(tmp_path: Path) -> None:
    bucket = MemoryBucket()
    files = ArchiveFiles(bucket)
    one, two = await files.write(dict([ONE]), NOW_MS), await files.write(dict([TWO]), NOW_MS + 1)
    bucket.files[one.file] = bucket.files[two.file]
    texts = [problem.text for problem in await files.check(one.file)]
    assert any("another hash" in text for text in texts)
    assert any("`session:ses_ž`" in text and "not in its manifest" in text for text in texts)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "2026/11/24/../x.jsonl.zst", "", "x" * 200])
async def test_a_name_that_leads_out_of_the_archive_is_refused(files: ArchiveFiles, name: str) -> None:
    with pytest.raises(DamageError, match="not the name of a file of the archive"):
        await files.entries(ONE[0], name, head_in(ONE[1]))


async def test_a_stream_with_bytes_that_are_no_text_is_not_archived(files: ArchiveFiles) -> None:
    key = StreamKey("session", "ses_1")
    with pytest.raises(DamageError, match="not archived"):
        await files.write({key: [Entry(1, 1, b"\xff")]}, NOW_MS)
    with pytest.raises(DamageError, match="no entries"):
        await files.write({key: []}, NOW_MS)


async def test_a_folder_that_takes_no_files_is_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("a file")
    with pytest.raises(ArchiveError, match="could not be written"):
        await in_folder(tmp_path / "archive").write(dict([ONE]), NOW_MS)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("/srv/archive", "file:///srv/archive"),
        ("/srv/a b/../archive/", "file:///srv/archive"),
        ("file:///srv/a%20b", "file:///srv/a%20b"),
        ("s3://bucket/ledger/", "s3://bucket/ledger"),
        ("gs://bucket", "gs://bucket"),
        ("az://container/x", "az://container/x"),
    ],
)
def test_the_url_of_an_archive_is_kept_in_full(text: str, url: str) -> None:
    assert check_url(text) == url


@pytest.mark.parametrize(
    "text", ["", "http://host/x", "file://host/x", "s3://", "memory://", "s3://a\nb", "x" * 1001, "redis://host"]
)
def test_another_url_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        check_url(text)


@pytest.mark.parametrize("text", ["s3://AKIA:secret@bucket/x", "s3://bucket?secret_access_key=secret", "az://a#secret"])
def test_a_url_with_credentials_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InputError) as caught:
        check_url(text)
    assert "secret" not in caught.value.text.replace("AWS_SECRET_ACCESS_KEY", "")


async def test_an_object_store_that_cannot_be_reached_is_told_without_its_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAHIDDEN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-secret")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT", "https://127.0.0.1:1")
    with pytest.raises(ArchiveError) as caught:
        await ArchiveFiles(open_bucket("s3://bucket/x")).write(dict([ONE]), NOW_MS)
    chain: BaseException | None = caught.value
    assert "s3://bucket/x" in caught.value.text
    assert chain is not None
    assert "hidden" not in caught.value.text.lower()


def test_a_process_that_is_killed_while_it_writes_leaves_no_file_under_a_name(folder: Path) -> None:
    code = (
        "import os, asyncio\n"
        "from pathlib import Path\n"
        "from ledger.log.archive import buckets\n"
        f"bucket = buckets.FolderBucket(Path({str(folder)!r}))\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), 9)\n"
        f"asyncio.run(bucket.put_new('2026/11/24/1-{'0' * 24}.jsonl.zst', b'half'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    assert [path.suffix for path in folder.rglob("*") if path.is_file()] == [".part"]


def _of(session: tuple[StreamKey, tuple[Entry, ...]], manifest: Manifest) -> tuple[StreamKey, str, Head]:
    return session[0], manifest.file, head_in(session[1])

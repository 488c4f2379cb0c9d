"""Places that fail: an object store that refuses, breaks, hangs or lies at each step, and disks that are full."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest

from ledger.core.errors import ArchiveError, DamageError, LedgerError
from ledger.log.archive import buckets, files
from ledger.log.archive.buckets import FolderBucket, open_bucket
from ledger.log.archive.files import ArchiveFiles
from tests.support.archives import NOW_MS, head_in, lived

ONE = lived("ses_1")
BUCKET: Final = "s3://bucket/ledger"


class Bench:
    """The objects of a small server that speaks S3, and the fault of one kind of request."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.fault = ""
        self.step = ""
        self.release = Event()

    def fault_of(self, method: str, path: str) -> str:
        return self.fault if self.step == f"{method} {path.rpartition('.')[2]}" else ""


class S3Handler(BaseHTTPRequestHandler):
    bench: Bench

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_PUT(self) -> None:
        path = self._path()
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self._failed(path):
            return
        if self.headers.get("If-None-Match") == "*" and path in self.bench.objects:
            self._answer(412, b"")
            return
        self.bench.objects[path] = data
        self._answer(200, b"")

    def do_GET(self) -> None:
        path = self._path()
        if self._failed(path):
            return
        found = self.bench.objects.get(path)
        if found is None or "Range" not in self.headers:
            self._answer(404 if found is None else 200, found or b"")
            return
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = found[int(first) : int(last) + 1]
        self._answer(206, part, f"bytes {first}-{int(first) + len(part) - 1}/{len(found)}")

    def _path(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/")

    def _failed(self, path: str) -> bool:
        match self.bench.fault_of(self.command, path):
            case "refuses":
                self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
            case "breaks":
                self._answer(503, b"")
            case "cuts off":
                self.send_response(200)
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                self.wfile.write(b"half")
                self.close_connection = True
            case "hangs":
                self.bench.release.wait(20)
                self.close_connection = True
            case "lies":
                self._answer(200, b"other bytes")
            case _:
                return False
        return True

    def _answer(self, status: int, data: bytes, content_range: str = "") -> None:
        self.send_response(status)
        if content_range:
            self.send_header("Content-Range", content_range)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Tue, 24 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    bench = Bench()
    handler = type("Handler", (S3Handler,), {"bench": bench})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "AKIAHIDDEN"),
            ("AWS_SECRET_ACCESS_KEY", "hidden-secret"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ENDPOINT", f"http://127.0.0.1:{server.server_port}"),
            ("AWS_ALLOW_HTTP", "true"),
        ):
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(buckets, "REQUEST_TIMEOUT", timedelta(seconds=0.5))
        monkeypatch.setattr(buckets, "RETRIES_MAX", 1)
        try:
            yield bench
        finally:
            bench.release.set()
            server.shutdown()
            thread.join()


STEPS: Final = ("PUT zst", "PUT json", "GET json", "GET zst")
FAULTS: Final = [
    (fault, step)
    for fault, steps in (
        ("refuses", STEPS),
        ("breaks", STEPS[:1]),
        ("hangs", STEPS[::3]),
        ("cuts off", STEPS[2:]),
        ("lies", STEPS[2:]),
    )
    for step in steps
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "step"), FAULTS, ids=lambda value: value.replace(" ", "-"))
async def test_an_object_store_that_fails_at_any_step_is_told_in_time_and_the_next_attempt_succeeds(
    bench: Bench, fault: str, step: str
) -> None:
    bench.fault, bench.step = fault, step
    place = ArchiveFiles(open_bucket(BUCKET))
    with pytest.raises(LedgerError) as caught:
        async with asyncio.timeout(60):
            await place.write(dict([ONE]), NOW_MS)
    assert isinstance(caught.value, DamageError if fault == "lies" else ArchiveError)
    assert BUCKET in caught.value.text or "manifest" in caught.value.text
    assert "hidden" not in caught.value.text.lower()
    bench.step = ""
    bench.release.set()
    manifest = await place.write(dict([ONE]), NOW_MS + 1)
    assert await place.entries(ONE[0], manifest.file, head_in(ONE[1])) == list(ONE[1])


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["refuses", "hangs", "cuts off", "lies"])
async def test_a_session_whose_object_cannot_be_read_is_named_and_is_read_when_it_can_be(
    bench: Bench, fault: str
) -> None:
    manifest = await ArchiveFiles(open_bucket(BUCKET)).write(dict([ONE]), NOW_MS)
    bench.fault, bench.step = fault, "GET zst"
    place = ArchiveFiles(open_bucket(BUCKET))
    with pytest.raises((ArchiveError, DamageError), match=manifest.file):
        await place.entries(ONE[0], manifest.file, head_in(ONE[1]))
    bench.step = ""
    bench.release.set()
    fresh = ArchiveFiles(open_bucket(BUCKET))
    assert await fresh.entries(ONE[0], manifest.file, head_in(ONE[1])) == list(ONE[1])


@contextmanager
def no_room(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_full_disk_of_the_archive_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    bucket = FolderBucket(tmp_path / "archive")
    manifest, data = files._made(dict([ONE]), NOW_MS, ())
    with no_room(100), pytest.raises(ArchiveError, match="could not be written"):
        await bucket.put_new(manifest.file, data)
    assert files_in(tmp_path) == []
    await bucket.put_new(manifest.file, data)

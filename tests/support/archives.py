"""Sessions and places for tests of the archive."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ledger import Ledger
from ledger.core.errors import ArchiveError
from ledger.log.archive.archive import Archive, all_streams, archive_of
from ledger.log.archive.buckets import Bucket, FolderBucket, MissingFileError, ObjectBucket
from ledger.log.archive.sealing import Sealing, SealRule
from ledger.log.verify import head_of
from ledger.stores.port import Entry, StreamKey
from tests.support.commands import asks, closes, opens, replies
from tests.support.scenario import Scenario, later
from workers.upkeep.archiving import bringing_up

NOW_MS = 1_795_478_400_000


def lived(name: str, *, requests: int = 2) -> tuple[StreamKey, tuple[Entry, ...]]:
    """Return a closed session: some requests were asked and answered, in many alphabets."""
    scenario = Scenario(name).given(opens({"bash": "ask"}))
    for number in range(1, requests + 1):
        request_id = f"per_{number}"
        scenario.given(later("1s"), asks(request_id, f"echo 'žluťoučký \u0000 \U0001f40e {number}' \\n"))
        scenario.given(later("1s"), replies(request_id, "once"))
    scenario.given(later("1s"), closes())
    return scenario.key, tuple(scenario.entries)


def head_in(entries: tuple[Entry, ...]) -> Any:
    return head_of(entries[-1])


class MemoryBucket:
    """A place in memory that a test breaks: `failing` are the steps that raise, `replaced` the bytes that are read."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.failing: set[str] = set()
        self.replaced: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return "s3://bucket"

    async def put_new(self, name: str, data: bytes) -> None:
        self._step(f"put {name.rpartition('.')[2]}")
        assert self.files.get(name, data) == data
        self.files[name] = data

    async def get(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        self._step(f"get {name.rpartition('.')[2]}")
        found = self.replaced.get(name.rpartition(".")[2], self.files.get(name))
        if found is None:
            raise MissingFileError(f"no file {name}")
        return found[start : None if length is None else start + length]

    async def names(self) -> AsyncIterator[str]:
        for name in sorted(self.files):
            yield name

    async def remove(self, name: str) -> None:
        self._step(f"remove {name.rpartition('.')[2]}")
        self.files.pop(name, None)

    def _step(self, step: str) -> None:
        if step in self.failing:
            raise ArchiveError(f"refused: {step}")


def bucket_of(kind: str, folder: Path) -> Bucket:
    """Return an empty place: a folder, or an object store that lies in a folder."""
    if kind == "folder":
        return FolderBucket(folder / "archive")
    from obstore.store import LocalStore  # noqa: PLC0415 - beside the tests of folders

    return ObjectBucket(LocalStore(folder / "objects", mkdir=True), "s3://bucket/archive")


async def seal_all(ledger: Ledger, folder: Path) -> Archive:
    """Seal all sessions into a folder; none of them may be kept."""
    archive = archive_of(ledger.store)
    await archive.set_url(str(folder))
    keys = [key async for key in all_streams(ledger.store) if key.kind == "session"]

    async def wanted() -> AsyncIterator[StreamKey]:
        for key in keys:
            yield key

    sealing = Sealing(ledger.store, ledger.streams, archive, SealRule(idle_ms=1), bringing_up(ledger))
    results = [one async for one in sealing.seal(wanted())]
    assert [one.kept for one in results] == [None] * len(keys)
    return archive

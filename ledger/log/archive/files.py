"""Files of whole sessions at one place: written with their manifests, checked by reading back, and read again.

A file is never changed, and its name never used again. A file without a manifest is what a crash left: nothing refers
to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Final, TypeVar, TypeVarTuple

import msgspec

from ledger.core.errors import DamageError, InputError
from ledger.log.archive.buckets import Bucket, MissingFileError
from ledger.log.archive.manifests import (
    FrameSlice,
    Manifest,
    archived_stream,
    decode_manifest,
    entries_digest,
    packed_streams,
    unpacked_stream,
    unpacked_streams,
)
from ledger.log.verify import Head, WholeEntries, is_whole, verify_entries, whole_entries
from ledger.stores.port import START, Entry, StreamInfo, StreamKey
from ledger.stores.sealed import FILE_SUFFIX, archive_file

MANIFEST: Final = ".json"

MANIFESTS_KEPT_COUNT: Final = 4
"""Manifests that a process keeps, of the files that it read last."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

AT_ONCE_COUNT: Final = 2
"""Threads of a process that read and write files: the second one answers while the first reads a long session."""

REPLACED_COUNT: Final = 32
"""The newest files in whose place one was written that its manifest names."""

WholeSessions = Mapping[StreamKey, Sequence[Entry]]
"""Whole streams, each with all of its entries."""


class FileProblem(msgspec.Struct, frozen=True):
    """A finding in a file of the archive. `stream` is the name of the stream that it concerns, None for all of the file."""

    file: str
    stream: str | None
    text: str


class ArchiveFiles:
    """The files of an archive."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._kept: dict[str, Mapping[StreamKey, FrameSlice]] = {}

    @property
    def url(self) -> str:
        """Return the URL of the place, without credentials."""
        return self._bucket.url

    async def write(self, sessions: WholeSessions, now_ms: int, replaces: str | None = None) -> Manifest:
        """Write whole sessions as a new file, and return its manifest when the file was read back.

        `replaces` is the file from which all of them came.

        Raises DamageError for a stream that is not whole, and where the place gives other bytes than it was given;
        ArchiveError. After an error nothing refers to the file.
        """
        line = await self._line_of(replaces)
        manifest, data = await _in_thread(_made, sessions, now_ms, line)
        await self._bucket.put_new(manifest.file, data)
        await self._bucket.put_new(_manifest_name(manifest.file), manifest.encoded())
        await self._read_back(manifest, sessions)
        return manifest

    async def _line_of(self, file: str | None) -> tuple[str, ...]:
        """Return a file with those that it replaced."""
        if file is None:
            return ()
        try:
            return (*(await self.manifest(file)).replaces, file)[-REPLACED_COUNT:]
        except DamageError:
            return (file,)

    async def replacing(self, file: str) -> list[Manifest]:
        """Return the manifests of the files that were written in the place of another one. Raises ArchiveError."""
        found = []
        async for name in self.files():
            # A broken manifest may be of any file; who reads that file is told.
            with suppress(DamageError):
                manifest = await self.manifest(name)
                if file in manifest.replaces:
                    found.append(manifest)
        return found

    async def entries(self, key: StreamKey, file: str, head: Head) -> list[Entry]:
        """Return all entries of a stream up to a head, verified against it.

        Raises DamageError, which names the file, where it is lost or has other bytes; ArchiveError.
        """
        try:
            place = (await self._places(file)).get(key)
            entries = await (self._all_of(key, file) if place is None else self._read_at(key, file, place))
        except (MissingFileError, InputError) as error:
            raise DamageError(
                f"stream `{key.name}` is in the archive's file `{file}`, which is not there: {error.text}",
                stream=key.name,
                file=file,
            ) from error
        except DamageError as error:
            text = f"stream `{key.name}` is in the archive's file `{file}`, which {error.text}"
            raise DamageError(text, stream=key.name, file=file) from error
        await _in_thread(_require_whole, key, entries, head, file)
        return entries

    async def _read_at(self, key: StreamKey, file: str, place: FrameSlice) -> list[Entry]:
        frame = await self._bucket.get(file, place.frame, place.frame_bytes)
        name, entries = await _in_thread(unpacked_stream, frame, place)
        return entries if name == key.name else []

    async def _all_of(self, key: StreamKey, file: str) -> list[Entry]:
        """Return the entries of a stream of a file whose manifest does not name it."""
        return (await _in_thread(_streams_of, await self._bucket.get(file))).get(key.name, [])

    async def _places(self, file: str) -> Mapping[StreamKey, FrameSlice]:
        """Return the places of the streams of a file; none where its manifest cannot be read."""
        found = self._kept.get(file)
        if found is None:
            with suppress(DamageError):
                found = {one.key: one.place for one in (await self.manifest(file)).streams}
                self._kept[file] = found
                while len(self._kept) > MANIFESTS_KEPT_COUNT:
                    self._kept.pop(next(iter(self._kept)))
        return found or {}

    async def whole_streams(self, file: str, heads: Mapping[StreamKey, Head]) -> dict[StreamKey, list[Entry]]:
        """Return the entries of streams of one file, each up to its head and verified against it, read together.

        Streams that are lost or were changed are left out; who reads one by itself is told why. Raises ArchiveError.
        """
        known = await self._places(file)
        places = {key: known[key] for key in heads if key in known}
        if not places:
            return {}
        first = min(one.frame for one in places.values())
        end = max(one.frame + one.frame_bytes for one in places.values())
        try:
            frames = await self._bucket.get(file, first, end - first)
        except (MissingFileError, InputError):
            return {}
        return await _in_thread(_whole_streams, frames, first, places, heads)

    async def manifest(self, file: str) -> Manifest:
        """Return the manifest of a file. Raises DamageError, ArchiveError."""
        try:
            return decode_manifest(await self._bucket.get(_manifest_name(file)), file)
        except MissingFileError as error:
            raise DamageError(f"the archive's file `{file}` has no manifest: {error.text}", file=file) from error

    async def files(self) -> AsyncIterator[str]:
        """Iterate over the names of all files that have a manifest, in order."""
        async for name in self._bucket.names():
            if name.endswith(MANIFEST):
                yield name.removesuffix(MANIFEST) + FILE_SUFFIX

    async def inventory(self) -> dict[str, set[str]]:
        """Return the names of everything that the place has, finished or not, by the name of the file."""
        found: dict[str, set[str]] = {}
        async for name in self._bucket.names():
            found.setdefault(name.partition(".")[0] + FILE_SUFFIX, set()).add(name)
        return found

    async def all_entries(self, file: str) -> dict[StreamKey, list[Entry]]:
        """Return everything that a file has, unverified. Raises DamageError, ArchiveError."""
        try:
            data = await self._bucket.get(file)
            found = await _in_thread(_streams_of, data)
        except (MissingFileError, DamageError) as error:
            raise DamageError(f"the archive's file `{file}` cannot be read: {error.text}", file=file) from error
        return {StreamKey.parse(name): entries for name, entries in found.items()}

    async def remove(self, file: str, names: Iterable[str]) -> None:
        """Remove a file with all that bears its name; its content goes first. Raises ArchiveError."""
        for name in sorted({file, *names}, key=lambda one: one.endswith(MANIFEST)):
            await self._bucket.remove(name)

    async def check(self, file: str) -> list[FileProblem]:
        """Return the problems of a file and of its streams: what is lost, was changed, or does not verify.

        Raises ArchiveError.
        """
        try:
            manifest = await self.manifest(file)
            data = await self._bucket.get(file)
        except MissingFileError as error:
            return [FileProblem(file, None, f"the archive's file `{file}` is not there: {error.text}")]
        except DamageError as error:
            return [FileProblem(file, None, error.text)]
        return await _in_thread(_checked, manifest, data)

    async def _read_back(self, manifest: Manifest, sessions: WholeSessions) -> None:
        """Read a file and its manifest from their place, and compare them with what was written. Raises DamageError."""
        written = await self.manifest(manifest.file)
        data = await self._bucket.get(manifest.file)
        same = await _in_thread(_is_same, data, sessions)
        if written != manifest or not same or len(data) != manifest.size_bytes:
            raise DamageError(
                f"the archive {self.url} gives other bytes of `{manifest.file}` than were written; nothing was sealed",
                file=manifest.file,
            )


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the threads for files. Each one that ever read a file keeps some MB of the allocators, so they are few."""
    return ThreadPoolExecutor(AT_ONCE_COUNT, thread_name_prefix="ledger-archive")


async def _in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Return the result of a function that reads or writes files, from one of the threads for them."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), function, *arguments)


def written_ms_of(file: str) -> int:
    """Return the server time at which a file was begun, which its name says."""
    return int(file.rpartition("/")[2].partition("-")[0])


def _manifest_name(file: str) -> str:
    return file.removesuffix(FILE_SUFFIX) + MANIFEST


def _made(sessions: WholeSessions, now_ms: int, replaces: tuple[str, ...]) -> tuple[Manifest, bytes]:
    """Return the manifest and the bytes of a file of these sessions. Raises DamageError."""
    ordered = sorted(sessions.items(), key=lambda one: one[0].name.encode())
    for key, entries in ordered:
        _require_archivable(key, entries)
    data, places = packed_streams(ordered)
    digest = sha256(data)
    manifest = Manifest(
        file=archive_file(now_ms, digest.digest()),
        sha256=digest.hexdigest(),
        size_bytes=len(data),
        entries=sum(len(entries) for _, entries in ordered),
        written_ms=now_ms,
        streams=tuple(archived_stream(*one, place) for one, place in zip(ordered, places, strict=True)),
        replaces=replaces,
    )
    return manifest, data


def _require_archivable(key: StreamKey, entries: Sequence[Entry]) -> None:
    if not entries:
        reason = "it has no entries"
    elif isinstance(entries, WholeEntries):
        return
    else:
        found = whole_entries(key, entries, _info_of(entries))
        if isinstance(found, WholeEntries):
            return
        reason = found.text
    raise DamageError(f"stream `{key.name}` is damaged and is not archived: {reason}", stream=key.name)


def _is_same(data: bytes, sessions: WholeSessions) -> bool:
    try:
        found = _streams_of(data)
    except DamageError:
        return False
    return found == {key.name: list(entries) for key, entries in sessions.items()}


def _streams_of(data: bytes) -> dict[str, list[Entry]]:
    """Return the streams of a file's bytes. Raises DamageError for bytes that are none, or name a stream twice."""
    found: dict[str, list[Entry]] = {}
    for name, entries in unpacked_streams(data):
        if name in found:
            raise DamageError(f"has stream `{name}` twice")
        found[name] = entries
    return found


def _whole_streams(
    frames: bytes, first: int, places: Mapping[StreamKey, FrameSlice], heads: Mapping[StreamKey, Head]
) -> dict[StreamKey, list[Entry]]:
    found: dict[StreamKey, list[Entry]] = {}
    for key, place in places.items():
        frame = frames[place.frame - first : place.frame - first + place.frame_bytes]
        with suppress(DamageError):
            name, entries = unpacked_stream(frame, place)
            if name == key.name and _ends_at(entries, heads[key]) and _is_whole(key, entries, heads[key]):
                found[key] = entries
    return found


def _ends_at(entries: Sequence[Entry], head: Head) -> bool:
    return bool(entries) and entries[-1].position == head.position


def _is_whole(key: StreamKey, entries: Sequence[Entry], head: Head) -> bool:
    return is_whole(key, entries, _info_of(entries), head)


def _require_whole(key: StreamKey, entries: Sequence[Entry], head: Head, file: str) -> None:
    """Raise DamageError unless these are all entries up to a head, and nothing of them was changed."""
    if not _ends_at(entries, head):
        last = str(entries[-1].position) if entries else "no entry"
        reason = f"it ends with {last}, and was sealed at {head.position}"
    elif _is_whole(key, entries, head):
        return
    else:
        problems = verify_entries(key, entries, _info_of(entries), head)
        if not problems:
            return
        reason = problems[0].text
    raise DamageError(
        f"stream `{key.name}` is not in the archive's file `{file}` as it was sealed: {reason}",
        stream=key.name,
        file=file,
    )


def _info_of(entries: Sequence[Entry]) -> StreamInfo:
    """Return the metadata that a server would have of a stream that was never changed."""
    last = entries[-1]
    return StreamInfo(length=last.version, entries_added=last.version, last=last.position, max_deleted=START)


def _checked(manifest: Manifest, data: bytes) -> list[FileProblem]:
    file, problems = manifest.file, list[FileProblem]()
    if (len(data), sha256(data).hexdigest()) != (manifest.size_bytes, manifest.sha256):
        problems.append(
            FileProblem(file, None, f"the archive's file `{file}` was changed: it has another hash than its manifest")
        )
    try:
        found = _streams_of(data)
    except DamageError as error:
        return [*problems, FileProblem(file, None, f"the archive's file `{file}` {error.text}")]
    for one in manifest.streams:
        entries = found.pop(one.stream, [])
        try:
            _require_whole(one.key, entries, one.head, file)
        except DamageError as error:
            problems.append(FileProblem(file, one.stream, error.text))
            continue
        if (entries_digest(entries), len(entries)) != (one.sha256, one.versions):
            text = f"stream `{one.stream}` has other bytes in the archive's file `{file}` than its manifest says"
            problems.append(FileProblem(file, one.stream, text))
    problems += [
        FileProblem(file, name, f"stream `{name}` is in the archive's file `{file}`, and not in its manifest")
        for name in sorted(found)
    ]
    return problems

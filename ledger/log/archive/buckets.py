"""The place of archived files: a folder, or an object store. A name is written once and never changed."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote, urlsplit

from ledger.core.errors import ArchiveError, InputError
from ledger.core.extras import require_extra
from ledger.core.late_patterns import late_pattern
from ledger.core.regular_files import keep_names, open_regular, private_file

if TYPE_CHECKING:
    from obstore.store import ObjectStore

EXTRA: Final = "archive"

OBJECT_SCHEMES: Final = ("s3", "gs", "az")
URL_CHARS_MAX: Final = 1000

ALLOW_HTTP: Final = "AWS_ALLOW_HTTP"
"""The variable that lets an endpoint of S3 be without TLS. With options of a client obstore does not read it itself."""

REQUEST_TIMEOUT: Final = timedelta(seconds=60)
CONNECT_TIMEOUT: Final = timedelta(seconds=5)
RETRIES_MAX: Final = 3
RETRY_TIMEOUT: Final = timedelta(seconds=30)

_NAME: Final = late_pattern(r"[0-9]{4}/[0-9]{2}/[0-9]{2}/[0-9]{1,15}-[0-9a-f]{24}\.(?:jsonl\.zst|json)", re.ASCII)
_UNFINISHED: Final = late_pattern(_NAME.pattern + r"\.[0-9]{1,10}\.part", re.ASCII)


_WRITING: Final = threading.Lock()
"""Held while a file is written: an unfinished one is named by its process."""


class MissingFileError(ArchiveError):
    """The place has no file of this name."""


class Bucket(Protocol):
    """A place of files by name. Every call may raise ArchiveError when the place cannot be reached or used."""

    @property
    def url(self) -> str:
        """Return the URL of the place, without credentials."""
        ...

    async def put_new(self, name: str, data: bytes) -> None:
        """Write a file durably, all or nothing; again is harmless. Raises ArchiveError where the name has other bytes."""
        ...

    async def get(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a file as the place has it now, or `length` bytes of it. Raises MissingFileError."""
        ...

    def names(self) -> AsyncIterator[str]:
        """Iterate over the names of all files of the archive, in order.

        Also over what killed processes left of files that have no name yet: a name, and more behind it.
        """
        ...

    async def remove(self, name: str) -> None:
        """Remove a file, or an unfinished one; one that is not there is no error."""
        ...


def check_url(text: str) -> str:
    """Return the URL of a place in full: of a folder as `file:///…`. Raises InputError; never repeats credentials."""
    if not text or len(text) > URL_CHARS_MAX or not text.isprintable():
        raise InputError(f"the URL of an archive has 1 to {URL_CHARS_MAX} printable characters")
    if "://" not in text:
        return Path(os.path.abspath(os.path.expanduser(text))).as_uri()  # noqa: PTH100, PTH111 - links stay links
    try:
        parts = urlsplit(text)
        has_secret = "@" in parts.netloc or bool(parts.query) or bool(parts.fragment)
    except ValueError as error:
        raise InputError("the URL of the archive cannot be read") from error
    if has_secret:
        raise InputError(
            "the URL of an archive names a place and nothing else: give credentials and options by the environment",
            hint="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_KEY",
        )
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        return Path(os.path.normpath(unquote(parts.path))).as_uri()
    if parts.scheme in OBJECT_SCHEMES and parts.netloc:
        return text.rstrip("/")
    known = ", ".join(f"{scheme}://" for scheme in ("file", *OBJECT_SCHEMES))
    raise InputError(f"`{text}` is not the place of an archive: give the path of a folder, or a URL with {known}")


def open_bucket(url: str) -> Bucket:
    """Return the place at a URL. Raises InputError, MissingExtraError, ArchiveError."""
    url = check_url(url)
    require_extra(EXTRA, "an archive")
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FolderBucket(Path(unquote(parts.path)))
    return ObjectBucket(_object_store(url), url)


def check_file_name(name: str) -> str:
    """Return a name if it is one that the archive gives. Raises InputError: others might lead out of its place."""
    if not _NAME.fullmatch(name):
        raise InputError(f"`{name[:100]}` is not the name of a file of the archive")
    return name


class FolderBucket:
    """A folder of this machine, or one that several machines share."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.url = root.as_uri()

    async def put_new(self, name: str, data: bytes) -> None:
        await asyncio.to_thread(self._put_new, check_file_name(name), data)

    async def get(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        return await asyncio.to_thread(self._get, check_file_name(name), start, length)

    async def names(self) -> AsyncIterator[str]:
        for name in await asyncio.to_thread(self._names):
            yield name

    async def remove(self, name: str) -> None:
        if not _UNFINISHED.fullmatch(name):
            check_file_name(name)
        await asyncio.to_thread(self._remove, name)

    def _remove(self, name: str) -> None:
        path = self._root / name
        try:
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                keep_names(path.parent)
        except OSError as error:
            raise ArchiveError(f"`{name}` could not be removed from the archive {self.url}: {_why(error)}") from error

    def _put_new(self, name: str, data: bytes) -> None:
        path = self._root / name
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _WRITING:
                if path.exists():
                    _require_same(name, path.read_bytes(), data)
                    return
                with private_file(path) as file:
                    file.write(data)
            self._keep_folders(path.parent)
        except OSError as error:
            raise ArchiveError(f"`{name}` could not be written to the archive {self.url}: {_why(error)}") from error

    def _keep_folders(self, folder: Path) -> None:
        """Write the folders themselves to the disk: a file without its name would be lost with the power."""
        for one in (folder, *folder.parents[: len(folder.relative_to(self._root).parts)]):
            keep_names(one)

    def _get(self, name: str, start: int, length: int | None) -> bytes:
        try:
            with open_regular(self._root / name) as file:
                # Room is taken for as many bytes as are asked for, whatever the file has.
                left = max(os.fstat(file.fileno()).st_size - start, 0)
                file.seek(start if left else 0)
                return file.read(left if length is None else min(length, left))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingFileError(f"the archive {self.url} has no file `{name}`") from error
        except OSError as error:
            raise ArchiveError(f"`{name}` could not be read from the archive {self.url}: {_why(error)}") from error

    def _names(self) -> list[str]:
        try:
            if self._root.exists() and not self._root.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            found = [path.relative_to(self._root).as_posix() for path in self._root.glob("*/*/*/*")]
        except OSError as error:
            raise ArchiveError(f"the archive {self.url} could not be listed: {_why(error)}") from error
        return sorted(name for name in found if _NAME.fullmatch(name) or _UNFINISHED.fullmatch(name))


class ObjectBucket:
    """A prefix of an object store."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._store = store
        self.url = url

    async def put_new(self, name: str, data: bytes) -> None:
        import obstore  # noqa: PLC0415 - an extra
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415 - an extra

        try:
            await obstore.put_async(self._store, check_file_name(name), data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            _require_same(name, await self.get(name), data)
        except _errors() as error:
            raise self._failed(error, f"`{name}` could not be written to") from None

    async def get(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        import obstore  # noqa: PLC0415 - an extra

        check_file_name(name)
        try:
            if length is not None:
                return bytes(await obstore.get_range_async(self._store, name, start=start, length=length))
            found = await obstore.get_async(self._store, name)
            return bytes(await found.bytes_async())
        except FileNotFoundError as error:
            raise MissingFileError(f"the archive {self.url} has no file `{name}`") from error
        except _errors() as error:
            raise self._failed(error, f"`{name}` could not be read from") from None

    async def names(self) -> AsyncIterator[str]:
        import obstore  # noqa: PLC0415 - an extra

        found: list[str] = []
        try:
            async for some in obstore.list(self._store):
                found += [one["path"] for one in some if _NAME.fullmatch(one["path"])]
        except _errors() as error:
            raise self._failed(error, "the files could not be listed of") from None
        # An object is there whole, or not at all.
        for name in sorted(found):
            yield name

    async def remove(self, name: str) -> None:
        import obstore  # noqa: PLC0415 - an extra

        check_file_name(name)
        try:
            await obstore.delete_async(self._store, name)
        except FileNotFoundError:
            return
        except _errors() as error:
            raise self._failed(error, f"`{name}` could not be removed from") from None

    def _failed(self, error: Exception, what: str) -> ArchiveError:
        """Return the error for a caller. That of the object store may quote headers, so only its kind is told."""
        return ArchiveError(f"{what} the archive {self.url}: the object store answered {type(error).__name__}")


def _object_store(url: str) -> ObjectStore:
    from obstore.store import from_url  # noqa: PLC0415 - an extra

    try:
        return from_url(
            url,
            client_options={
                "timeout": REQUEST_TIMEOUT,
                "connect_timeout": CONNECT_TIMEOUT,
                "allow_http": os.environ.get(ALLOW_HTTP, "").lower() in ("1", "true"),
            },
            retry_config={"max_retries": RETRIES_MAX, "retry_timeout": RETRY_TIMEOUT},
        )
    except _errors() as error:
        # Its text may quote settings, credentials among them.
        raise ArchiveError(
            f"the archive {url} cannot be used: {type(error).__name__}; are its credentials in the environment?"
        ) from None


def _errors() -> tuple[type[Exception], ...]:
    from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra

    return (BaseError, ValueError, OSError)


def _require_same(name: str, there: bytes, data: bytes) -> None:
    """Raise ArchiveError unless a file that is there already is the one that was to be written."""
    if there != data:
        raise ArchiveError(f"the archive has another file `{name}` already, and files are never changed")


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__

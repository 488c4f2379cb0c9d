"""A file of what a long command has done, so that a run that was interrupted goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import click
import msgspec

from ledger.core.errors import InputError
from ledger.core.regular_files import private_append, read_regular

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
_NAME: Final = "permission-ledger journal"

with_resume: Final[Callable[[Callable[..., Any]], Callable[..., Any]]] = click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Note in FILE what is done, and leave out what an interrupted run noted there; a run to the end removes FILE.",
)


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    format: int
    work: str


class _Done(msgspec.Struct, forbid_unknown_fields=True):
    done: str
    value: str


class Journal:
    """The parts of some work that are done, each with a value to keep."""

    def __init__(self, done: dict[str, str], file: IO[bytes] | None) -> None:
        self.done = done
        self._file = file

    def note(self, parts: Iterable[tuple[str, str]]) -> None:
        """Write parts that are done now."""
        if self._file is not None:
            self._file.writelines(_line(_Done(part, value)) for part, value in parts)
            self._file.flush()


@contextmanager
def journal(file: Path | None, work: str) -> Iterator[Journal]:
    """Yield the journal of some work; without a file nothing is kept. A block that ends well removes the file.

    Raises InputError for a file that cannot be used, or is of other work.
    """
    if file is None:
        yield Journal({}, None)
        return
    try:
        done = _read(file, work) if file.exists() else None
        with private_append(file) as opened:
            # A line that was cut off when the last run was killed ends here.
            opened.write(_line(_Header(_NAME, FORMAT, work)) if done is None else b"\n")
            yield Journal(done or {}, opened)
        file.unlink()
    except OSError as error:
        raise InputError(f"`{file}` cannot be written: {error.strerror}") from error


def _read(file: Path, work: str) -> dict[str, str]:
    try:
        first, *lines = read_regular(file, FILE_BYTES_MAX).split(b"\n")
        header = msgspec.json.decode(first, type=_Header)
    except OSError as error:
        raise InputError(f"`{file}` cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`{file}` is not a file that --resume wrote: {error}") from error
    if (header.file, header.format) != (_NAME, FORMAT):
        raise InputError(f"`{file}` is not a file of --resume that this version can read")
    if header.work != work:
        raise InputError(f"`{file}` is of `{header.work}`, and this is `{work}`; give another file")
    return dict(filter(None, map(_part, lines)))


def _part(line: bytes) -> tuple[str, str] | None:
    """Return a part that is done; None for a line that was cut off."""
    try:
        found = msgspec.json.decode(line, type=_Done)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found.done, found.value


def _line(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"

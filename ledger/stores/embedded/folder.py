"""A data folder: its files, and whether it may hold a ledger at all."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.stores.embedded.errors import EmbeddedServerError, explained

LOG_BYTES_MAX: Final = 1024 * 1024
"""A larger log is set aside at the next start; one older log is kept."""

LOG_TAIL_LINES: Final = 6
LOG_TAIL_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The files of one embedded server. The server's own (`appendonlydir`) are never touched."""

    path: Path

    @property
    def start_lock(self) -> Path:
        """Held alone, briefly, by whoever starts or stops the server, joins or leaves."""
        return self.path / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Held together by all who use the server."""
        return self.path / "users.lock"

    @property
    def server_lock(self) -> Path:
        """Held alone by the server process itself, as long as it lives."""
        return self.path / "server.lock"

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def pid_file(self) -> Path:
        """Written by the server; for people and messages only, never to find out whether it lives."""
        return self.path / "server.pid"

    @property
    def address(self) -> Path:
        """Where the socket is: every user must find the same one, whatever its environment says."""
        return self.path / "server.address"

    @property
    def kept(self) -> Path:
        """Exists while the server is to outlive its users."""
        return self.path / "server.kept"

    @property
    def engine(self) -> Path:
        """Name and version of the server that last wrote here."""
        return self.path / "engine"

    def socket(self) -> Path | None:
        """The socket that the last start chose; None before the first."""
        try:
            return Path(os.fsdecode(self.address.read_bytes()))
        except FileNotFoundError:
            return None

    def pid(self) -> int | None:
        try:
            return int(self.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def last_engine(self) -> str | None:
        try:
            return self.engine.read_text(errors="replace").strip() or None
        except FileNotFoundError:
            return None

    def record_engine(self, name_and_version: str) -> None:
        if self.last_engine() != name_and_version:
            write_whole(self.engine, f"{name_and_version}\n".encode())

    def set_log_aside(self) -> int:
        """Bound the log; return the size at which this start's lines will begin."""
        try:
            size = self.log.stat().st_size
        except FileNotFoundError:
            return 0
        if size <= LOG_BYTES_MAX:
            return size
        self.log.replace(self.log.with_suffix(".log.1"))
        return 0

    def log_tail(self, start: int = 0) -> list[str]:
        """The last lines of the log from byte `start` on."""
        try:
            with self.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(start, size - LOG_TAIL_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return []
        return [line for line in lines if line.strip()][-LOG_TAIL_LINES:]


def write_whole(path: Path, content: bytes) -> None:
    """Replace a small file in one step, so that nobody ever reads half of it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def real_path(path: Path) -> Path:
    """The folder's one path, whatever links lead to it; it need not exist.

    Raises EmbeddedServerError for what is no path at all.
    """
    try:
        return path.expanduser().resolve()
    except (ValueError, RuntimeError) as error:  # a NUL byte; an unknown `~user`; a loop of links
        raise EmbeddedServerError(f"`{path}` is not a folder's path; name another") from error


def open_folder(path: Path) -> DataFolder:
    """Make the folder if needed and close it to other users.

    Raises EmbeddedServerError when it is a file, cannot be written, belongs to somebody else, or is a folder of other
    things that other users may read.
    """
    with explained(path):
        folder = DataFolder(real_path(path))
        _refuse_foreign_links(path)
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_foreign(folder)
        _make_private(folder)
        return folder


def _refuse_foreign(folder: DataFolder) -> None:
    """Files of two users in one folder would lock both out, and its owner could put others in their place.

    That holds for root too, which could otherwise be led to take, and to close, the folder of somebody else.
    """
    owners = {folder.path.stat().st_uid}
    with suppress(FileNotFoundError):
        owners.add(folder.start_lock.lstat().st_uid)
    if owners != {os.geteuid()}:
        text = f"the data folder `{folder.path}` belongs to another user; name one of your own (PERMISSION_LEDGER_HOME)"
        raise EmbeddedServerError(text, folder=str(folder.path))


def _refuse_foreign_links(path: Path) -> None:
    """Raises EmbeddedServerError for a link on the way that another user may point elsewhere."""
    whole = path.expanduser().absolute()
    for part in (*reversed(whole.parents), whole):
        try:
            status = part.lstat()
        except OSError:
            return  # the rest is not there, or is no folder's: who makes it says so
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
            text = (
                f"the data folder `{path}` leads over the link `{part}`, which belongs to another user; "
                "name a folder without it (PERMISSION_LEDGER_HOME)"
            )
            raise EmbeddedServerError(text, folder=str(path))


def _make_private(folder: DataFolder) -> None:
    if stat.S_IMODE(folder.path.stat().st_mode) & 0o077 == 0:
        return
    # A folder that was only named by mistake, say a home or /tmp, must not lose the access that others have to it.
    if not folder.start_lock.exists() and any(folder.path.iterdir()):
        text = (
            f"`{folder.path}` holds other files and is open to other users; name an empty or new folder"
            " (PERMISSION_LEDGER_HOME), or make it private with `chmod 700`"
        )
        raise EmbeddedServerError(text, folder=str(folder.path))
    folder.path.chmod(0o700)

"""A data folder: its files, the checks that it may hold a ledger, and the path of its unix socket.

The socket is in the folder, or in a short private one when that path is too long.
"""

from __future__ import annotations

import contextlib
import os
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ledger.stores.embedded.errors import EmbeddedServerError, explained

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG_BYTES_MAX: Final = 1024 * 1024
"""A larger log is rotated at the next start; one older log is kept."""

LOG_TAIL_LINES: Final = 6
LOG_TAIL_BYTES: Final = 4096


class DataFolder:
    """The files of one embedded server. Those that the server writes (`appendonlydir`) are never modified."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start_lock = path / "start.lock"
        """The lock held exclusively and briefly to start or stop the server, to join or to leave."""
        self.users_lock = path / "users.lock"
        """The lock that all users of the server share."""
        self.server_lock = path / "server.lock"
        """The lock held exclusively by the server process while it runs."""
        self.log = path / "server.log"
        self.pid_file = path / "server.pid"
        """The file with the server's process id, for messages only; `server_lock` shows whether it runs."""
        self.address = path / "server.address"
        """The file with the socket's path, so that every user finds the same one in any environment."""
        self.kept = path / "server.kept"
        """The marker file of a server that outlives its users."""
        self.engine = path / "engine"
        """The file with name and version of the server that last wrote here."""

    def socket(self) -> Path | None:
        """Return the socket path of the last start; None before the first."""
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


def set_log_aside(log: Path) -> int:
    """Rotate a log that is too large; return the offset at which this start's lines will begin."""
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        return 0
    if size <= LOG_BYTES_MAX:
        return size
    log.replace(log.with_suffix(".log.1"))
    return 0


def log_tail(path: Path, start: int = 0, count: int = LOG_TAIL_LINES) -> list[str]:
    """Return the last lines of a log from byte `start` on."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(start, size - LOG_TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line for line in lines if line.strip()][-count:]


def write_whole(path: Path, content: bytes) -> None:
    """Replace a small file atomically."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def real_path(path: Path) -> Path:
    """Return the folder's path with all links resolved; it need not exist.

    Raises EmbeddedServerError for an invalid path.
    """
    try:
        return path.expanduser().resolve()
    except (ValueError, RuntimeError) as error:  # a NUL byte; an unknown `~user`; a loop of links
        raise EmbeddedServerError(f"`{path}` is not the path of a folder; name another") from error


def open_folder(path: Path) -> DataFolder:
    """Create the folder if needed and deny other users access.

    Raises EmbeddedServerError when it is a file, is not writable, belongs to another user, or has other contents that
    other users may read.
    """
    with explained(path):
        folder = DataFolder(real_path(path))
        _refuse_foreign_links(path)
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_foreign(folder)
        _make_private(folder)
        return folder


def _refuse_foreign(folder: DataFolder) -> None:
    """Raise EmbeddedServerError for a folder of another user.

    Files of two users in one folder would lock both out, and its owner could replace them. Root is refused too, because
    it could be led to take over another user's folder and close it.
    """
    owners = {folder.path.stat().st_uid}
    with suppress(FileNotFoundError):
        owners.add(folder.start_lock.lstat().st_uid)
    if owners != {os.geteuid()}:
        text = f"the data folder `{folder.path}` belongs to another user; name one of your own (PERMISSION_LEDGER_HOME)"
        raise EmbeddedServerError(text, folder=str(folder.path))


def _refuse_foreign_links(path: Path) -> None:
    """Raise EmbeddedServerError for a link in the path that another user may redirect."""
    whole = path.expanduser().absolute()
    for part in (*reversed(whole.parents), whole):
        try:
            status = part.lstat()
        except OSError:
            return  # the rest is missing or not a folder: creating it reports that
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
            text = (
                f"the data folder `{path}` leads over the link `{part}`, which belongs to another user; "
                "name a folder without it (PERMISSION_LEDGER_HOME)"
            )
            raise EmbeddedServerError(text, folder=str(path))


def _make_private(folder: DataFolder) -> None:
    if stat.S_IMODE(folder.path.stat().st_mode) & 0o077 == 0:
        return
    # A folder named by mistake, such as a home or /tmp, must keep the access that other users have.
    if not folder.start_lock.exists() and any(folder.path.iterdir()):
        text = (
            f"`{folder.path}` holds other files and is open to other users; name an empty or new folder"
            " (PERMISSION_LEDGER_HOME), or make it private with `chmod 700`"
        )
        raise EmbeddedServerError(text, folder=str(folder.path))
    folder.path.chmod(0o700)


SOCKET_PATH_BYTES_MAX: Final = 103
"""A socket's address holds 108 bytes on Linux and 104 on macOS, the closing NUL included."""

SOCKET_NAME: Final = "server.sock"
SHORT_NAME_CHARS: Final = 16
PRIVATE_MODE: Final = 0o700


def socket_url(socket: Path) -> str:
    """Return `unix:///path`, percent-encoded."""
    return "unix://" + quote(str(socket))


def choose_socket(folder: Path, environment: Mapping[str, str] | None = None) -> Path:
    """Return the socket's path for the folder with this real path; create the short private folder if needed.

    Raises EmbeddedServerError when the private folder cannot be trusted, or its path is too long as well.
    """
    inside = folder / SOCKET_NAME
    if _fits(inside):
        return inside
    name = "permission-ledger-" + sha256(os.fsencode(folder)).hexdigest()[:SHORT_NAME_CHARS]
    outside = _base(os.environ if environment is None else environment) / name / SOCKET_NAME
    if not _fits(outside):
        text = (
            f"the paths of `{folder}` and of `{outside.parent.parent}` are both too long for a unix socket;"
            " name a shorter folder (PERMISSION_LEDGER_HOME) or a shorter TMPDIR"
        )
        raise EmbeddedServerError(text, folder=str(folder))
    _make_private_for_socket(outside.parent)
    return outside


def forget_socket(folder: Path, socket: Path) -> None:
    """Remove the socket file that a terminated server may have left."""
    socket.unlink(missing_ok=True)
    if socket.parent != folder:
        try:
            socket.parent.rmdir()
        except OSError:  # missing, or it holds other files: not ours to remove
            return


def _fits(socket: Path) -> bool:
    try:
        # A path that is not UTF-8 cannot be carried in a URL.
        return len(str(socket).encode()) <= SOCKET_PATH_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _base(environment: Mapping[str, str]) -> Path:
    runtime = Path(environment.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and _is_own_folder(runtime):
        return runtime
    import tempfile  # noqa: PLC0415 - slow to import, and rarely needed

    return Path(tempfile.gettempdir())


def _is_own_folder(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and os.access(path, os.W_OK)


def _make_private_for_socket(short: Path) -> None:
    # Every user can write to the temp folder: another one may have created this name first, as a folder or a link.
    with contextlib.suppress(FileExistsError):
        short.mkdir(mode=PRIVATE_MODE)
    status = short.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        text = f"`{short}` is a link or belongs to somebody else, so the server's socket is not put there; remove it"
        raise EmbeddedServerError(text, path=str(short))
    if stat.S_IMODE(status.st_mode) != PRIVATE_MODE:  # ours, and in a sticky folder no other user can replace it now
        short.chmod(PRIVATE_MODE)

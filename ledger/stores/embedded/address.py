"""The path of a folder's unix socket: in the folder, or in a short private one when that path is too long."""

from __future__ import annotations

import contextlib
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ledger.stores.embedded.errors import EmbeddedServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    _make_private(outside.parent)
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


def _make_private(short: Path) -> None:
    # Every user can write to the temp folder: another one may have created this name first, as a folder or a link.
    with contextlib.suppress(FileExistsError):
        short.mkdir(mode=PRIVATE_MODE)
    status = short.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        text = f"`{short}` is a link or belongs to somebody else, so the server's socket is not put there; remove it"
        raise EmbeddedServerError(text, path=str(short))
    if stat.S_IMODE(status.st_mode) != PRIVATE_MODE:  # ours, and in a sticky folder no other user can replace it now
        short.chmod(PRIVATE_MODE)

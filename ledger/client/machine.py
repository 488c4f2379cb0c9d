"""Facts about this machine for policies, and its user's name."""

from __future__ import annotations

import getpass
import os
import posixpath
import socket
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from ledger.policy.facts import FileKind
from ledger.policy.spelled import is_of_a_process
from ledger.stores.urls import default_home, embedded_folder


def machine_facts() -> DiskFacts:
    """Return the facts of this machine's files, and the folders of the ledger's data."""
    return DiskFacts(own_folders())


def own_folders() -> tuple[str, ...]:
    """Return the real paths of the data folders: the default one, and that of an embedded server in the environment."""
    found = {_real(default_home())}
    url = os.environ.get("PERMISSION_LEDGER_URL", "")
    if url.startswith("embedded:"):
        found.add(_real(embedded_folder(url)))
    return tuple(sorted(found))


def _real(folder: Path) -> str:
    try:
        return str(folder.expanduser().resolve())
    except (OSError, RuntimeError, ValueError):
        return str(folder.absolute())


def default_actor_name() -> str:
    """Return `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


_LINKS_MAX: Final = 40


class DiskFacts:
    """The state of the disk at the time of each lookup; a path that cannot be read stays as written.

    `own_folders` are the ledger's data folders, by their real paths.
    """

    def __init__(self, own_folders: tuple[str, ...] = ()) -> None:
        self.own_folders = own_folders

    def resolve(self, path: str) -> str:
        """Follow every link except those of `/proc/PID`, whose targets differ between this process and the agent."""
        try:
            return _followed(path)
        except ValueError:  # a NUL
            return posixpath.normpath(path)

    def kind(self, path: str) -> FileKind | None:
        try:
            return FileKind.DIRECTORY if S_ISDIR(Path(path).stat().st_mode) else FileKind.FILE
        except (OSError, ValueError):
            return None


def _followed(path: str) -> str:
    done, todo, links = "/", path.split("/")[::-1], 0
    while todo:
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = posixpath.dirname(done)
            continue
        done = posixpath.join(done, name)
        if done.startswith("/proc/") and is_of_a_process(done):
            return posixpath.normpath(posixpath.join(done, *todo[::-1]))
        if not posixpath.islink(done):  # not a link, missing, or unreadable
            continue
        try:
            target = Path(done).readlink().as_posix()
        except OSError:  # removed meanwhile
            continue
        links += 1
        if links > _LINKS_MAX:
            return posixpath.normpath(path)
        done = "/" if target.startswith("/") else posixpath.dirname(done)
        todo += target.split("/")[::-1]
    return done

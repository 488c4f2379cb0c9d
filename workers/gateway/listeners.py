"""The process that listens on a TCP port of this machine, read from Linux's /proc with the rights of this user."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

_LISTEN: Final = "0A"
_PROC: Final = Path("/proc")


class ListeningProcess(NamedTuple):
    """A process and the name of its program."""

    pid: int
    name: str


def listener_on(port: int) -> ListeningProcess | None:
    """Return the first process found; None when there is none, or when it belongs to another user."""
    sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _inodes(_PROC / "net" / table, port)}
    if not sockets:
        return None
    pids = (int(one.name) for one in _PROC.iterdir() if one.name.isdecimal())
    return next((ListeningProcess(pid, _name_of(pid)) for pid in pids if sockets & _files_of(pid)), None)


def _inodes(table: Path, port: int) -> list[str]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port]


def _files_of(pid: int) -> set[str]:
    found: set[str] = set()
    try:
        for one in (_PROC / str(pid) / "fd").iterdir():
            found.add(str(one.readlink()))
    except OSError:
        # The process has ended meanwhile, or belongs to another user.
        return found
    return found


def _name_of(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "?"

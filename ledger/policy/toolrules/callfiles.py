"""The files that a file tool's call may access, in every member and every spelling. For the hardened profile."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ledger.policy.facts import FileFacts
from ledger.policy.spelled import is_of_a_process, spelled_paths
from ledger.policy.toolrules.paths import PATH_FIELDS

_PATHS: Final = tuple(dict.fromkeys(field for fields in PATH_FIELDS.values() for field in fields))
_GLOBS: Final = {"Glob": "pattern", "Grep": "glob"}
"""The member of a search that selects files by a glob."""


RESTRICTED_FILE: Final = "a rule restricts a file that the call may lead to"


class CallFiles(NamedTuple):
    """The files of a call: absolute paths, and globs that may match more of them."""

    paths: tuple[str, ...]
    globs: tuple[str, ...] = ()
    reason: str | None = None
    """Reason why the file cannot be determined; None if it can."""


def files_of(tool: str, value: Any, base: str, home: str | None, facts: FileFacts) -> CallFiles:
    """Return every file that the input of a file tool may lead to from the folder `base`."""
    members = value if isinstance(value, Mapping) else {}
    written = [path for field in _PATHS if isinstance(path := members.get(field), str) and path]
    paths = dict.fromkeys(form for path in written for form in spelled_paths(path, base, home, facts))
    glob = members.get(_GLOBS.get(tool, ""))
    globs: tuple[str, ...] = ()
    if isinstance(glob, str) and glob:
        globs = spelled_paths(glob, posixpath.join(base, written[0] if written else ""), home, facts)
    return CallFiles(tuple(paths), globs, _unknown(written, tuple(paths)))


def _unknown(written: list[str], paths: tuple[str, ...]) -> str | None:
    if any("\0" in path for path in written):
        return "the path holds a NUL, and may end there"
    if any(map(is_of_a_process, paths)):
        return "the path is below `/proc/PID`, and is different for every process"
    return None

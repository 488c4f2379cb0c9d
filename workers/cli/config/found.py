"""The configuration files of a command: the project's, if the user trusts it, and the user's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from workers.cli.config import places
from workers.cli.config.errors import ConfigFileError
from workers.cli.config.files import SettingsFile, read_settings, require_private
from workers.cli.config.trust import load, trust_of
from workers.transport.trusted import Records


class Ignored(NamedTuple):
    """A project's file that is not used. `was_trusted`: the user trusted other content of it, or of a file it names."""

    path: Path
    why: str
    was_trusted: bool

    @property
    def hint(self) -> str:
        if self.why == "is missing":
            return f"bring it back, or forget it: permission-ledger config untrust {self.path}"
        return f"read it, then: permission-ledger config trust {self.path}"


class FoundFiles(NamedTuple):
    """The files in the order in which they count, and those that do not count."""

    used: tuple[SettingsFile, ...]
    ignored: tuple[Ignored, ...]


def find_files() -> FoundFiles:
    """Return the files for the working folder. Raises ConfigFileError for a used file that cannot be read."""
    if not places.files_are_read() or not places.is_anything_here():
        return FoundFiles((), ())
    project, ignored = _project_files(load())
    own_path = Path(places.user_file())
    own = read_settings(own_path, is_project=False)
    if own is not None:
        require_private(own_path)
    return FoundFiles(tuple(one for one in (project, own) if one is not None), tuple(ignored))


def _project_files(records: Records) -> tuple[SettingsFile | None, list[Ignored]]:
    """Return the nearest trusted file, and what was passed over on the way to it.

    A nearer file that is not trusted never hides a trusted one: an agent could write it to switch settings off.
    """
    ignored: list[Ignored] = []
    for folder in places.folders_above(os.getcwd()):  # noqa: PTH109 - the same folder as in `is_anything_here`
        path = Path(folder) / places.FILE
        was_trusted = str(path) in records
        try:
            file = read_settings(path, is_project=True)
        except ConfigFileError as error:
            ignored.append(Ignored(path, f"cannot be used ({error.format_message()})", was_trusted))
            continue
        if file is None:
            ignored += [Ignored(path, "is missing", was_trusted=True)] if was_trusted else []
            continue
        trust, changed = trust_of(file, records)
        if trust == "trusted":
            return file, ignored
        ignored.append(Ignored(path, _why(trust, changed, path), was_trusted))
    return None, ignored


def _why(trust: str, changed: str, path: Path) -> str:
    if trust == "untrusted":
        return "is not trusted"
    return "was changed since you trusted it" if changed == str(path) else f"names `{changed}`, which was changed"

"""The user's list of trusted project files: path and SHA-256 of each, outside every project.

Whoever reads the rules of a project asks here whether their content is the one that the user trusted. Imports little,
since a hook starts with every call.
"""

from __future__ import annotations

import json
import os

from ledger.core.regular_files import read_regular
from workers.transport.place import BridgeError

try:  # hashlib is slow to import
    from _sha2 import sha256  # type: ignore[import-not-found]
except ImportError:
    from _sha256 import sha256  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT_FILE = "permission-ledger.toml"
"""The name of a project's file, in a project's folder."""

TRUST_FILE = "trusted.json"

SWITCH = "PERMISSION_LEDGER_CONFIG"
"""The variable that, set to `none`, makes a command read no configuration file."""

NONE = "none"
RECORDS_BYTES_MAX = 1024 * 1024
NAMED_BYTES_MAX = 1024 * 1024
MISSING = "missing"
"""The digest of a file that cannot be read."""

_OTHERS_WRITE = 0o022


class TrustListError(BridgeError):
    """A list of trusted files that cannot be used. Nothing is trusted by it, and nothing allowed without it."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


class TrustRecord:
    """The digests of a trusted file, and of the files that it names by their paths."""

    def __init__(self, digest: str, named: dict[str, str]) -> None:
        self.digest = digest
        self.named = named

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrustRecord) and (self.digest, self.named) == (other.digest, other.named)

    __hash__ = None  # type: ignore[assignment]


Records = dict[str, TrustRecord]
"""The records by the absolute path of the project's file."""


def user_file() -> str:
    """Return the path of the user's own configuration file, which need not exist."""
    return f"{config_folder()}/config.toml"


def is_anything_here() -> bool:
    """Return whether a configuration file counts that a command in the working folder has to look at."""
    try:
        folders = folders_above(os.getcwd())  # noqa: PTH109 - the folder as it is named
    except FileNotFoundError:
        return False
    candidates = [user_file(), trust_file(), *(f"{one}/{PROJECT_FILE}" for one in folders)]
    return files_are_read() and any(map(os.path.lexists, candidates))


def config_folder() -> str:
    """Return the folder of the user's own configuration: `permission-ledger` in the desktop standard's folder."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - pathlib is slow to import
        base = f"{os.path.expanduser('~')}/.config"  # noqa: PTH111 - as above
    return f"{base}/permission-ledger"


def trust_file() -> str:
    """Return the path of the list of trusted files, which need not exist."""
    return f"{config_folder()}/{TRUST_FILE}"


def files_are_read() -> bool:
    return os.environ.get(SWITCH) != NONE


def load_records() -> Records:
    """Return the list. Raises TrustListError for one that cannot be read, or that others may have written."""
    path = trust_file()
    try:
        written = json.loads(read_regular(path, RECORDS_BYTES_MAX))
        records = {
            str(file): TrustRecord(str(one["sha256"]), {str(name): str(sha) for name, sha in one["named"].items()})
            for file, one in written["files"].items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise TrustListError(
            f"the list of trusted files `{path}` cannot be read", f"remove '{path}', and trust your files again"
        ) from None
    require_private(path)
    return records


def require_private(path: str) -> None:
    """Raise TrustListError if another user may have written a file of the user's own configuration."""
    for one in (os.path.dirname(path), path):  # noqa: PTH120 - as above
        try:
            status = os.stat(one)  # noqa: PTH116 - as above
        except FileNotFoundError:
            continue
        if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
            raise TrustListError(
                f"`{one}` belongs to another user, or others may write it",
                f"chmod go-w '{one}', after looking at its content",
            )


def folders_above(folder: str) -> list[str]:
    """Return the folder and all folders above it, the nearest first."""
    found = [folder]
    while (above := os.path.dirname(found[-1])) != found[-1]:  # noqa: PTH120 - as above
        found.append(above)
    return found


def project_of_folder(folder: str | None, records: Records) -> str | None:
    """Return the nearest project's file that the list has for a folder; None without one.

    The file itself is not looked at: its removal must not put the folder under other rules. The folder is taken as it
    is written first; where that finds nothing, with its links followed.
    """
    if not records or folder is None or not os.path.isabs(folder):  # noqa: PTH117 - as above
        return None
    for path in (os.path.normpath(folder), os.path.realpath(folder)):
        for above in folders_above(path):
            if (file := os.path.join(above, PROJECT_FILE)) in records:  # noqa: PTH118 - as above
                return file
    return None


def digest_of_record(file: str, records: Records) -> str | None:
    """Return the digest of what the user trusted for a project: of its file, and of the files that it names."""
    record = records.get(file)
    if record is None:
        return None
    return digest_of(json.dumps([file, record.digest, sorted(record.named.items())]).encode())


def rules_trusted_for(folder: str | None) -> str | None:
    """Return the digest by which a call in a folder names what the user trusted there; None if that names no rules.

    None also where no configuration file counts (PERMISSION_LEDGER_CONFIG=none). Raises TrustListError.
    """
    if not files_are_read():
        return None
    records = load_records()
    file = project_of_folder(folder, records)
    return digest_of_record(file, records) if file is not None and records[file].named else None


def why_untrusted(path: str, digest: str, records: Records) -> str | None:
    """Return the reason, in words, for which this content of a file does not count in full.

    None: it is the content that the user trusted, or the file is in no project of the list.
    """
    if not records:
        return None
    if naming := named_by(path, records):
        return None if digest in naming.values() else changed(path, next(iter(naming)))
    for place in _places_of(path):
        file = project_of_folder(os.path.dirname(place), records)  # noqa: PTH120 - as above
        if file is not None:
            return (
                f"`{place}` is in a project, and the trusted `{file}` does not name it: name it there, and run "
                f"`permission-ledger config trust {file}`; until then every call is asked that it does not deny"
            )
    return None


def named_by(path: str, records: Records) -> dict[str, str]:
    """Return the projects' files that name a file, each with the digest of it that was trusted."""
    for place in _places_of(path):
        naming = {
            file: digest
            for file, record in records.items()
            for one, digest in record.named.items()
            if os.path.normpath(one) == place
        }
        if naming:
            return naming
    return {}


def changed(path: str, file: str) -> str:
    """Return the reason for a changed file in words; `file` is the project's, which is to be trusted again."""
    return (
        f"`{path}` was changed since it was trusted: until somebody reads it and runs "
        f"`permission-ledger config trust {file}`, every call is asked that it does not deny"
    )


def no_longer_trusted(records: Records) -> list[tuple[str, str, str]]:
    """Return each project's file of the list whose content is not the trusted one, what changed, and the remedy.

    Projects whose folder is gone are left out: no call runs there.
    """
    found = []
    for file, record in sorted(records.items()):
        expected = {file: record.digest, **record.named}
        path = next((path for path, digest in expected.items() if digest_of_file(path) != digest), None)
        if path is not None and os.path.isdir(os.path.dirname(file)):  # noqa: PTH112,PTH120 - as above
            is_gone = digest_of_file(file) == MISSING
            found.append((file, path, f"permission-ledger config {'untrust' if is_gone else 'trust'} {file}"))
    return found


def digest_of_file(path: str) -> str:
    """Return the digest of a file's content; MISSING for a file that cannot be read."""
    try:
        return digest_of(read_regular(path, NAMED_BYTES_MAX))
    except OSError:
        return MISSING


def digest_of(content: bytes) -> str:
    found: str = sha256(content).hexdigest()
    return found


def _places_of(path: str) -> Iterator[str]:
    """Yield the absolute path of a file as it is written, and with the links of its folder followed."""
    yield (written := os.path.abspath(path))  # noqa: PTH100 - as above
    folder, name = os.path.split(written)
    yield os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - as above

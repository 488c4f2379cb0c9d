"""The edits that installing made to a file, kept in the data folder until they are undone; nothing else of the file."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledger.core.regular_files import read_regular
from ledger.policy.json_edit import Edit
from workers.transport.errors import BridgeError
from workers.transport.place import data_folder

FOLDER: Final = "installed"
RECORD_BYTES_MAX: Final = 16 * 1024 * 1024


class InstallRecord(NamedTuple):
    """`created`: there was no file. `edits` in the text that they made, of which `digest` is the SHA-256."""

    created: bool
    digest: str
    edits: tuple[Edit, ...]

    @classmethod
    def of(cls, after: str, edits: tuple[Edit, ...], *, created: bool) -> InstallRecord:
        """Return the record of edits, whose places are those in the text before."""
        moved, grown = [], 0
        for edit in sorted(edits):
            moved.append(edit._replace(at=edit.at + grown))
            grown += len(edit.inserted) - len(edit.removed)
        return cls(created, digest_of(after), tuple(moved))

    def undone(self, text: str) -> str | None:
        """Return the text without the edits, wherever they stand now; None if one of them was changed."""
        if digest_of(text) == self.digest:
            for edit in reversed(self.edits):
                text = text[: edit.at] + edit.removed + text[edit.at + len(edit.inserted) :]
            return text
        for (removed, inserted), count in Counter((edit.removed, edit.inserted) for edit in self.edits).items():
            if text.count(inserted) != count:
                return None
            text = text.replace(inserted, removed)
        return text


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def load(path: Path) -> InstallRecord | None:
    """Return the record of a file; None without a readable one."""
    try:
        kept: dict[str, Any] = json.loads(read_regular(str(_file(path)), RECORD_BYTES_MAX))
        edits = tuple(Edit(int(at), str(removed), str(inserted)) for at, removed, inserted in kept["edits"])
        return InstallRecord(kept["created"] is True, str(kept["digest"]), edits)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(path: Path, record: InstallRecord) -> None:
    """Write the record. Raises BridgeError."""
    file = _file(path)
    said = {"path": str(path.resolve()), "created": record.created, "digest": record.digest, "edits": record.edits}
    try:
        # Each by itself: `parents` would make the data folder open to others, and a server refuses such a folder.
        file.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.parent.mkdir(exist_ok=True, mode=0o700)
        file.write_text(json.dumps(said), encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BridgeError(f"`{file}` cannot be written, and uninstalling needs it: {why}") from error


def forget(path: Path) -> None:
    _file(path).unlink(missing_ok=True)


def _file(path: Path) -> Path:
    return Path(data_folder()) / FOLDER / f"{digest_of(str(path.resolve()))[:32]}.json"

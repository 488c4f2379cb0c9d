"""Doubts about a stream, which its later entries must remove before a decision rests on it.

An entry may lack its content only if a later `redacted` names it. An older version may have begun a stream only before
the deployment was upgraded, or elsewhere: then `imported` says so.
"""

from __future__ import annotations

from typing import Final

from ledger.core import codec
from ledger.core.errors import DamageError
from ledger.core.events import Imported, Redacted
from ledger.core.grants import Recorded
from ledger.stores.port import Entry, StreamKey

CONCERNED: Final = frozenset((Redacted, Imported))
"""The types of events that remove doubts."""


class Doubts:
    """The open doubts of one reading of a stream; `upgraded_ms` is the deployment's (`Store.upgraded_ms`)."""

    __slots__ = ("_begun_by_older", "_upgraded_ms", "_without_content")

    def __init__(self, upgraded_ms: int | None) -> None:
        self._upgraded_ms = upgraded_ms
        self._without_content: set[int] = set()
        self._begun_by_older = False

    def take(self, entry: Entry, recorded: Recorded) -> None:
        """Note an entry: the first one, one that was redacted, or one that removes doubts (`CONCERNED`)."""
        if entry.version == 1:
            self._begun_by_older = is_begun_by_older(entry, self._upgraded_ms)
        if isinstance(recorded.event, Redacted):
            self._without_content.difference_update(recorded.event.versions)
        elif isinstance(recorded.event, Imported):
            self._begun_by_older = False
        if recorded.redacted:
            self._without_content.add(entry.version)

    def __bool__(self) -> bool:
        return self._begun_by_older or bool(self._without_content)

    def require_none(self, key: StreamKey) -> None:
        """Raise DamageError for a doubt that the whole stream leaves."""
        if self._begun_by_older:
            raise DamageError(f"stream `{key.name}` {BEGUN_BY_OLDER}", stream=key.name, version=1)
        if self._without_content:
            version = min(self._without_content)
            raise DamageError(
                f"stream `{key.name}` version {version} {WITHOUT_CONTENT}; run verify", stream=key.name, version=version
            )


BEGUN_BY_OLDER: Final = (
    "was begun by an older version of permission-ledger after the upgrade, without this version's checks: "
    "end that process, and begin another session"
)
WITHOUT_CONTENT: Final = "has lost its content, and no `redacted` event names it"


def is_begun_by_older(first: Entry, upgraded_ms: int | None) -> bool:
    """Return whether an older version wrote a stream's first entry after the upgrade. Raises DamageError."""
    return upgraded_ms is not None and first.ms > upgraded_ms and codec.decode(first.payload).v == codec.FIRST_SCHEMA

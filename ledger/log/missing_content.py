"""Entries without their content, which is damage unless a later `redacted` names them."""

from __future__ import annotations

from typing import Final

from ledger.core.errors import DamageError
from ledger.core.events import Redacted
from ledger.core.grants import Recorded
from ledger.stores.port import StreamKey

WITHOUT_CONTENT: Final = "has lost its content, and no `redacted` event names it"


class MissingContent:
    """Versions of one stream that lack their content, and that no redaction names so far."""

    __slots__ = ("_versions",)

    def __init__(self) -> None:
        self._versions: set[int] = set()

    def take(self, version: int, recorded: Recorded) -> None:
        """Note an entry that lacks its content, or a redaction, which explains those that it names."""
        if isinstance(recorded.event, Redacted):
            self._versions.difference_update(recorded.event.versions)
        if recorded.redacted:
            self._versions.add(version)

    def __bool__(self) -> bool:
        return bool(self._versions)

    def require_none(self, key: StreamKey) -> None:
        """Raise DamageError where a version of the whole stream lacks its content unexplained."""
        if self._versions:
            version = min(self._versions)
            raise DamageError(
                f"stream `{key.name}` version {version} {WITHOUT_CONTENT}; run verify", stream=key.name, version=version
            )

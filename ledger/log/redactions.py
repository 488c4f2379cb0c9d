"""Redaction of a stream: what would go, and the step that takes it out."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.core import codec
from ledger.core.commitments import after_entry
from ledger.core.errors import StoreError
from ledger.core.events import Actor, ReasonDetail, Redacted
from ledger.core.ids import new_event_id, new_salt
from ledger.core.limits import REDACTED_COUNT
from ledger.log.redactable import Selection
from ledger.log.tail import Folded, nothing_folded, read_pages
from ledger.stores.port import Append, Appended, AppendResult, Entry, Position, Store, StreamKey

ROUNDS_MAX = 64
"""Retries after other writers were first; each has seen more than the one before."""


class StreamPlan:
    """The redaction of one stream as planned; `folded` is the stream as of the last entry read."""

    def __init__(self, key: StreamKey, selection: Selection) -> None:
        self.key = key
        self.selection = selection
        self.folded: Folded[object] = nothing_folded(key)
        self._redactions: set[str] = set()

    @property
    def versions(self) -> list[int]:
        return [one.version for one in self.selection.goes]

    @property
    def is_empty(self) -> bool:
        return not self.selection.goes and not self.selection.stays

    async def read(self, store: Store) -> None:
        """Read the entries that are new. Raises StoreError, DamageError."""
        async for page in read_pages(store, self.key, self.folded.last):
            self._take(page)

    def _take(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            recorded, self.folded = self.folded.next(self.key, entry)
            self.selection.take(entry, recorded)
            if isinstance(recorded.event, Redacted):
                self._redactions.add(recorded.event_id)

    @property
    def is_redacted(self) -> bool:
        """Return whether something was taken out of the stream already."""
        return bool(self._redactions)

    def has(self, event_id: str) -> bool:
        """Return whether a redaction with this event id was read."""
        return event_id in self._redactions


async def redact(store: Store, plan: StreamPlan, *, actor: Actor, reason: str) -> list[int]:
    """Take out what is planned, and record it; return the redacted versions.

    What other writers add meanwhile is looked at, too. Raises StoreError, InDoubtError, DamageError, SetupError.
    """
    done: set[int] = set()
    while left := [version for version in plan.versions if version not in done]:
        done.update(await _redact_some(store, plan, left[:REDACTED_COUNT], done, actor=actor, reason=reason))
    return sorted(done)


async def _redact_some(
    store: Store, plan: StreamPlan, versions: list[int], done: set[int], *, actor: Actor, reason: str
) -> list[int]:
    """Return the redacted versions: these, or none if others are to be taken out by now."""
    event_id, salt = new_event_id(), new_salt()
    is_done, rounds = False, 0

    async def following(result: AppendResult | None) -> Append | None:
        nonlocal is_done, rounds
        if result is not None:
            await plan.read(store)
            is_done = isinstance(result, Appended) or plan.has(event_id)
            if is_done or [one for one in plan.versions if one not in done][:REDACTED_COUNT] != versions:
                return None
        if rounds == ROUNDS_MAX:
            raise StoreError(
                f"stream `{plan.key.name}` was written by others {ROUNDS_MAX} times in a row; try again",
                stream=plan.key.name,
            )
        rounds += 1
        event = Redacted(versions=tuple(versions), detail=ReasonDetail(reason))
        last = plan.folded.last
        prev = after_entry(last.ms, last.version, last.payload)
        fields = codec.encode(event, event_id=event_id, prev=prev, actor=actor, salt=salt)
        return Append(key=plan.key, after=last.position, payloads=(fields,))

    await store.rewrite(plan.key, versions, following)
    if not is_done:
        return []
    await _confirm(store, plan.key, Position(*plan.folded.last[:2]))
    return versions


async def _confirm(store: Store, key: StreamKey, at: Position) -> None:
    """Wait for the replication that `Durability` asks for. Raises InDoubtError."""
    if store.durability.is_demanding and await store.confirm(key, at) is None:
        raise StoreError(f"the server lost the redaction of stream `{key.name}`; repeat the command", stream=key.name)

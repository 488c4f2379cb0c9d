"""The tail of a stream: its entries after a known one, in bounded pages, each checked against the one before it.

Every reader of a stream uses it. The known entry is read again with each page, so that a reader notices when the server
has lost entries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import msgspec

from ledger.access.state import AccessState, evolve_access
from ledger.core.errors import DamageError
from ledger.core.events import Redacted
from ledger.core.grants import Recorded
from ledger.core.limits import PAGE_COUNT
from ledger.log.entries import check_info, read_entry
from ledger.policy.stored_rules import RulesState, evolve_rules
from ledger.project import ProjectState, evolve_project
from ledger.session.brief import SAYING
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from ledger.stores.port import START, Entry, Foreign, Position, Store, StreamKey

S = TypeVar("S")

BEFORE_FIRST: Final = Entry(*START, b"")
"""The known entry of a reader that begins with the first one."""


class LostHistoryError(DamageError):
    """A stream lacks an entry that was read before: its server lost it (in a failover)."""


async def read_pages(
    store: Store, key: StreamKey, known: Entry = BEFORE_FIRST, until: int | None = None, count: int = PAGE_COUNT
) -> AsyncIterator[Sequence[Entry]]:
    """Iterate over the entries after `known`, in pages of at most `count`, up to version `until` (None: the last).

    From the first entry, the stream's metadata is checked too. Raises StoreError, DamageError, and LostHistoryError
    when the stream does not hold `known`.
    """
    while until is None or known.version < until:
        page = await _page_after(store, key, known, count)
        if page:
            yield page if until is None else page[: until - known.version]
            known = page[-1]
        if len(page) < count:
            return


async def _page_after(store: Store, key: StreamKey, known: Entry, count: int) -> Sequence[Entry]:
    if known.version == 0:
        with foreign_is_damage(key):
            opening = await store.open(key)
        check_info(key, opening.info)
        return opening.entries[:count]
    with foreign_is_damage(key):
        page = await store.read(key, Position(known.ms, known.version - 1), count + 1)
    # Its content may have been redacted since.
    if not page or page[0][:3] != known[:3]:
        raise LostHistoryError(
            f"stream `{key.name}` was read up to {known.position}, which its log does not hold", stream=key.name
        )
    return page[1:]


@contextmanager
def foreign_is_damage(key: StreamKey) -> Iterator[None]:
    """Raise DamageError for an entry that is not in the ledger's format."""
    try:
        yield
    except Foreign as error:
        raise DamageError(f"stream `{key.name}`: {error.text}", stream=key.name) from error


async def entry_at(store: Store, key: StreamKey, at: Position) -> Entry | None:
    """Return the entry at a position. Raises StoreError, DamageError."""
    with foreign_is_damage(key):
        found = await store.read(key, Position(at.ms, at.version - 1), 1) if at.version > 0 else ()
    return found[0] if found and found[0].position == at else None


async def read_events(store: Store, key: StreamKey) -> AsyncIterator[Recorded]:
    """Iterate over the present events of a stream, verifying the chain. Raises DamageError at the first damage."""
    before, state = BEFORE_FIRST, nothing_folded(key).state
    async for page in read_pages(store, key):
        for entry in page:
            recorded = read_entry(key, entry, before, before.payload, state)
            if type(recorded.event) in SAYING:
                state = evolve_any(state, recorded)
            yield recorded
            before = entry


class Folded(msgspec.Struct, Generic[S], frozen=True, gc=False):
    """The state of a stream as of an entry.

    `lost` are the versions whose content is gone though no event up to there says that it was redacted.
    """

    state: S
    last: Entry = BEFORE_FIRST
    lost: frozenset[int] = frozenset()

    @property
    def position(self) -> Position:
        return self.last.position

    @property
    def version(self) -> int:
        return self.last.version

    def next(self, key: StreamKey, entry: Entry) -> tuple[Recorded, Folded[S]]:
        """Return the event of the next entry and the fold after it. Raises DamageError when it does not follow."""
        recorded = read_entry(key, entry, self.last, self.last.payload, self.state)
        lost = self.lost
        if lost and isinstance(recorded.event, Redacted):
            lost = lost.difference(recorded.event.versions)
        if recorded.redacted:
            lost = lost.union((entry.version,))
        return recorded, Folded(evolve_any(self.state, recorded), entry, lost)


def nothing_folded(key: StreamKey) -> Folded[Any]:
    """Return the fold of a stream before its first entry."""
    match key.kind:
        case "session":
            return Folded(SessionState(session_id=key.id))
        case "project":
            return Folded(ProjectState(project_id=key.id))
        case "access":
            return Folded(AccessState(access_id=key.id))
        case "policy":
            return Folded(RulesState(policy_digest=key.id))


def evolve_any(state: Any, recorded: Recorded) -> Any:
    """Return the state of any kind of stream after its next event."""
    if isinstance(state, SessionState):
        return evolve(state, recorded)
    if isinstance(state, ProjectState):
        return evolve_project(state, recorded)
    if isinstance(state, RulesState):
        return evolve_rules(state, recorded)
    return evolve_access(state, recorded)


def fold_entries(key: StreamKey, folded: Folded[S], entries: Iterable[Entry]) -> Folded[S]:
    """Return the fold after these entries. Raises DamageError when they do not follow."""
    for entry in entries:
        _, folded = folded.next(key, entry)
    return folded


async def read_folds(
    store: Store, key: StreamKey, folded: Folded[S], until: int | None = None, count: int = PAGE_COUNT
) -> AsyncIterator[tuple[Recorded, Folded[S]]]:
    """Iterate over the events after a fold, with the fold after each; bounds and errors as in `read_pages`."""
    async for page in read_pages(store, key, folded.last, until, count):
        for entry in page:
            recorded, folded = folded.next(key, entry)
            yield recorded, folded

"""Test of a stream's bytes for wholeness: versions, times, hashes and commitments, without reading JSON.

This is the quick half of verification: a stream that does not pass is read by `ledger.log.verify`, which names each
problem. What the newest entry says is read as an event, because no other entry bears it out. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core import codec
from ledger.core.commitments import follows, genesis, is_commitment_to
from ledger.core.errors import DamageError
from ledger.core.limits import ENTRY_MS_MAX
from ledger.log.glances import PayloadBeginning, beginnings_of
from ledger.log.verify import Head, Problem, head_of, verify_entries
from ledger.stores.port import START, Entry, StreamInfo, StreamKey

_CONCERNING_OTHERS: Final = frozenset((b"redacted", b"imported"))
"""Events that say something about other entries: such a stream is read in full."""


def is_whole(
    key: StreamKey,
    entries: Sequence[Entry],
    info: StreamInfo,
    head: Head | None,
    *,
    beginnings: Sequence[PayloadBeginning] | None = None,
) -> bool:
    """Return whether a stream has certainly no problem of its chain; the arguments are those of `verify_entries`.

    `beginnings` are those of the payloads, from a caller that has them. False says nothing: the stream may be damaged,
    or only be written in another way.
    """
    begun = beginnings or beginnings_of(entries)
    if not begun:
        return False
    return (
        _is_linked(key, entries, begun)
        and _is_as_the_server_says(entries, info)
        and (head is None or _has_head(entries, head))
        and _is_event(entries[-1])
    )


class WholeEntries(tuple[Entry, ...]):
    """All entries of a stream, in which verification found no problem. Only `whole_entries` makes them."""

    __slots__ = ()


def whole_entries(key: StreamKey, entries: Sequence[Entry], info: StreamInfo) -> WholeEntries | Problem:
    """Return a stream's entries if they have no problem, else the first problem; the arguments are as of `is_whole`."""
    if not is_whole(key, entries, info, None):
        problems = verify_entries(key, entries, info)
        if problems:
            return problems[0]
    return WholeEntries(entries)


def _is_linked(key: StreamKey, entries: Sequence[Entry], beginnings: Sequence[PayloadBeginning]) -> bool:
    before_ms = before_version = 0
    before_payload = b""
    event_ids: set[bytes] = set()
    for (ms, version, payload, content), begun in zip(entries, beginnings, strict=True):
        _, event_id, written_prev, commitment, event_type = begun
        if version != before_version + 1:
            return False
        prev = written_prev.decode("latin-1")  # never fails; other characters than those of a hash only differ from it
        if version == 1:
            linked = prev == genesis(key.kind, key.id)
        else:
            linked = ms >= before_ms and follows(prev, ms, before_ms, before_version, before_payload)
        if not linked or event_type in _CONCERNING_OTHERS or not _is_committed(content, commitment):
            return False
        event_ids.add(event_id)
        before_ms, before_version, before_payload = ms, version, payload
    return len(event_ids) == len(entries) and before_ms <= ENTRY_MS_MAX


def _is_committed(content: bytes | None, commitment: bytes | None) -> bool:
    """Return whether an entry has exactly the content to which its payload commits."""
    if content is None or commitment is None:
        return content is commitment
    return is_commitment_to(commitment, content)


def _is_as_the_server_says(entries: Sequence[Entry], info: StreamInfo) -> bool:
    """Return whether nothing was deleted or cut off; entries that came since the metadata was read are no problem."""
    last = info.last
    return (
        info.length == info.entries_added == last.version
        and info.max_deleted == START
        and 0 < info.length <= len(entries)
        and entries[last.version - 1].ms == last.ms
    )


def _has_head(entries: Sequence[Entry], head: Head) -> bool:
    version = head.position.version
    return 0 < version <= len(entries) and head_of(entries[version - 1]) == head


def _is_event(entry: Entry) -> bool:
    """Return whether an entry reads as an event of a known schema, with its content."""
    try:
        return isinstance(codec.decode(entry.payload, entry.content), codec.Envelope)
    except DamageError:
        return False

"""All names of keys and channels. The keys of a session are in one partition, hash-tagged for Redis Cluster."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from ledger.stores.port import AskersOf, Place, StreamKey, StreamKind, WorkPlace

APPEND_KEYS_KEPT_COUNT = 1024
"""Streams whose keys are kept: few, because a cache that fills for hours cannot be told from a leak."""

VIEW_KEYS_KEPT_COUNT = 4096
"""Keys of views that are kept: those of 16 views in each of 256 partitions."""

VIEWS_FORMAT = 2
"""The format of all views: part of their keys, so that a version never reads the views of another one.

It is raised with each change by which views would be misread. A projector then builds the views anew, beside those of
the other format. Projectors of one format share the lines of the feeds, and take none from others.
"""

PROJECTORS: Final = f"projector-{VIEWS_FORMAT}"
"""The consumer group of the projectors on every feed."""

CENSUS: Final = "census"
"""The view of a partition's census (`ledger.stores.port.CENSUS_BEGUN`)."""

_LETTERS: Final[dict[StreamKind, str]] = {"session": "s", "project": "p", "access": "a", "policy": "r"}
_KINDS: Final = {letter: kind for kind, letter in _LETTERS.items()}


class AppendKeys(NamedTuple):
    """The names of a stream's append, built once for each stream; `lease` only of a session."""

    name: str
    lease: str
    stream: str
    due: str
    feed: str
    channel: str
    freeze: str


class Keys:
    """The key space of one deployment of `count` partitions."""

    def __init__(self, count: int, prefix: str = "pl") -> None:
        self.count = count
        self.prefix = prefix
        self.streams_glob = f"{{{prefix}:*}}:[spar]:*"
        self.sealable_glob = f"{{{prefix}:*}}:s:*"
        """The pattern of the streams that may be sealed: those of sessions."""
        self.views_glob = f"{{{prefix}:*}}:view:*"
        """The pattern of all views, of every format."""
        self.of_append = lru_cache(APPEND_KEYS_KEPT_COUNT)(self._of_append)
        self._of_partition = lru_cache(count)(self._shared_keys)
        self.feed = lru_cache(count)(self._feed)
        self.view = lru_cache(VIEW_KEYS_KEPT_COUNT)(self._view)

    def _of_append(self, key: StreamKey) -> AppendKeys:
        partition = key.partition(self.count)
        lease = self.lease(key.id) if key.kind == "session" else ""
        return AppendKeys(key.name, lease, self.stream(key), *self._of_partition(partition))

    def _shared_keys(self, partition: int) -> tuple[str, str, str, str]:
        """Return the keys that the appends to all streams of a partition have in common."""
        return self.due(partition), self.feed(partition), self.channel(partition), self.freeze(partition)

    def tag(self, partition: int) -> str:
        return f"{{{self.prefix}:{partition}}}"

    def stream(self, key: StreamKey) -> str:
        return f"{self.tag(key.partition(self.count))}:{_LETTERS[key.kind]}:{key.id}"

    def parse_stream(self, name: str) -> StreamKey | None:
        """Return the stream that a key holds, or None for another key."""
        _, _, rest = name.partition("}:")
        letter, _, stream_id = rest.partition(":")
        kind = _KINDS.get(letter)
        return StreamKey(kind, stream_id) if kind and stream_id else None

    def due(self, partition: int) -> str:
        return f"{self.tag(partition)}:due"

    @cached_property
    def all_due(self) -> tuple[str, ...]:
        """Return the keys of the due hints of all partitions."""
        return tuple(map(self.due, range(self.count)))

    def _feed(self, partition: int) -> str:
        return f"{self.tag(partition)}:feed"

    def channel(self, partition: int) -> str:
        return f"{self.tag(partition)}:bell"

    def freeze(self, partition: int) -> str:
        """Return the key of the partition's flag, which holds the freezes in force."""
        return f"{self.tag(partition)}:freeze"

    def redaction(self, partition: int, name: str) -> str:
        """Return the key of a stream's copy without redacted content, or of the lease to make one; no stream's name."""
        return f"{self.tag(partition)}:redact:{name}"

    def sealing(self, partition: int, name: str) -> str:
        """Return the key of a stub, or of the entries of a sealed stream, before they take each other's place."""
        return f"{self.tag(partition)}:sealing:{name}"

    def closed_file(self, partition: int, file: str) -> str:
        """Return the key of the mark that no stub may name a file any more; no stream's name, nor that of a copy."""
        return f"{self.tag(partition)}:sealing:closed/{file}"

    def partition_of_channel(self, channel: bytes) -> int:
        """Return the partition of a wake-up channel."""
        tag = channel.decode().partition("}")[0]
        return int(tag.rpartition(":")[2])

    def sure(self, partition: int) -> str:
        """Return the key that is written only to be waited for (WAIT), which confirms all writes before it."""
        return f"{self.tag(partition)}:sure"

    def lease(self, place: Place) -> str:
        """Return the key of the leases of a place."""
        if place is None:
            return f"{self.tag(0)}:inbox"
        if isinstance(place, WorkPlace):
            return f"{self.tag(0)}:turn:{place.name}"
        if isinstance(place, AskersOf):
            return f"{self.tag(StreamKey('session', place.session).partition(self.count))}:askers:{place.session}"
        return f"{self.tag(StreamKey('session', place).partition(self.count))}:lease:{place}"

    def reads(self, kind: str) -> str:
        """Return the stream of audited reads of a kind; each kind has its own retention (`ledger.log.reads`)."""
        return f"{self.tag(0)}:reads:{kind}"

    def notes(self, name: str) -> str:
        """Return the key of what processes note for all of them under a name."""
        return f"{self.tag(0)}:notes:{name}"

    def _view(self, view: str, partition: int) -> str:
        return f"{self.tag(partition)}:view:{VIEWS_FORMAT}:{view}"

    def parse_view(self, name: str) -> tuple[int, str] | None:
        """Return partition and name of the view that a key holds, or None for another key and for another format."""
        tag, _, rest = name.partition(f"}}:view:{VIEWS_FORMAT}:")
        number = tag.rpartition(":")[2]
        return (int(number), rest) if rest and number.isdecimal() else None

    def config(self) -> str:
        """Return the key of the settings fixed when the deployment was created."""
        return f"{self.prefix}:config"

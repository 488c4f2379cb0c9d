"""An immutable map whose older records are kept encoded and compressed, each by itself, and decoded to be read. Pure.

The fold of a session has a record of every settled request, for ever, and most of them are never read again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar, overload

import msgspec
from rpds import HashTrieMap

T = TypeVar("T")
V = TypeVar("V")

WHOLE_MAX_COUNT: Final = 128
"""Records that are kept whole; with one more the older half of them is packed."""

ENTRY_BYTES: Final = 250
"""The room that a packed record takes besides its bytes: its key, and its place in the map."""

_LEVEL: Final = 3
_WINDOW: Final = -12
"""2**12 bytes, without a header or a checksum: nothing but this process, or a snapshot with a digest, keeps them."""

_MEMORY: Final = 5
_AGE_BYTES: Final = 6

_NO_RECORDS: Final[HashTrieMap[str, Any]] = HashTrieMap()


class Packing(Generic[V]):
    """The way to pack the records of one type, which have come from JSON. `age_of` orders them: the lowest is packed first.

    What a record has in common with the `usual` ones takes next to no room; the most frequent is the last of them.
    """

    def __init__(self, record: type[V], age_of: Callable[[V], int], whole_bytes: int, usual: Iterable[V]) -> None:
        self._decode: Callable[[bytes], V] = msgspec.json.Decoder(record).decode
        self.age_of = age_of
        self.whole_bytes = whole_bytes
        """The room that a usual record takes whole."""
        self._words = b"".join(map(msgspec.json.encode, usual))

    def pack(self, record: V) -> bytes:
        """Return a record as bytes that begin with its age."""
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, self._words)
        packed = packer.compress(msgspec.json.encode(record))
        return self.age_of(record).to_bytes(_AGE_BYTES, "big") + packed + packer.flush()

    def unpack(self, packed: bytes) -> V:
        """Return the record. Raises ValueError for bytes that hold none."""
        try:
            return self._decode(zlib.decompressobj(_WINDOW, self._words).decompress(packed[_AGE_BYTES:]))
        except zlib.error as error:
            raise ValueError(f"not a packed record: {error}") from error


class PackedRecords(Mapping[str, V]):
    """An immutable map: `insert`, `remove` and `replaced` return another one.

    The youngest records are whole: they are what is read and changed. The others are packed.
    """

    __slots__ = ("_bytes", "_packed", "_packing", "_whole")

    def __init__(
        self,
        packing: Packing[V],
        whole: HashTrieMap[str, V] = _NO_RECORDS,
        packed: HashTrieMap[str, bytes] = _NO_RECORDS,
        packed_bytes: int = 0,
    ) -> None:
        self._packing = packing
        self._whole = whole
        self._packed = packed
        self._bytes = packed_bytes

    @classmethod
    def of(cls, packing: Packing[V], packed: Mapping[str, bytes]) -> PackedRecords[V]:
        """Return the map of records that were packed."""
        return cls(packing, packed=HashTrieMap(packed), packed_bytes=sum(map(len, packed.values())))

    def packed(self) -> dict[str, bytes]:
        """Return all records packed."""
        pack = self._packing.pack
        return {**dict(_pairs(self._packed)), **{key: pack(record) for key, record in _pairs(self._whole)}}

    @property
    def size_bytes(self) -> int:
        """Return an estimate of the room that the map takes."""
        return len(self._whole) * self._packing.whole_bytes + len(self._packed) * ENTRY_BYTES + self._bytes

    # --- reading ----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> V:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    @overload
    def get(self, key: str, /) -> V | None: ...

    @overload
    def get(self, key: str, /, default: V | T) -> V | T: ...

    def get(self, key: str, /, default: Any = None) -> Any:
        found = self._whole.get(key)
        if found is not None:
            return found
        packed = self._packed.get(key)
        return default if packed is None else self._packing.unpack(packed)

    def __contains__(self, key: object) -> bool:
        return key in self._whole or key in self._packed

    def __len__(self) -> int:
        return len(self._whole) + len(self._packed)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in (*_pairs(self._packed), *_pairs(self._whole)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedRecords) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PackedRecords({dict(self.items())!r})"

    def items(self) -> ItemsView[str, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def pairs(self) -> Iterator[tuple[str, V]]:
        """Iterate over keys and records."""
        unpack = self._packing.unpack
        yield from ((key, unpack(packed)) for key, packed in _pairs(self._packed))
        yield from _pairs(self._whole)

    def newest(self, before: int | None = None) -> Iterator[V]:
        """Iterate over the records from the youngest to the oldest; `before` begins below an age.

        A packed record is unpacked when it is its turn.
        """
        age_of, unpack = self._packing.age_of, self._packing.unpack
        found: list[tuple[int, V | None, bytes]] = [(age_of(one), one, b"") for _, one in _pairs(self._whole)]
        found += [(_age_in(packed), None, packed) for _, packed in _pairs(self._packed)]
        found.sort(key=itemgetter(0), reverse=True)
        return (unpack(packed) if one is None else one for age, one, packed in found if before is None or age < before)

    # --- changing ---------------------------------------------------------------------------------------------------

    def insert(self, key: str, record: V) -> PackedRecords[V]:
        """Return the map with this record, in place of an older one of the same key."""
        whole = self._whole.insert(key, record)
        packed, packed_bytes = self._without_packed(key) if self._packed else (self._packed, self._bytes)
        if len(whole) <= WHOLE_MAX_COUNT:
            return PackedRecords(self._packing, whole, packed, packed_bytes)
        aged = sorted(_pairs(whole), key=lambda pair: self._packing.age_of(pair[1]))
        for older, one in aged[: WHOLE_MAX_COUNT // 2]:
            as_bytes = self._packing.pack(one)
            packed, packed_bytes = packed.insert(older, as_bytes), packed_bytes + len(as_bytes)
            whole = whole.remove(older)
        return PackedRecords(self._packing, whole, packed, packed_bytes)

    def remove(self, key: str) -> PackedRecords[V]:
        """Return the map without a record. Raises KeyError for an unknown one."""
        if key in self._whole:
            return PackedRecords(self._packing, self._whole.remove(key), self._packed, self._bytes)
        if key not in self._packed:
            raise KeyError(key)
        return PackedRecords(self._packing, self._whole, *self._without_packed(key))

    def replaced(self, changed: Mapping[str, V]) -> PackedRecords[V]:
        """Return the map with these records in place of those of the same keys."""
        records = self
        for key, record in changed.items():
            records = records.insert(key, record)
        return records

    def _without_packed(self, key: str) -> tuple[HashTrieMap[str, bytes], int]:
        known = self._packed.get(key)
        return (self._packed, self._bytes) if known is None else (self._packed.remove(key), self._bytes - len(known))


def _pairs(records: HashTrieMap[str, T]) -> list[tuple[str, T]]:
    """Return keys and records, as `pickle` would have them.

    The map's own iterators take five to eighteen times as long: each step makes a map without the key that it returns.
    """
    reduced: Any = records.__reduce__()
    pairs: list[tuple[str, T]] = reduced[1][0]
    return pairs


def _age_in(packed: bytes) -> int:
    return int.from_bytes(packed[:_AGE_BYTES], "big")


class _Items(ItemsView[str, V]):
    _mapping: PackedRecords[V]

    def __iter__(self) -> Iterator[tuple[str, V]]:
        return self._mapping.pairs()


class _Values(ValuesView[V]):
    _mapping: PackedRecords[V]

    def __iter__(self) -> Iterator[V]:
        return (record for _, record in self._mapping.pairs())

"""Stubs: a file that is named after its time of sealing is told by its digest alone, every other one by its name."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.errors import DamageError
from ledger.core.limits import ENTRY_MS_MAX, TIME_MS_MAX
from ledger.stores.port import Position
from ledger.stores.sealed import (
    FILE_DIGEST_BYTES,
    VERSION_MAX,
    Seal,
    Stub,
    archive_file,
    decode_seal,
    encode_seal,
)
from tests.support.backends import SESSION

SEALED_MS = 1_795_512_345_678
DIGEST = bytes(range(FILE_DIGEST_BYTES))
NAMED = archive_file(SEALED_MS, DIGEST)
HASH = "0f" * 32

OTHER_NAMES = {
    "of another time": archive_file(SEALED_MS + 1, DIGEST),
    "of another day": NAMED.replace("/24/", "/25/"),
    "in a folder": f"shop/{NAMED}",
    "with a longer digest": NAMED.replace(DIGEST.hex(), DIGEST.hex() + "00"),
    "in capitals": NAMED.replace(DIGEST.hex(), DIGEST.hex().upper()),
    "with another ending": NAMED.replace(".jsonl.zst", ".jsonl.zst.old"),
    "of an export": "shop-0001.jsonl.zst",
    "only a digest": DIGEST.hex(),
}


def seal(file: str = NAMED) -> Seal:
    return Seal(Position(5, 3), HASH, file, SEALED_MS)


def test_the_name_of_a_file_tells_its_day_its_time_and_its_digest() -> None:
    assert NAMED == "2026/11/24/1795512345678-000102030405060708090a0b.jsonl.zst"


def test_a_file_that_is_named_after_its_time_of_sealing_is_told_by_its_digest() -> None:
    stub = encode_seal(seal())
    assert stub.file == DIGEST
    assert stub.size_bytes < 72
    assert decode_seal(SESSION, stub) == seal()


@pytest.mark.parametrize("file", OTHER_NAMES.values(), ids=OTHER_NAMES)
def test_any_other_file_is_told_by_its_name(file: str) -> None:
    stub = encode_seal(seal(file))
    assert stub.file == file.encode()
    assert decode_seal(SESSION, stub) == seal(file)


@given(
    st.integers(0, ENTRY_MS_MAX),
    st.integers(1, VERSION_MAX),
    st.integers(0, TIME_MS_MAX),
    st.binary(min_size=FILE_DIGEST_BYTES, max_size=FILE_DIGEST_BYTES),
)
def test_every_stub_is_read_as_it_was_written(ms: int, version: int, sealed_ms: int, digest: bytes) -> None:
    written = Seal(Position(ms, version), HASH, archive_file(sealed_ms, digest), sealed_ms)
    assert decode_seal(SESSION, encode_seal(written)) == written


@pytest.mark.parametrize("digest", [b"", DIGEST[:-1], DIGEST + b"\x00", NAMED.encode()])
def test_a_digest_of_another_length_is_damage(digest: bytes) -> None:
    with pytest.raises(DamageError, match=r"digest of its file has \d+ bytes instead of 12"):
        decode_seal(SESSION, encode_seal(seal())._replace(file=digest))


@pytest.mark.parametrize("sealed_ms", [-1, TIME_MS_MAX + 1, 2**63])
def test_a_digest_with_a_time_out_of_range_is_damage(sealed_ms: int) -> None:
    members = [2, 5, 3, bytes.fromhex(HASH), sealed_ms]
    with pytest.raises(DamageError, match="time of sealing"):
        decode_seal(SESSION, Stub(msgspec.msgpack.encode(members), DIGEST))

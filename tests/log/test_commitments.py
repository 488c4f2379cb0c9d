from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.commitments import (
    commitment_bytes,
    commits_to,
    is_commitment_to,
    is_salt,
    keyed,
    long_digest,
    same_digest,
    short_digest,
)
from ledger.core.ids import new_salt

SALT = "AAECAwQFBgcICQoLDA0ODw"
PLAIN = sha256(b"git push").hexdigest()


def test_a_keyed_digest_is_the_hmac_of_the_plain_one_under_the_bytes_of_the_salt() -> None:
    assert keyed(PLAIN, SALT) == hmac.new(bytes(range(16)), bytes.fromhex(PLAIN), sha256).hexdigest()
    assert keyed(PLAIN, SALT) == "8e1e32031cdbb36aea922bfdcf149fb1171da410f007a1c9a489978243b046d0"


def test_an_entry_is_committed_to_by_the_sha256_of_its_content() -> None:
    digest = sha256(b"content").digest()
    own = commitment_bytes(b"content").decode()
    assert own == urlsafe_b64encode(digest).decode().rstrip("=")
    assert commits_to(own, b"content")
    for other in (commitment_bytes(b"other").decode(), digest.hex(), own + "=", "", None):
        assert not commits_to(other, b"content")


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_a_commitment_in_bytes_is_compared_as_one_in_text(content: bytes, other: bytes) -> None:
    own = commitment_bytes(content).decode()
    for commitment in (own, sha256(content).hexdigest(), commitment_bytes(other).decode(), "", "=" * 43):
        assert is_commitment_to(commitment.encode(), content) is commits_to(commitment, content)


def test_a_digest_is_written_short_and_read_long() -> None:
    short = short_digest(PLAIN)
    assert short is not None
    assert (len(short), long_digest(short)) == (43, PLAIN)
    assert long_digest(PLAIN) == PLAIN
    assert [short_digest(text) for text in (PLAIN.upper(), PLAIN[1:], "")] == [None, None, None]


def test_the_same_question_has_another_digest_under_another_salt() -> None:
    assert keyed(PLAIN, SALT) != keyed(PLAIN, "AAECAwQFBgcICQoLDA0ODg")


def test_a_plain_digest_is_compared_by_keying_it_first() -> None:
    assert same_digest(PLAIN, keyed(PLAIN, SALT), SALT)
    assert not same_digest(PLAIN, PLAIN, SALT)
    assert not same_digest(sha256(b"git pull").hexdigest(), keyed(PLAIN, SALT), SALT)


def test_salts_are_sixteen_bytes_and_never_repeat() -> None:
    salts = [new_salt() for _ in range(1000)]
    assert len(set(salts)) == len(salts)
    assert all(map(is_salt, salts))


@pytest.mark.parametrize(
    "text",
    [
        "AAECAwQFBgcICQoLDA0ODx",
        "AAECAwQFBgcICQoLDA0OD+",
        "AAECAwQFBgcICQoLDA0ODw==",
        "",
        SALT[1:],
        f"{SALT}0",
        "000102030405060708090a0b0c0d0e0f",
        f"{SALT[:-1]}\n",
        "\u0660" * 32,
    ],
)
def test_other_texts_are_no_salts(text: str) -> None:
    assert not is_salt(text)

from __future__ import annotations

import hmac
from hashlib import sha256

import pytest

from ledger.core.commitments import is_salt, keyed, same_digest
from ledger.core.ids import new_salt

SALT = "000102030405060708090a0b0c0d0e0f"
PLAIN = sha256(b"git push").hexdigest()


def test_a_keyed_digest_is_the_hmac_of_the_plain_one_under_the_bytes_of_the_salt() -> None:
    assert keyed(PLAIN, SALT) == hmac.new(bytes(range(16)), bytes.fromhex(PLAIN), sha256).hexdigest()
    assert keyed(PLAIN, SALT) == "8e1e32031cdbb36aea922bfdcf149fb1171da410f007a1c9a489978243b046d0"


def test_the_same_question_has_another_digest_under_another_salt() -> None:
    assert keyed(PLAIN, SALT) != keyed(PLAIN, SALT[::-1])


def test_a_plain_digest_is_compared_by_keying_it_first() -> None:
    assert same_digest(PLAIN, keyed(PLAIN, SALT), SALT)
    assert not same_digest(PLAIN, PLAIN, SALT)
    assert not same_digest(sha256(b"git pull").hexdigest(), keyed(PLAIN, SALT), SALT)


def test_a_digest_of_the_first_schema_is_compared_as_it_is() -> None:
    assert same_digest(PLAIN, PLAIN, "")
    assert keyed(PLAIN, "") == PLAIN


def test_salts_are_sixteen_bytes_and_never_repeat() -> None:
    salts = [new_salt() for _ in range(1000)]
    assert len(set(salts)) == len(salts)
    assert all(map(is_salt, salts))


@pytest.mark.parametrize(
    "text", ["", SALT[1:], f"{SALT}0", SALT.upper(), f"{SALT[:-1]}g", f"{SALT[:-1]}\n", "\u0660" * 32]
)
def test_other_texts_are_no_salts(text: str) -> None:
    assert not is_salt(text)

"""The search is linear: twice the text takes about twice as long, whatever an agent writes."""

from __future__ import annotations

from time import process_time

import pytest

from ledger.core.limits import METADATA_BYTES
from ledger.masks.finder import find
from ledger.masks.masking import may_need_masks

SECONDS_MAX = 1.0
"""For 64 kB; some 5 to 30 ms on an idle machine, and no more than minutes' worth if it were quadratic."""

REPEATED = [
    "password=", "token:", "--token ", "key: ", "keykey", "passpass", 'secret = "\\', "password = '", "api_key=a ",
    "curl ", "mysql -p ", "docker login -p", "kubectl create secret ", "echo '", "echo x | ", "machine ", "identified by '",
    "a://", "://a:", "://a@", "https://a:b", "hooks.zapier.com/", "authorization: bearer ", "Basic ", "sig=", "pass:",
    "ghp_", "eyJ-", "eyJa.", "SG.aaaaaaaaaaaaaaaaaaaa.", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----\n", "AKIA", "sk-", "1/1",
    ":AA", "Q~a", "AZDO", "a-us1", "A", "x", "é", "\u200bghp_", "\uff47\uff48", "{secret:", "MTMT", "Private-Lines: 1\n", "/0:1",
]  # fmt: skip


@pytest.mark.parametrize("text", REPEATED)
def test_a_long_line_of_anything_is_searched_in_milliseconds(text: str) -> None:
    line = text * (METADATA_BYTES // len(text.encode()))
    find("x")  # the tables are read by then
    begun = process_time()
    find(line + "!")
    may_need_masks({"command": line + "?"})
    assert process_time() - begun < SECONDS_MAX

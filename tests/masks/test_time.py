"""The search is linear: twice the text takes about twice as long, whatever an agent writes."""

from __future__ import annotations

from time import thread_time

import pytest

from ledger.core.limits import METADATA_BYTES
from ledger.masks.finder import find
from ledger.masks.masking import may_need_masks
from tests.support.rows import every

PARTS = 4
GROWTH_MAX = 8.0
"""A text of so many parts takes 4 times what one part takes if the search is linear, and 16 times if it is quadratic."""

TRIES = 5
"""A pause of the process makes one measurement longer, and a quadratic search makes all longer."""

REPEATED = [
    "password=", "token:", "--token ", "key: ", "keykey", "passpass", 'secret = "\\', "password = '", "api_key=a ",
    "curl ", "mysql -p ", "docker login -p", "kubectl create secret ", "echo '", "echo x | ", "machine ", "identified by '",
    "a://", "://a:", "://a@", "https://a:b", "hooks.zapier.com/", "authorization: bearer ", "Basic ", "sig=", "pass:",
    "ghp_", "eyJ-", "eyJa.", "SG.aaaaaaaaaaaaaaaaaaaa.", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----\n", "AKIA", "sk-", "1/1",
    ":AA", "Q~a", "AZDO", "a-us1", "A", "x", "é", "\u200bghp_", "\uff47\uff48", "{secret:", "MTMT", "Private-Lines: 1\n", "/0:1",
    "cookie: a=", "cookie=", "curl -b a=", "set -x ", "config set a", "vault login -a ", "vault -", "cargo login ", "--passphrase-fd <<< ",
    "<<<", "openssl a-b -k ", "ssh-keygen -N ", ":pserver:a", ":thin:a/", "plp_", "plt_a_", "/answer/a.", "?Signature=", "--creds a:",
    "redis-cli -a b ", "mc alias set a https:b c ", "bundle config a.b ", "consul acl set-agent-token a ", "-key-data: ", "lftp -u a,",
]  # fmt: skip


@pytest.mark.slow
@every("text", REPEATED)
def test_a_long_line_of_anything_is_searched_in_linear_time(text: str) -> None:
    assert any(
        seconds(text, METADATA_BYTES) <= GROWTH_MAX * seconds(text, METADATA_BYTES // PARTS) for _ in range(TRIES)
    )


def seconds(text: str, length: int) -> float:
    """Return the seconds of this thread that one search of a text, repeated to a length in bytes, takes."""
    line = text * (length // len(text.encode()))
    find("x")  # the tables are read by then
    begun = thread_time()
    find(line + "!")
    may_need_masks({"command": line + "?"})
    return thread_time() - begun

"""The name `permission-ledger` is on no package index yet: nothing tells anybody to install it from there."""

from __future__ import annotations

import re
from typing import Final

from tests.house.sources import files, text_of

FROM_AN_INDEX: Final = re.compile(
    r"""(?:pip|pipx|uv tool|uv pip)3? (?:install|run)(?: -\S+)* ["']?permission-ledger(?![\w.-]|[^"'\n]* @ )|uvx permission-ledger"""
)
LIKE_IT: Final = "ledger/policy/"
"""Commands that a ledger judges."""


def test_no_text_of_ours_installs_it_by_a_name_that_anybody_may_take() -> None:
    texts = [*files("docs", ".", suffix=".md"), *files("ledger", "workers", "examples"), *files(".", suffix=".toml")]
    found = [
        (path, line)
        for path in texts
        if not path.startswith(LIKE_IT)
        for line in text_of(path).splitlines()
        if FROM_AN_INDEX.search(line)
    ]
    assert found == []

"""The drill of a restore, as the guide has it: on copies of the server and of the archive."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import redis

from tests.house.sources import text_of
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer
from tests.workers.archiver.test_archive_commands import fill

GUIDE: Final = text_of("docs/guides/archive.md")
DRILL: Final = re.findall(r"^```drill\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)[0].splitlines()


@pytest.fixture
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = RealServer(tmp_path_factory.mktemp("copy"))
    try:
        server.start()
        yield server
    finally:
        server.remove()


def copied(original: str, to: str) -> None:
    """Copy every key of a server."""
    with redis.Redis.from_url(original) as one, redis.Redis.from_url(to) as other:
        for key in one.scan_iter(count=1000):
            data = one.dump(key)
            assert data is not None
            other.restore(key, 0, data)


def test_the_drill_of_the_guide_succeeds_on_copies_and_leaves_the_original_as_it_is(
    ledger: CommandLine, copy: RealServer, tmp_path: Path
) -> None:
    fill(ledger, "ses_1", "ses_2")
    ledger("archive", "--to", str(tmp_path / "archive"), code=0)
    copied(ledger.url, copy.url)
    shutil.copytree(tmp_path / "archive", tmp_path / "copy")
    places = {
        "/srv/copy-of-the-archive": str(tmp_path / "copy"),
        "redis://copy": copy.url,
        "redis://original": ledger.url,
    }
    printed: dict[str, str] = {}
    for line in DRILL:
        words = [places.get(word, word) for word in shlex.split(line)]
        if words[0] == "cmp":
            assert printed[words[1]] == printed[words[2]] != ""
            continue
        target = words[words.index(">") + 1] if ">" in words else ""
        printed[target] = ledger(*words[1 : words.index(">") if target else None], code=0).out
    assert ledger("archive", "ses_1", "--json", code=0).row["kept"] == "it is sealed already"

"""`export` and `import` between any two kinds of server, independent of the format of their files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import redis

from tests.support.command_line import CommandLine
from tests.support.programs import EMBEDDED, others_to_test

if TYPE_CHECKING:
    from tests.support.servers import RealServer, StartServer

ROUND_TRIP: Final = (EMBEDDED, *others_to_test(), EMBEDDED)


def streams_of(server: RealServer) -> dict[bytes, Any]:
    """Return every entry of every session and project, with its id and its bytes."""
    with redis.Redis.from_url(server.url, protocol=2) as client:
        return {key: client.xrange(key) for pattern in ("*:s:*", "*:p:*") for key in client.scan_iter(match=pattern)}


@pytest.mark.other_server
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_whole_sessions_are_carried_from_each_kind_of_server_to_the_next(
    start_server: StartServer, tmp_path: Path
) -> None:
    servers = [start_server(f"{place}-{name}", binary=name) for place, name in enumerate(ROUND_TRIP)]
    ledger = CommandLine(servers[0].url)
    ledger("ask", "ses_1", "bash", "make", "--always", "make *", "--id", "r1", "--project", "shop", "--no-wait", code=7)
    ledger("reply", "r1", "always", code=0)
    ledger("ask", "ses_1", "bash", "rm", "--id", "r2", "--no-wait", code=7)
    carried = streams_of(servers[0])
    assert len(carried) == 2
    for place, (source, target) in enumerate(pairwise(servers)):
        file = tmp_path / f"{place}.jsonl"
        CommandLine(source.url)("export", "--all", "--out", file, code=0)
        there = CommandLine(target.url)
        there("import", file, "--with-grants", code=0)
        there("verify", "--all", code=0)
        now = streams_of(target)
        # The imported bytes, followed by one event that records their source.
        assert {key: entries[: len(carried[key])] for key, entries in now.items()} == carried
        assert {len(now[key]) - len(entries) for key, entries in carried.items()} == {1}
        carried = now
    # Pending requests are still pending there, and grants still hold.
    last = CommandLine(servers[-1].url)
    assert [row["request_id"] for row in last("pending", "--json", code=0).rows] == ["r2"]
    last("ask", "ses_1", "bash", "make install", code=0)

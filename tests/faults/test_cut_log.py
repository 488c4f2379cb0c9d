"""A power cut in the middle of a write: an append is complete or absent, for every byte at which the file may end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from ledger import Ledger, Result, Session
from ledger.stores.port import StreamKey
from tests.support.backends import as_redis
from tests.support.servers import RealServer

if TYPE_CHECKING:
    from tests.support.servers import StartServer

Entries = list[tuple[bytes, dict[bytes, bytes]]]


def log_file(server: RealServer) -> Path:
    (file,) = server.folder.glob("appendonlydir/*.incr.aof")
    return file


def entries(server: RealServer, key: str) -> Entries:
    with redis.Redis.from_url(server.url, protocol=2) as client:
        found: Entries = client.xrange(key)
        return found


async def reject_all(server: RealServer, count: int) -> tuple[str, int]:
    """End `count` requests by one reply, in one append; return the stream's key and the append's offset in the file."""
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        session = await ledger.session("ses_1")
        for number in range(count):
            await session.submit("bash", [f"git push {number}"], request_id=f"r{number}")
        begins = log_file(server).stat().st_size
        await session.reply("r0", "reject", message="use a branch")
        return as_redis(ledger.store).keys.stream(StreamKey("session", "ses_1")), begins


async def outcomes(server: RealServer) -> list[str | None]:
    """Return the outcomes of the requests, after checking that a new process can continue the session."""
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        session: Session = await ledger.attach("ses_1")
        results: list[Result] = [await session.result(f"r{number}") for number in range(3)]
        assert (await session.submit("bash", ["make"], request_id="after")).outcome is None
        return [result.outcome for result in results]


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_whatever_byte_the_log_ends_at_the_last_append_is_there_as_a_whole_or_not_at_all(
    start_server: StartServer,
) -> None:
    server = start_server()
    # Two, so that the file can be cut at each of its bytes in half a minute.
    key, begins = await reject_all(server, 2)
    server.kill9()
    file = log_file(server)
    whole = file.read_bytes()
    server.start()
    written = entries(server, key)
    acknowledged = written[:-2]
    server.kill9()

    found: dict[int, Entries] = {}
    for cut in range(begins, len(whole) + 1):
        file.write_bytes(whole[:cut])
        server.start()
        found[cut] = entries(server, key)
        server.kill9()

    assert found.pop(len(whole)) == written
    # The script's writes are one transaction, so what follows the last entry belongs to it, too.
    assert {cut: left for cut, left in found.items() if left != acknowledged} == {}


@pytest.mark.parametrize(("lost_bytes", "outcome"), [(0, ["corrected", "rejected", "rejected"]), (1, [None] * 3)])
async def test_a_session_goes_on_from_what_a_cut_log_has_left(
    start_server: StartServer, lost_bytes: int, outcome: list[str | None]
) -> None:
    server = start_server()
    await reject_all(server, 3)
    server.kill9()
    file = log_file(server)
    file.write_bytes(file.read_bytes()[: file.stat().st_size - lost_bytes])
    server.start()
    assert await outcomes(server) == outcome

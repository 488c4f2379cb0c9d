"""`/readyz` while the server runs and refuses writes: 503, with the reason."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest
import redis

from ledger import Ledger
from ledger.stores.redis.least_rights import LEAST_RIGHTS
from tests.gateway.callers import Caller, in_process
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async

if TYPE_CHECKING:
    from tests.support.servers import StartServer

READY: Final = (200, "")
FULL_DISK: Final = (503, "the server cannot write to its disk and takes no more writes; free space there")
FULL_MEMORY: Final = (503, "the server has no memory left; raise maxmemory (nothing that was accepted is lost)")


@pytest.fixture
def server(start_server: StartServer) -> RealServer:
    return start_server(options={"appendfsync": "everysec"})


@pytest.fixture
async def anybody(server: RealServer) -> AsyncIterator[Caller]:
    async with Ledger.connect(server.url) as ledger, in_process(ledger) as gateway:
        yield gateway.caller_with(None)


@pytest.fixture
def operator(server: RealServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


async def told(caller: Caller) -> tuple[int, str]:
    answer = await caller.get("/readyz")
    return answer.status_code, answer.json().get("detail", "").partition(" (it said: ")[0]


async def test_while_the_servers_memory_is_full(anybody: Caller, operator: redis.Redis) -> None:
    assert await told(anybody) == READY
    operator.config_set("maxmemory", 1)
    assert await told(anybody) == FULL_MEMORY
    operator.config_set("maxmemory", 0)
    assert await told(anybody) == READY


async def test_while_the_disk_of_the_append_only_file_is_full(
    anybody: Caller, operator: redis.Redis, server: RealServer
) -> None:
    (log,) = server.folder.glob("appendonlydir/*.incr.aof")
    # The device that is always full: the next file of the log leads there.
    log.with_name(log.name.replace(".1.incr", ".2.incr")).symlink_to("/dev/full")
    operator.bgrewriteaof()
    await wait_until_async(lambda: not operator.info("persistence")["aof_rewrite_in_progress"], "a new file")
    operator.set("other", "x")
    await wait_until_async(lambda: operator.info("persistence")["aof_last_write_status"] == "err", "a failed write")
    assert await told(anybody) == FULL_DISK
    operator.config_set("appendonly", "no")
    assert await told(anybody) == READY


async def test_while_a_snapshot_cannot_be_written(anybody: Caller, operator: redis.Redis, server: RealServer) -> None:
    operator.config_set("save", "3600 1")
    (server.folder / "dump.rdb").mkdir()
    operator.bgsave()
    await wait_until_async(lambda: operator.info("persistence")["rdb_last_bgsave_status"] == "err", "a failed snapshot")
    assert await told(anybody) == FULL_DISK
    operator.config_set("stop-writes-on-bgsave-error", "no")
    assert await told(anybody) == READY


async def test_the_least_rights_are_enough_to_ask(server: RealServer, operator: redis.Redis) -> None:
    rights = re.findall(r"\([^)]*\)|\S+", LEAST_RIGHTS)
    operator.execute_command("ACL", "SETUSER", "ledger", "on", ">word", *rights)  # type: ignore[no-untyped-call]
    url = server.url.replace("unix://", "unix://ledger:word@")
    async with Ledger.connect(url) as ledger, in_process(ledger) as gateway:
        assert await told(gateway.caller_with(None)) == READY


async def test_the_question_writes_nothing(anybody: Caller, operator: redis.Redis) -> None:
    def written() -> tuple[Any, ...]:
        return operator.dbsize(), operator.info("persistence")["aof_current_size"]

    before = written()
    assert await told(anybody) == READY
    assert written() == before

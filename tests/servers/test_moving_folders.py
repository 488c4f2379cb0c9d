"""A data folder moved between kinds of server keeps its contents."""

from __future__ import annotations

import os
import signal
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from ledger import Ledger
from ledger.core.errors import StoreError
from ledger.log.archive.archive import all_streams
from ledger.stores.embedded.folder import DataFolder
from ledger.stores.embedded.launch import BINARY_VARIABLE
from ledger.stores.port import FeedItem, StreamKey
from projections.comparison import compare_partition
from projections.engine import Engine
from tests.support.backends import PARTITION_COUNT, as_redis
from tests.support.programs import EMBEDDED, binary_named, others_to_test
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers.upkeep.stream_checks import check_stream

pytestmark = pytest.mark.other_server

SERVERS: Final = (*others_to_test(), EMBEDDED)
"""Available servers, from the oldest to the newest: Redis 7.0, Redis 8, Valkey 9."""

THERE_AND_BACK: Final = (*SERVERS, *SERVERS[-2::-1])

PARTITIONS: Final = range(PARTITION_COUNT)
RULES: Final = {"permission": {"bash": {"*": "ask", "ls *": "allow"}}}


class Folder:
    """A data folder of a ledger with a project, a pending request, grants and views."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self._monkeypatch = monkeypatch
        self.stays = 0
        self.owed: list[FeedItem] = []

    async def stay_on(self, server: str) -> None:
        """Run one server on the folder: check what earlier servers wrote, and add data of every kind."""
        self._monkeypatch.setenv(BINARY_VARIABLE, str(binary_named(server).path))
        async with Ledger.connect(f"embedded://{self.path}", partitions=PARTITION_COUNT, entry_points=False) as ledger:
            await self._finds_everything(ledger)
            await self._leaves_more(ledger)
            await rewritten(ledger)
        assert (self.path / "engine").read_text() == f"{binary_named(server)}\n"

    async def _finds_everything(self, ledger: Ledger) -> None:
        assert await problems(ledger) == []
        assert await differences(ledger) == []
        if self.stays:
            session = await ledger.attach("ses_1")
            stays = range(self.stays)
            assert [(await session.result(f"allowed-{stay}")).outcome for stay in stays] == ["allowed"] * self.stays
            assert [one.as_json()["request_id"] for one in await session.pending()] == [
                f"waits-{stay}" for stay in stays
            ]
            patterns = [one.as_json()["pattern"] for one in await ledger.approved_in_project("shop")]
            assert patterns == [f"git push {stay} *" for stay in stays]
            due = await ledger.store.due(None, 10)
            assert [name for name, at_ms in due if at_ms is not None] == ["ses_1"]
            # The server also stores the entries that a consumer received and has not acknowledged.
            assert (await ledger.store.read_feed(PARTITIONS, "mirror", "heir", 100, 0)).items == self.owed

    async def _leaves_more(self, ledger: Ledger) -> None:
        stay, self.stays = self.stays, self.stays + 1
        session = await ledger.session("ses_1", project="shop", rules=RULES)
        await session.ask("bash", [f"ls {stay}"], request_id=f"allowed-{stay}")
        await session.submit("bash", [f"rm {stay}"], request_id=f"waits-{stay}")
        await session.submit("bash", [f"git push {stay}"], always=[f"git push {stay} *"], request_id=f"always-{stay}")
        await session.reply(f"always-{stay}", "always", actor="ann")
        lines = (await ledger.store.read_feed(PARTITIONS, "mirror", f"consumer-{stay}", 100)).items
        await ledger.store.acknowledge("mirror", lines[1:])
        self.owed += lines[:1]
        engine = Engine(ledger.store)
        for key in await keys_of(ledger):
            await engine.catch_up(key)
        assert await problems(ledger) == []


async def rewritten(ledger: Ledger) -> None:
    """Make the engine rewrite all its data, so that the next one must read its native format."""
    store = as_redis(ledger.store)
    await store.command("BGREWRITEAOF")

    async def done() -> bool:
        facts = (await store.command("INFO", "persistence")).decode()
        assert "aof_last_bgrewrite_status:ok" in facts
        return "aof_rewrite_in_progress:0" in facts and "aof_rewrite_scheduled:0" in facts

    await wait_until_async(done, "the append-only file to be rewritten")


async def keys_of(ledger: Ledger) -> list[StreamKey]:
    return [key async for key in all_streams(ledger.store)]


async def problems(ledger: Ledger) -> list[Any]:
    """Return the problems that `verify` finds in all streams."""
    checked = [await check_stream(ledger.store, key) for key in await keys_of(ledger)]
    return [problem for one in checked for problem in one.problems]


async def differences(ledger: Ledger) -> list[Any]:
    """Return the differences that `rebuild --verify` finds in all views."""
    return [
        one for partition in PARTITIONS async for one in compare_partition(ledger.store, partition, []) if not one.same
    ]


async def test_a_folder_goes_up_through_all_servers_and_back_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path / "data", monkeypatch)
    for server in THERE_AND_BACK:
        await folder.stay_on(server)


@pytest.mark.parametrize(("first", "second"), list(product(SERVERS, repeat=2)))
async def test_a_folder_moves_between_any_two_servers(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path / "data", monkeypatch)
    await folder.stay_on(first)
    await folder.stay_on(second)


async def test_a_base_file_in_rdb_format_keeps_a_folder_with_the_engine_that_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason for `aof-use-rdb-preamble no`, and the message for an operator whose server had it otherwise."""
    server = RealServer(tmp_path / "data", EMBEDDED, {"aof-use-rdb-preamble": "yes"})
    try:
        server.start()
        async with Ledger.connect(server.url, partitions=PARTITION_COUNT, entry_points=False) as ledger:
            await ledger.session("ses_1")
            await rewritten(ledger)
    finally:
        server.remove()
    folder = f"embedded://{tmp_path}/data"
    (tmp_path / "data").chmod(0o700)
    (tmp_path / "data" / "engine").write_text(f"{binary_named(EMBEDDED)}\n")
    for other in others_to_test():
        monkeypatch.setenv(BINARY_VARIABLE, str(binary_named(other).path))
        with pytest.raises(StoreError) as caught:
            await Ledger.connect(folder, entry_points=False).__aenter__()
        assert f"which {binary_named(EMBEDDED)} wrote last; nothing was deleted" in caught.value.text
    monkeypatch.setenv(BINARY_VARIABLE, str(binary_named(EMBEDDED).path))
    async with Ledger.connect(folder, entry_points=False) as ledger:
        assert [session async for session in ledger.sessions()] == ["ses_1"]


@pytest.mark.parametrize("server", SERVERS)
async def test_a_killed_server_of_any_kind_is_started_again_under_its_users(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BINARY_VARIABLE, str(binary_named(server).path))
    async with Ledger.connect(f"embedded://{tmp_path}/data", entry_points=False) as ledger:
        session = await ledger.session("ses_1", rules=RULES)
        await session.submit("bash", ["rm"], request_id="before")
        pid = DataFolder(tmp_path / "data").pid()
        assert pid
        os.kill(pid, signal.SIGKILL)
        assert (await session.ask("bash", ["ls x"], request_id="after")).outcome == "allowed"
        assert [one.as_json()["request_id"] for one in await session.pending()] == ["before"]
        assert await problems(ledger) == []

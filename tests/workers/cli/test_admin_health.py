"""`streams` and `doctor`: the contents of the server, and its problems."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from ledger import Durability, Ledger
from ledger.stores.keys import PROJECTORS
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from projections.engine import Engine
from tests.projections.looking import RULES_OF_ALL
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer
from tests.support.waiting import wait_until
from tests.workers.cli.filling import entries, fill, names
from workers.upkeep.health import HealthFinding, check_deployment, check_server_facts

if TYPE_CHECKING:
    from tests.support.servers import StartServer

PARTITION = ["partition", "streams", "events", "behind", "feed", "groups", "due"]
FINDING = ["check", "ok", "text", "hint"]

WELL = {
    "valkey_version": "9.1.2",
    "aof_enabled": "1",
    "config_appendfsync": "always",
    "maxmemory_policy": "noeviction",
    "role": "master",
}


@pytest.fixture
def client(server: RealServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


def findings(ledger: CommandLine, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    return {row["check"]: row for row in ledger("doctor", *words, "--json", code=code).rows}


def test_streams_are_told_by_partition(ledger: CommandLine) -> None:
    assert ledger("streams", code=0).err == "there is no stream\n"
    fill(ledger)
    rows = ledger("streams", "--json", code=0).rows
    assert [list(row) for row in rows] == [PARTITION] * 4
    assert {name: sum(row[name] for row in rows) for name in ("streams", "events", "behind", "feed", "due")} == {
        "streams": 4,
        "events": 7,
        "behind": 7,
        "feed": 7,
        "due": 1,
    }
    assert [row["groups"] for row in rows] == [[], [], [], []]
    assert "4 streams, 7 events" in ledger("streams", code=0).err


def test_streams_can_be_told_one_by_one(ledger: CommandLine) -> None:
    fill(ledger)
    ledger("rebuild", code=0)
    rows = ledger("streams", "--each", "--json", code=0).rows
    assert all(row["bytes"] > 0 for row in rows)
    assert [(row["stream"], row["events"], row["behind"]) for row in rows] == [
        (RULES_OF_ALL.name, 1, 0),
        ("project:shop", 1, 0),
        ("session:ses_1", 3, 0),
        ("session:ses_2", 2, 0),
    ]
    assert "session:ses_2" in ledger("streams", "--each", code=0).out


async def sessions(url: str, count: int) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        for number in range(count):
            await ledger.session(f"ses_{number:02}")


def test_streams_come_page_by_page_each_once(ledger: CommandLine) -> None:
    asyncio.run(sessions(ledger.url, 30))
    found: list[str] = []
    words: tuple[str, ...] = ()
    pages = 0
    while True:
        ran = ledger("streams", "--each", "--limit", "5", *words, "--json", code=0)
        found += [row["stream"] for row in ran.rows]
        pages += 1
        if not ran.err:
            break
        words = ("--cursor", json.loads(ran.err)["cursor"])
    assert sorted(set(found)) == [RULES_OF_ALL.name, *(f"session:ses_{number:02}" for number in range(30))]
    assert pages > 1
    assert (
        "more: `permission-ledger streams --each --cursor " in ledger("streams", "--each", "--limit", "1", code=0).err
    )
    assert "is not a cursor" in ledger("streams", "--each", "--cursor", "nonsense", code=12).err
    assert ledger("streams", "--cursor", "1", code=2).err


@pytest.mark.slow
def test_a_projector_shows_as_a_group_that_owes_nothing(ledger: CommandLine) -> None:
    fill(ledger)
    with ledger.started("worker", "projector"):

        def caught_up() -> bool:
            rows = ledger("streams", "--json", code=0).rows
            groups = [group for row in rows for group in row["groups"]]
            known = [{"name": PROJECTORS, "consumers": 1, "lag": 0, "pel": 0}] * 4
            return groups == known and sum(row["behind"] for row in rows) == 0

        wait_until(caught_up, "the projector to have caught up")


def test_all_is_well_on_a_server_as_it_should_be(ledger: CommandLine) -> None:
    fill(ledger)
    rows = ledger("doctor", "--json", code=0).rows
    assert [list(row) for row in rows] == [FINDING] * len(rows)
    assert [row["check"] for row in rows] == [
        "server",
        "access",
        "durability",
        "disk",
        "memory",
        "replication",
        "clock",
        "history",
        "partitions",
        "streams",
        "rules",
        "projector",
        "expiry",
        "deadlines",
        "freeze",
        "tokens",
        "trust",
    ]
    assert {row["ok"] for row in rows} == {True}
    assert ledger("doctor", "--deep", code=0).err == "17 checks: all is well\n"


def test_a_server_that_would_lose_data_is_named(server_without_file: CommandLine) -> None:
    found = findings(server_without_file, code=11)
    assert (found["durability"]["ok"], found["durability"]["hint"]) == (
        False,
        "set appendonly yes and appendfsync always",
    )


def test_a_server_that_evicts_is_refused_by_all_and_named_by_the_doctor(start_server: StartServer) -> None:
    evicting = CommandLine(start_server(options={"maxmemory-policy": "allkeys-lru"}).url)
    assert evicting("pending").code == 12
    found = findings(evicting, code=11)
    assert "evicts any key" in found["server"]["text"]


def test_nobody_there_is_exit_8(tmp_path: Path) -> None:
    assert CommandLine(f"unix://{tmp_path}/nobody.sock")("doctor").code == 8


def test_damaged_streams_are_named(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    (key,) = names(client, "*}:s:ses_1")
    client.xdel(key, entries(client, key)[1][0])
    found = findings(ledger, code=11)
    assert (found["streams"]["ok"], found["streams"]["text"]) == (False, "1 of 4 are damaged: session:ses_1")


def test_a_deadline_that_nobody_kept_is_named(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    (key,) = names(client, "*}:due")
    client.zadd(key, {"ses_2": int(time.time() * 1000) - 90_000})
    found = findings(ledger, code=11)
    assert found["expiry"]["ok"] is False
    assert "session ses_2 has a deadline that passed 9" in found["expiry"]["text"]


def test_views_that_were_left_behind_are_named(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    ledger("rebuild", code=0)
    (key,) = names(client, "*}:s:ses_2")
    assert "lack 0 events" in findings(ledger)["projector"]["text"]
    first, _ = entries(client, key)[0]
    (checkpoints,) = [one for one in names(client, "*:view:*:checkpoints") if client.hexists(one, "session:ses_2")]
    client.hset(checkpoints, "session:ses_2", first)
    assert "lack 1 events" in findings(ledger)["projector"]["text"]


async def test_an_event_that_no_view_has_after_a_minute_is_not_well(clock: TestClock) -> None:
    async with Ledger.connect("memory://", clock=clock, entry_points=False) as ledger:
        session = await ledger.session("ses_1")

        async def projector() -> HealthFinding:
            found = await check_deployment(ledger.store, deep=False)
            return next(one for one in found if one.check == "projector")

        assert (await projector()).text.startswith("no projector has run yet")
        for key in (RULES_OF_ALL, StreamKey("session", "ses_1")):
            await Engine(ledger.store).catch_up(key)
        await session.submit("bash", ["x"])
        clock.advance("60s")
        assert (await projector()).ok
        clock.advance("1s")
        assert await projector() == HealthFinding(
            "projector",
            False,
            "the views lack 1 events of 1 streams, the oldest 61 s old",
            "start `permission-ledger worker projector`; if it runs, see what it warns of",
        )


@pytest.mark.parametrize(
    ("changed", "check", "words"),
    [
        ({"aof_enabled": "0"}, "durability", "no append-only file"),
        ({"config_appendfsync": "everysec"}, "durability", "everysec: acknowledged events are lost"),
        ({"config_appendfsync": "no"}, "durability", "no: acknowledged events are lost"),
        ({"aof_last_write_status": "err"}, "disk", "aof_last_write_status"),
        ({"maxmemory_policy": "volatile-ttl"}, "memory", "volatile-ttl"),
        ({"maxmemory": "100", "used_memory": "95"}, "memory", "95 of 100 bytes"),
        ({"role": "slave"}, "replication", "is a replica"),
        ({"connected_slaves": "2"}, "replication", "replicas: 2; a failover may lose a grant"),
        (
            {"connected_slaves": "2", "config_min-replicas-to-write": "0"},
            "replication",
            "a primary that is cut off goes on taking writes that will be lost",
        ),
    ],
)
def test_each_setting_that_would_lose_data_is_found(changed: dict[str, str], check: str, words: str) -> None:
    bad = [one for one in check_server_facts({**WELL, **changed}, 0, Durability()) if not one.ok]
    assert [one.check for one in bad] == [check]
    assert words in bad[0].text
    assert bad[0].hint


@pytest.mark.parametrize(
    ("durability", "changed", "found"),
    [
        (
            Durability(wait_replicas=1),
            {"connected_slaves": "1", "config_min-replicas-to-write": "1"},
            (True, "replicas: 1; a grant or an allow counts when 1 of them have it", None),
        ),
        (
            Durability(wait_replicas=2),
            {"connected_slaves": "1", "config_min-replicas-to-write": "0"},
            (
                False,
                "replicas: 1; grants and allows wait for 2, so each is in doubt; a primary that is cut off goes on taking writes that will be lost",
                "start more replicas; set min-replicas-to-write 1",
            ),
        ),
    ],
)
def test_what_is_demanded_is_held_against_what_there_is(
    durability: Durability, changed: dict[str, str], found: tuple[bool, str, str | None]
) -> None:
    (one,) = [one for one in check_server_facts({**WELL, **changed}, 0, durability) if one.check == "replication"]
    assert (one.ok, one.text, one.hint) == found


def test_where_the_setting_cannot_be_read_it_is_said_what_to_see_to() -> None:
    facts = {name: value for name, value in WELL.items() if name != "config_appendfsync"}
    (one,) = [one for one in check_server_facts(facts, 0, Durability()) if one.check == "durability"]
    assert (one.ok, one.hint) == (True, "see that it says `appendfsync always`; `everysec` loses events")


def test_a_file_that_is_synced_now_and_then_is_enough_where_grants_wait_for_the_disk() -> None:
    facts = {**WELL, "config_appendfsync": "everysec"}
    assert all(one.ok for one in check_server_facts(facts, 0, Durability(wait_aof=True)))


def test_a_clock_that_was_set_back_is_named(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    seconds, _ = client.time()
    (feed,) = [one for one in names(client, "*}:feed") if entries(client, one)[-1][1][b"s"] == b"session:ses_2"]
    client.xadd(feed, {"s": "session:ses_2", "v": 2}, id=f"{(seconds + 3600) * 1000}-0")
    found = findings(ledger, code=11)["clock"]
    assert (found["ok"], found["text"].partition(": it is 3")[0]) == (False, "the server's clock was set back")
    assert "deadlines and the ends of grants" in found["hint"]


def test_the_doctor_looks_at_what_the_url_demands(start_server: StartServer) -> None:
    found = findings(CommandLine(f"{start_server().url}?wait_replicas=1"), code=11)
    assert found["replication"]["hint"] == "start more replicas"


@pytest.mark.parametrize(("skew_ms", "ok"), [(0, True), (-5000, True), (5001, False), (-60_000, False)])
def test_clocks_that_differ_are_told(skew_ms: int, ok: bool) -> None:
    (clock,) = [one for one in check_server_facts(WELL, skew_ms, Durability()) if one.check == "clock"]
    assert clock.ok is ok
    assert f"{abs(skew_ms)} ms" in clock.text


def test_a_server_that_hides_its_settings_is_not_blamed() -> None:
    facts = {name: value for name, value in WELL.items() if not name.startswith("config_")}
    assert all(one.ok for one in check_server_facts(facts, 0, Durability()))

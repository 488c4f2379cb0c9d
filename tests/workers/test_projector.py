"""Projectors as real processes on a real server: killed, racing, lagging, and taking over unfinished work."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

import pytest

from ledger import DamageError, Ledger
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.port import StreamKey
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import append_to
from projections import queries
from projections.engine import Engine
from tests.projections import whole_views
from tests.projections.looking import RULES, differences
from tests.support.backends import PARTITION_COUNT, append_of, as_redis, log_of
from tests.support.processes import next_line, python
from tests.support.servers import RealServer
from tests.support.store_calls import drop_all_views
from tests.support.waiting import wait_until_async
from workers.projector import GROUP

if TYPE_CHECKING:
    from tests.support.servers import StartServer

SES_1 = StreamKey("session", "ses_1")
SHOP = StreamKey("project", "shop")

PROJECTOR = """
import asyncio, logging, signal, sys
from ledger import Ledger
from workers.projector import Pace, run

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Ledger.connect(sys.argv[1], entry_points=False) as ledger:
        feed, claim, scan = map(float, sys.argv[2:])
        await run(ledger, stop, Pace(feed_seconds=feed, claim_idle_seconds=claim, scan_seconds=scan))
    print("ended")

logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
asyncio.run(main())
"""

NEVER = 3600.0


class Projectors:
    """Starts projectors that look by themselves as often as a test wants."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._url = url
        self._stack = stack

    def __call__(self, *, feed: float = NEVER, claim: float = NEVER, scan: float = NEVER) -> subprocess.Popen[str]:
        started: AbstractContextManager[subprocess.Popen[str]] = python(
            PROJECTOR, self._url, str(feed), str(claim), str(scan)
        )
        process = self._stack.enter_context(started)
        # Before the block is left, which waits for the process to end by itself.
        self._stack.callback(process.kill)
        line_with(process, f"projector: {PARTITION_COUNT} partitions, consumer group {GROUP}, consumer ")
        return process


@pytest.fixture
def projector(server: RealServer) -> Iterator[Projectors]:
    with ExitStack() as stack:
        yield Projectors(server.url, stack)


@pytest.fixture
async def ledger(server: RealServer) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield ledger


@pytest.fixture
async def store(ledger: Ledger) -> RedisStore:
    return as_redis(ledger.store)


async def as_of(ledger: Ledger, key: StreamKey, version: int) -> None:
    """Wait until the views are as of a version."""

    async def reached() -> bool:
        return (await whole_views.versions(ledger.store)).get(key.name) == version

    await wait_until_async(reached, f"the views of {key.name} to be as of version {version}")


async def consumer_counts(ledger: Ledger) -> list[int]:
    """Return how many projectors each group of a feed knows."""
    return [group.consumer_count for one in await ledger.store.feeds() for group in one.groups]


def line_with(process: subprocess.Popen[str], text: str) -> str:
    """The next line that the projector says with this in it."""
    while text not in (line := next_line(process)):
        pass
    return line


async def test_the_views_follow_what_happens(ledger: Ledger, projector: Projectors) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    projector(feed=0.5)
    await as_of(ledger, SES_1, 1)
    for number in range(5):
        await session.submit("read", [f"{number}"])
        await as_of(ledger, SES_1, 2 + number)
    assert (await queries.totals(ledger.store)).decisions["auto_allow"] == 5
    assert await differences(ledger.store) == []


async def test_lines_are_acknowledged_when_the_views_have_changed(ledger: Ledger, projector: Projectors) -> None:
    projector(feed=0.2)
    await ledger.session("ses_1")
    await as_of(ledger, SES_1, 1)

    async def all_done() -> bool:
        groups = [group for one in await ledger.store.feeds() for group in one.groups]
        return bool(groups) and await ledger.store.unacknowledged(GROUP, {}, 1) == []

    await wait_until_async(all_done, "no line to be owed")


@pytest.mark.slow
async def test_one_that_was_killed_goes_on_where_it_was(ledger: Ledger, projector: Projectors) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    first = projector(feed=0.2)
    await as_of(ledger, SES_1, 1)
    first.kill()
    first.wait()
    for number in range(20):
        await session.submit("read", [f"{number}"])
    assert (await whole_views.versions(ledger.store))["session:ses_1"] == 1
    projector(feed=0.2)
    await as_of(ledger, SES_1, 21)
    assert await differences(ledger.store) == []


@pytest.mark.slow
async def test_killed_again_and_again_under_load_every_event_counts_once(ledger: Ledger, projector: Projectors) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    other = projector(feed=0.2, claim=0.3)
    for round_ in range(3):
        doomed = projector(feed=0.1, claim=0.3)
        for number in range(60):
            await session.submit("read", [f"{round_} {number}"])
            if number == 40:
                doomed.kill()
        doomed.wait()
    await as_of(ledger, SES_1, 181)
    assert other.poll() is None
    assert (await queries.totals(ledger.store)).decisions["auto_allow"] == 180
    assert await differences(ledger.store) == []


async def test_two_at_once_do_each_event_once(ledger: Ledger, projector: Projectors) -> None:
    sessions = [await ledger.session(f"ses_{number}", rules=RULES) for number in range(12)]
    for _ in range(2):
        projector(feed=0.2)
    for number in range(10):
        for session in sessions:
            await session.submit("read", [f"{number}"])
    for session in sessions:
        await as_of(ledger, StreamKey("session", session.id), 11)
    assert (await queries.totals(ledger.store)).decisions["auto_allow"] == 120
    assert await differences(ledger.store) == []


async def test_the_lines_of_a_dead_one_are_taken_over(ledger: Ledger, store: RedisStore, projector: Projectors) -> None:
    session = await ledger.session("ses_1")
    living = projector(feed=0.2, claim=0.5)
    await as_of(ledger, SES_1, 1)
    living.send_signal(signal.SIGSTOP)
    await session.submit("bash", ["x"])
    taken = (await store.read_feed(range(PARTITION_COUNT), GROUP, "dead", 100)).items
    assert (SES_1, 2) in [(line.key, line.version) for line in taken]
    living.send_signal(signal.SIGCONT)
    line_with(living, f"took over {len(taken)} lines")
    await as_of(ledger, SES_1, 2)

    async def nothing_owed() -> bool:
        return all(group.pel_count == 0 for one in await store.feeds() for group in one.groups)

    await wait_until_async(nothing_owed, "no line to be owed")


async def test_one_that_fell_behind_the_feed_finds_what_it_missed(
    ledger: Ledger, store: RedisStore, projector: Projectors
) -> None:
    own = SES_1.partition(store.partition_count)
    await ledger.session("ses_0")
    first = projector(feed=0.2)
    await as_of(ledger, StreamKey("session", "ses_0"), 1)
    await ledger.session("ses_1")
    await as_of(ledger, SES_1, 1)
    first.send_signal(signal.SIGSTOP)
    await (await ledger.attach("ses_1")).submit("bash", ["missed"])
    for _ in range(FEED_LENGTH_COUNT + 5):
        await store.command(
            "XADD", store.keys.feed(own), "MAXLEN", "=", FEED_LENGTH_COUNT, "*", "s", "session:ses_0", "v", 1
        )
    first.send_signal(signal.SIGCONT)
    await as_of(ledger, SES_1, 2)
    line_with(first, "fell behind the feeds of 1 partitions")


async def test_a_scan_finds_what_no_hint_tells_of(ledger: Ledger, store: RedisStore, projector: Projectors) -> None:
    projector(scan=0.3)
    await ledger.session("ses_1")
    for partition in range(PARTITION_COUNT):
        await store.command("DEL", store.keys.feed(partition))
        await drop_all_views(store, partition)
    await as_of(ledger, SES_1, 1)


async def reply_without_its_grant(ledger: Ledger, store: RedisStore) -> None:
    """Leave the streams as a process does that dies between its writes to the session's stream and the project's."""
    session = await ledger.session("ses_1", project="shop")
    await session.submit("bash", ["git push"], always=["git *"], request_id="r1")
    await session.reply("r1", "always", actor="ann")
    await store.command("DEL", store.keys.stream(SHOP))


async def test_a_project_grant_that_its_reply_did_not_get_to_write_is_written(
    ledger: Ledger, store: RedisStore, projector: Projectors, server: RealServer
) -> None:
    await reply_without_its_grant(ledger, store)
    projector(feed=0.2)
    await as_of(ledger, SHOP, 1)
    async with Ledger.connect(server.url, entry_points=False) as other:
        (approved,) = await other.approved_in_project("shop")
    assert (approved.grant.pattern, approved.grant.by.name, approved.grant.request_id) == ("git *", "ann", "r1")


async def test_a_project_grant_releases_what_waits_though_its_maker_died(
    ledger: Ledger, store: RedisStore, projector: Projectors
) -> None:
    waiting = await ledger.session("ses_2", project="shop", cascade_always="project")
    await waiting.submit("bash", ["git pull"], request_id="w1")
    bystander = await ledger.session("ses_3", project="shop")
    await bystander.submit("bash", ["git pull"], request_id="w2")
    await reply_without_its_grant(ledger, store)
    projector(feed=0.2)

    async def released() -> bool:
        return (await waiting.result("w1")).outcome == "allowed"

    await wait_until_async(released, "w1 to be released")
    assert (await bystander.result("w2")).outcome is None


async def test_a_damaged_stream_is_told_of_once_and_stops_nothing(
    ledger: Ledger, store: RedisStore, projector: Projectors
) -> None:
    await ledger.session("ses_bad")
    bad = StreamKey("session", "ses_bad")
    entries = await log_of(store, bad)
    await append_to(store, append_of(b"junk", key=bad, after=entries[-1].position))
    with pytest.raises(DamageError):
        await Engine(store).catch_up(bad)
    process = projector(feed=0.2, scan=0.3)
    line = line_with(process, "skipped")
    assert "`session:ses_bad` version 2" in line
    session = await ledger.session("ses_1")
    await as_of(ledger, SES_1, 1)
    await session.submit("bash", ["x"])
    await as_of(ledger, SES_1, 2)
    process.terminate()
    assert process.stdout
    assert "skipped" not in process.stdout.read()


async def test_sigterm_ends_it_cleanly_and_its_name_is_gone(ledger: Ledger, projector: Projectors) -> None:
    await ledger.session("ses_1")
    process = projector(feed=0.2)
    await as_of(ledger, SES_1, 1)

    async def is_named() -> bool:
        return await consumer_counts(ledger) == [1]

    # The views are up before the group is made: they are found by a scan, which comes first.
    await wait_until_async(is_named, "the projector's name to stand in its group")
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-2:] == ["projector: stopped, 2 events projected", "ended"]
    assert await consumer_counts(ledger) == [0]


async def test_views_of_a_history_that_the_server_lost_are_built_anew(
    ledger: Ledger, store: RedisStore, projector: Projectors
) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    for number in range(5):
        await session.submit("read", [f"{number}"])
    process = projector(feed=0.2, scan=0.5)
    await as_of(ledger, SES_1, 6)
    kept = (await log_of(store, SES_1))[:3]
    await store.command("DEL", store.keys.stream(SES_1))
    assert await store.restore(SES_1, append_of().after, kept, None)
    await as_of(ledger, SES_1, 3)
    line_with(process, "are rebuilt")
    assert (await queries.totals(ledger.store)).decisions["auto_allow"] == 2
    assert await differences(ledger.store) == []


async def test_a_server_that_was_away_is_waited_for(start_server: StartServer) -> None:
    server = start_server()
    with ExitStack() as stack:
        async with Ledger.connect(server.url, partitions=PARTITION_COUNT, entry_points=False) as ledger:
            session = await ledger.session("ses_1", rules=RULES)
            process = Projectors(server.url, stack)(feed=0.3)
            await as_of(ledger, SES_1, 1)
            server.kill9()
            server.start()
            await session.submit("read", ["after"])
            await as_of(ledger, SES_1, 2)
            assert process.poll() is None
            assert await differences(ledger.store) == []

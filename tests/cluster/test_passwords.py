"""Servers that require a password, or a user with the ledger's minimal rights: one, behind sentinels, and a cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest
import redis

from ledger import Durability, Ledger, SetupError
from tests.cluster.conftest import OpenLedger
from tests.house.sources import text_of
from tests.support.askers import ASK
from tests.support.clusters import FAILOVER_S, Cluster, Sentinels
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until_async

if TYPE_CHECKING:
    from tests.support.servers import RealServer, StartServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

PASSWORD: Final = "p@ss/w:rd?#"
SENTINELS_PASSWORD: Final = "other%pass"
LOCKED: Final = {"requirepass": PASSWORD, "masterauth": PASSWORD}
SAFE: Final = Durability(wait_replicas=1, wait_ms=2000)


def least_rights() -> list[str]:
    """Return the ACL rules of the user that the guide tells operators to create."""
    found = re.search(r"^ACL SETUSER ledger on >PASSWORD (.+)$", text_of("docs/guides/operating.md"), re.MULTILINE)
    assert found
    return found[1].split()


def with_password(url: str, password: str = PASSWORD, user: str = "", query: str = "") -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user}:{quote(password, safe='')}@{rest}{query}"


@pytest.fixture(scope="module")
def locked_cluster() -> Iterator[Cluster]:
    cluster = Cluster(LOCKED)
    try:
        cluster.start()
        for node in cluster.nodes:
            node.run("ACL", "SETUSER", "ledger", "on", f">{PASSWORD}", *least_rights())
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="module")
def locked_sentinels() -> Iterator[Sentinels]:
    sentinels = Sentinels(LOCKED, SENTINELS_PASSWORD)
    try:
        sentinels.start()
        yield sentinels
    finally:
        sentinels.remove()


@pytest.fixture
def locked_server(start_server: StartServer) -> RealServer:
    server = start_server()
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "ledger", "on", f">{PASSWORD}", *least_rights())
        client.execute_command("ACL", "SETUSER", "default", "off")
    return server


async def is_asked_and_answered(asker: Ledger, approver: Ledger) -> None:
    """Check all rights that a wake-up, a wait for replicas and a project's stream need."""
    session = await asker.session("ses_1", project="shop", rules=ASK)
    await session.submit("bash", ["make"], always=["make *"], request_id="r")
    waiter = asyncio.create_task(session.wait("r"))
    await wait_until_async(lambda: session.stream.observed, "the waiter")
    await (await approver.attach("ses_1")).reply("r", "always", actor="ann")
    async with asyncio.timeout(FAILOVER_S):
        assert (await waiter).outcome == "allowed"
    assert [one.grant.pattern for one in await approver.approved_in_project("shop")] == ["make *"]


@pytest.mark.parametrize("user", ["", "ledger"])
async def test_a_cluster_with_passwords_is_asked_and_answered_on(
    locked_cluster: Cluster, open_ledger: OpenLedger, user: str
) -> None:
    locked_cluster.flush()
    url = with_password(locked_cluster.url, user=user)
    await is_asked_and_answered(await open_ledger(url, SAFE), await open_ledger(url))


@pytest.mark.parametrize(
    ("password", "said"),
    [
        (None, "the server wants a password; put it into the URL"),
        ("wrong", "the server does not take this user name or password"),
    ],
)
async def test_a_cluster_that_wants_another_password_is_refused_at_once(
    locked_cluster: Cluster, open_ledger: OpenLedger, password: str | None, said: str
) -> None:
    url = locked_cluster.url if password is None else with_password(locked_cluster.url, password)
    async with asyncio.timeout(60):
        with pytest.raises(SetupError, match=said):
            await open_ledger(url)


async def test_servers_and_sentinels_have_passwords_of_their_own_and_fail_over(
    locked_sentinels: Sentinels, open_ledger: OpenLedger
) -> None:
    url = with_password(locked_sentinels.url, query=f"?sentinel_password={quote(SENTINELS_PASSWORD, safe='')}")
    asker, approver = await open_ledger(url, SAFE), await open_ledger(url)
    await is_asked_and_answered(asker, approver)
    await asyncio.to_thread(locked_sentinels.wait_until_in_step)
    await asyncio.to_thread(locked_sentinels.fail_over)
    session = await approver.attach("ses_1")
    assert (await session.ask("bash", ["make x"], request_id="after")).outcome == "allowed"


def test_a_user_with_the_least_rights_can_do_all_that_commands_and_workers_do(
    locked_server: RealServer, tmp_path: Path
) -> None:
    ledger = CommandLine(with_password(locked_server.url, user="ledger"))
    asked: list[tuple[Any, ...]] = [
        ("ask", "ses_1", "bash", "make", "--id", "r", "--always", "make *", "--project", "shop", "--no-wait"),
        ("reply", "r", "always"),
        ("ask", "ses_1", "bash", "rm", "--id", "r2", "--unattended", "1s"),
    ]
    expected = [7, 0, 5]
    with ledger.started("worker", "expiry"), ledger.started("worker", "projector"):
        assert [ledger(*words).code for words in asked] == expected
    for words in (
        ("pending",),
        ("approved", "--project", "shop"),
        ("sessions",),
        ("show", "ses_1"),
        ("log", "ses_1"),
        ("replay", "ses_1", "--speed", "0"),
        ("rebuild",),
        ("rebuild", "--verify"),
        ("verify", "--all"),
        ("streams",),
        ("doctor", "--deep"),
        ("export", "--all", "--out", tmp_path / "all.jsonl"),
        ("import", tmp_path / "all.jsonl"),
        ("close", "ses_1"),
    ):
        ledger(*words, code=0)
    with redis.Redis.from_url(with_password(locked_server.url, user="ledger")) as client:
        for forbidden in (
            ("FLUSHALL",),
            ("CONFIG", "SET", "appendonly", "no"),
            ("GET", "somebody-elses"),
            ("KEYS", "*"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*forbidden)

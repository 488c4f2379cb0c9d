"""A failover loses the end of a project's stream: the grants that replies had made come back, and nothing else does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from ledger import Ledger
from ledger.core.events import LogRegressed
from ledger.log.archive.archive import all_streams
from ledger.log.tail import read_events
from ledger.stores.port import StreamKey
from tests.support.backends import PARTITION_COUNT, Operator, as_redis
from workers.projector import CatchingUp

if TYPE_CHECKING:
    from tests.support.servers import RealServer

SHOP = StreamKey("project", "shop")


@pytest.fixture
async def ledger(server: RealServer) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield ledger


@pytest.fixture
async def projecting(server: RealServer) -> AsyncIterator[CatchingUp]:
    """The catching-up of a projector, in a process that knew nothing of the project before."""
    async with Ledger.connect(server.url, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield CatchingUp(ledger)


async def approve(ledger: Ledger, session: str, pattern: str, project: str = "shop") -> None:
    handle = await ledger.session(session, project=project)
    await handle.submit("bash", ["x"], always=[pattern], request_id=f"r-{session}")
    await handle.reply(f"r-{session}", "always", actor="ann")


async def project_all(ledger: Ledger, projecting: CatchingUp) -> None:
    await projecting.catch_up_all([key async for key in all_streams(ledger.store)])


async def approved(ledger: Ledger) -> list[str]:
    return sorted(one.grant.pattern for one in await ledger.approved_in_project("shop"))


async def test_what_replies_granted_is_granted_again(ledger: Ledger, admin: Operator, projecting: CatchingUp) -> None:
    await approve(ledger, "ses_1", "git *")
    key = as_redis(ledger.store).keys.stream(SHOP)
    kept = await admin.run("DUMP", key)
    await approve(ledger, "ses_2", "make *")
    await approve(ledger, "ses_3", "npm *", project="other")
    await ledger.grant_in_project("shop", "bash", "curl *", actor="ann")
    await project_all(ledger, projecting)

    await admin.run("RESTORE", key, 0, kept, "REPLACE")
    # Whoever had seen more notices, and records it.
    assert await approved(ledger) == ["git *"]
    assert isinstance([one.event async for one in read_events(ledger.store, SHOP)][-1], LogRegressed)
    await project_all(ledger, projecting)
    # What nobody's reply tells of is not made up.
    assert await approved(ledger) == ["git *", "make *"]
    repaired = await ledger.store.info(SHOP)
    await project_all(ledger, projecting)
    assert await ledger.store.info(SHOP) == repaired, "a repair is not repeated"


async def test_uses_that_were_lost_are_taken_again(ledger: Ledger, admin: Operator, projecting: CatchingUp) -> None:
    made = await ledger.grant_in_project("shop", "bash", "git *", uses=2, actor="ann")
    session = await ledger.session("ses_1", project="shop")
    key = as_redis(ledger.store).keys.stream(SHOP)
    kept = await admin.run("DUMP", key)
    assert (await session.submit("bash", ["git push"], request_id="r1")).allowed
    await project_all(ledger, projecting)
    await admin.run("RESTORE", key, 0, kept, "REPLACE")
    await approved(ledger)
    await project_all(ledger, projecting)
    (standing,) = await ledger.approved_in_project("shop")
    assert (standing.grant.grant_id, standing.grant.uses_left) == (made.grant.grant_id, 1)


async def test_a_lost_grant_comes_back_with_its_bounds(ledger: Ledger, admin: Operator, projecting: CatchingUp) -> None:
    await approve(ledger, "ses_1", "git *")
    key = as_redis(ledger.store).keys.stream(SHOP)
    kept = await admin.run("DUMP", key)
    handle = await ledger.session("ses_2", project="shop")
    await handle.submit("bash", ["make"], always=["make *"], request_id="r2")
    await handle.reply("r2", "always", actor="ann", uses=3, expires_in_ms=3_600_000, patterns=["m*"])
    before = {one.grant.pattern: one.grant for one in await ledger.approved_in_project("shop")}["m*"]
    await project_all(ledger, projecting)
    await admin.run("RESTORE", key, 0, kept, "REPLACE")
    assert await approved(ledger) == ["git *"]
    await project_all(ledger, projecting)
    after = {one.grant.pattern: one.grant for one in await ledger.approved_in_project("shop")}["m*"]
    assert (after.uses, after.wider) == (3, True)
    assert after.expires_ms is not None
    assert before.expires_ms is not None
    assert abs(after.expires_ms - before.expires_ms) < 1000, "it ends when the answer said"


async def test_a_revoked_grant_stays_revoked(ledger: Ledger, admin: Operator, projecting: CatchingUp) -> None:
    await approve(ledger, "ses_1", "git *")
    (granted,) = await ledger.approved_in_project("shop")
    await ledger.revoke(granted.grant.grant_id)
    key = as_redis(ledger.store).keys.stream(SHOP)
    kept = await admin.run("DUMP", key)
    await approve(ledger, "ses_2", "make *")
    await project_all(ledger, projecting)
    await admin.run("RESTORE", key, 0, kept, "REPLACE")
    assert await approved(ledger) == []
    await project_all(ledger, projecting)
    assert await approved(ledger) == ["make *"]

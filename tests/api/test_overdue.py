"""A request that its deadline has ended is not pending, also while no expiry worker has recorded that."""

from __future__ import annotations

from ledger import Ledger, Timeouts
from ledger.testing import TestClock

SHORT = Timeouts(attended=1, unattended=60)


async def listed(ledger: Ledger) -> list[list[str]]:
    """Return the ids that each list of pending requests has."""
    pages = [one async for page in ledger.pending_pages() for one in page.items]
    known = await ledger.lookups.requests_beginning("call_")
    ways = (await ledger.pending(), await ledger.pending("ses_1"), pages)
    return [
        *([one.request.request_id for one in way] for way in ways),
        [one.request_id for one in known if one.request_id in one.state.pending],
    ]


async def test_a_request_past_its_deadline_is_not_listed(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", timeouts=SHORT)
    await session.submit("bash", ["git push"], request_id="call_1")
    clock.advance("30s")
    await session.submit("bash", ["make"], request_id="call_2")
    version = session.stream.position.version
    clock.advance("31s")
    assert await listed(ledger) == [["call_2"]] * 4
    clock.advance("30s")
    assert await listed(ledger) == [[]] * 4
    assert session.stream.position.version == version, "a list writes nothing"
    assert (await session.result("call_1")).outcome is None


async def test_a_request_that_its_deadline_only_moves_is_listed(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", timeouts=SHORT)
    async with await session.connect("phone", actor="ann"):
        await session.submit("bash", ["git push"], request_id="call_1")
    clock.advance("1500ms")
    assert await listed(ledger) == [["call_1"]] * 4
    (found,) = await ledger.pending()
    assert (found.request.tier, found.request.deadline_ms) == ("unattended", ledger.store.clock.now_ms() + 60_000)


async def test_a_request_past_its_deadline_while_somebody_is_connected_is_not_listed(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1", timeouts=SHORT)
    async with await session.connect("phone", actor="ann"):
        await session.submit("bash", ["git push"], request_id="call_1")
        clock.advance("1500ms")
        assert await listed(ledger) == [[]] * 4

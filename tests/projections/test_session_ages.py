"""A walk over all sessions that passes over none, with any projector or none."""

from __future__ import annotations

from ledger import Ledger
from ledger.testing import TestClock
from projections.session_list import oldest_first
from projections.sessions import Latest
from tests.support.projecting import project_as_a_worker


async def opened(ledger: Ledger, clock: TestClock, *names: str) -> None:
    for name in names:
        await ledger.session(name)
        clock.advance("1s")


async def walked(ledger: Ledger, count: int, after: Latest | None = None) -> list[str]:
    return [one.session async for page in oldest_first(ledger.store, after, count) for one in page]


async def test_the_session_that_rests_longest_comes_first(ledger: Ledger, clock: TestClock) -> None:
    await opened(ledger, clock, "ses_1", "ses_2", "ses_3", "ses_4")
    for _ in range(2):
        for count in (1, 3, 10):
            assert await walked(ledger, count) == ["ses_1", "ses_2", "ses_3", "ses_4"]
        await project_as_a_worker(ledger)
    await (await ledger.attach("ses_2")).submit("bash", ["x"])
    clock.advance("1s")
    await opened(ledger, clock, "ses_5")
    for count in (1, 3, 10):
        assert await walked(ledger, count) == ["ses_1", "ses_3", "ses_4", "ses_2", "ses_5"]


async def test_a_session_that_goes_on_meanwhile_is_not_passed_over(ledger: Ledger, clock: TestClock) -> None:
    await opened(ledger, clock, "ses_1", "ses_2", "ses_3")
    await project_as_a_worker(ledger)
    pages = oldest_first(ledger.store, None, 1)
    seen = [one.session for one in await anext(pages)]
    for name in ("ses_1", "ses_3"):
        await (await ledger.attach(name)).submit("bash", ["x"])
        clock.advance("1s")
    await project_as_a_worker(ledger)
    seen += [one.session async for page in pages for one in page]
    assert seen == ["ses_1", "ses_2", "ses_1", "ses_3"]


async def test_a_walk_goes_on_after_a_place(ledger: Ledger, clock: TestClock) -> None:
    await opened(ledger, clock, "ses_1", "ses_2", "ses_3")
    for _ in range(2):
        (first, *_rest), *_more = [page async for page in oldest_first(ledger.store, None, 3)]
        assert await walked(ledger, 1, first) == ["ses_2", "ses_3"]
        await project_as_a_worker(ledger)

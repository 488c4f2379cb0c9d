"""Commands about one request look it up: none of them walks over all that is pending, or over all that was settled."""

from __future__ import annotations

from copy import copy
from typing import Any, Final, NoReturn

import pytest

from ledger import Ledger
from ledger.core.packed_records import PackedRecords
from ledger.core.questions import Runner
from ledger.session.state import PendingRequests
from tests.support.commands import asks, cancels, claims, finishes_tool, opens, releases_claim, replies
from tests.support.scenario import Scenario, Step, given, later

PENDING: Final = 40
SETTLED: Final = 200
RULES: Final = {"bash": "ask", "read": "allow"}
RUNNER: Final = Runner("hook", "1")
READ: Final = asks("per_new", "notes.txt", permission="read")
NEW: Final = asks("per_new", "git push")
OLD: Final = asks("old_1", "ls")
CLAIMED: Final = asks("old_2", "ls")
WAITING: Final = asks("waiting_1", "npm run task1")

STEPS: Final[dict[str, Step]] = {
    "an ask that is allowed": READ,
    "an ask that waits": NEW,
    "the same ask again, pending": WAITING,
    "the same ask again, settled long ago": OLD,
    "a reply once": replies("waiting_1", "once"),
    "the same reply again": replies("old_1", "once"),
    "a cancel": cancels("waiting_1"),
    "a claim": claims(OLD, RUNNER),
    "a claim that is given back": releases_claim("old_2"),
    "the end of a run": finishes_tool("old_2"),
    "nothing that is due": later("1s"),
}


@pytest.fixture(scope="module")
def crowded() -> Scenario:
    """A session with many pending requests, and many settled ones."""
    scenario = given(opens(RULES))
    for number in range(SETTLED):
        scenario.given(asks(f"old_{number}", "ls"), replies(f"old_{number}", "once"))
    scenario.given(claims(CLAIMED, RUNNER))
    for number in range(PENDING):
        scenario.given(asks(f"waiting_{number}", f"npm run task{number}"))
    assert (len(scenario.state.pending), len(scenario.state.settled)) == (PENDING, SETTLED)
    return scenario


def beside(scenario: Scenario) -> Scenario:
    """Return a scenario that goes on from the same point."""
    other = copy(scenario)
    other.states, other.entries, other.records = list(other.states), list(other.entries), list(other.records)
    return other


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make every walk over pending or settled requests an error; the list has a line for each that was tried."""
    tried: list[str] = []

    def forbidden(name: str) -> Any:
        def walk(*_: object, **__: object) -> NoReturn:
            tried.append(name)
            raise AssertionError(f"a walk: {name}")

        return walk

    for of, names in ((PendingRequests, ("__iter__", "keys", "values", "items")), (PackedRecords, ("pairs", "newest"))):
        for name in names:
            monkeypatch.setattr(of, name, forbidden(f"{of.__name__}.{name}"))
    return tried


@pytest.mark.parametrize("what", STEPS)
def test_a_command_about_one_request_walks_over_no_others(crowded: Scenario, walks: list[str], what: str) -> None:
    before = crowded.state
    other = beside(crowded)
    other.given(STEPS[what])
    assert walks == []
    assert crowded.state is before


def test_a_reject_of_all_walks_over_what_it_ends(crowded: Scenario, walks: list[str]) -> None:
    with pytest.raises(AssertionError, match="a walk"):
        beside(crowded).given(replies("waiting_1", "reject"))
    assert walks == ["PendingRequests.values"]


async def test_nor_does_the_ledger_around_them(walks: list[str]) -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await ledger.session("ses_1", rules=[{"permission": "read", "pattern": "*", "action": "allow"}])
        for number in range(PENDING):
            await session.submit("bash", [f"npm run task{number}"], request_id=f"waiting_{number}")
        await session.submit("read", ["notes.txt"], request_id="read_1")
        await session.reply("waiting_1", "once", actor="ann")
        claim = await session.claim("waiting_1")
        await session.finish("waiting_1", claim.claim_id)
        await session.cancel("waiting_2", actor="agent")
        assert (await session.result("waiting_1")).outcome == "allowed"
        await ledger.reply("waiting_1", "once", actor="ann")
    assert walks == []

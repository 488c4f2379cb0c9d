"""Bounds of grants: the last use goes to one of all that want it, and what a grant let through can be shown."""

from __future__ import annotations

import asyncio

import pytest

from ledger import InputError, Ledger, NotCoveredError, Session, WiderError
from ledger.core.events import UseTaken
from ledger.log.judgements import judge_again
from ledger.log.tail import read_events
from ledger.project import TakeUse
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.api.actors import ANN, OpenLedger, pend

ALWAYS = ["git push *"]
SHOP = StreamKey("project", "shop")


async def outcomes(sessions: list[Session]) -> list[str | None]:
    results = await asyncio.gather(*(one.submit("bash", ["git push"], request_id="call_x") for one in sessions))
    return [result.outcome for result in results]


async def uses_taken(ledger: Ledger) -> list[UseTaken]:
    return [one.event async for one in read_events(ledger.store, SHOP) if isinstance(one.event, UseTaken)]


async def test_the_uses_of_a_projects_grant_are_shared_by_all_its_sessions(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    others = [ledger, await open_ledger(), await open_ledger()]
    sessions = [await others[number % 3].session(f"ses_{number}", project="shop") for number in range(12)]
    made = await ledger.grant_in_project("shop", "bash", "git *", uses=5)
    assert made.as_json()["uses_left"] == 5
    told = await outcomes(sessions)
    assert (told.count("allowed"), told.count(None)) == (5, 7)
    taken = await uses_taken(ledger)
    assert {one.session for one in taken} == {
        session.id for session, outcome in zip(sessions, told, strict=True) if outcome == "allowed"
    }
    assert await ledger.approved_in_project("shop") == []


async def test_a_use_counts_even_if_its_call_is_never_asked_and_the_call_itself_may_still_run(ledger: Ledger) -> None:
    """The process that took it died; the same request, asked again by another one, has it."""
    made = await ledger.grant_in_project("shop", "bash", "git *", uses=1)
    died, other = [await ledger.session(name, project="shop") for name in ("ses_1", "ses_2")]
    command = TakeUse(
        actor=ledger.actor(None, "agent"), grant_id=made.grant.grant_id, session="ses_1", request_id="call_x"
    )
    await ledger.streams.project("shop").submit(command)
    assert await outcomes([other]) == [None]
    assert await outcomes([died]) == ["allowed"]
    assert len(await uses_taken(ledger)) == 1


async def test_an_always_with_uses_releases_as_many_others_as_it_has_uses(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    for number in range(1, 5):
        await pend(session, f"call_{number}", "git push", always=ALWAYS)
    result = await session.reply("call_1", "always", actor=ANN, uses=2)
    assert result.message == "it is remembered for 2 more calls"
    assert [(await session.result(f"call_{number}")).outcome for number in range(1, 5)] == ["allowed"] * 3 + [None]
    assert len(await uses_taken(ledger)) == 2


async def test_a_grant_for_a_time_ends_and_one_with_uses_too(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push", always=ALWAYS)
    await session.reply("call_1", "always", expires_in_ms=60_000, uses=5)
    (made,) = [one.as_json() for one in await session.approved()]
    assert (made["uses"], made["uses_left"], made["last_used_at"]) == (5, 5, None)
    assert (await session.submit("bash", ["git push"])).allowed
    (used,) = [one.as_json() for one in await session.approved()]
    assert used["uses_left"] == 4
    assert used["last_used_at"] is not None
    clock.advance("60s")
    assert not (await session.submit("bash", ["git push"])).allowed


async def test_a_list_says_when_a_grant_without_a_limit_was_used_last(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await session.grant("bash", "git *")
    clock.advance("5s")
    asked = await session.submit("bash", ["git push"])
    (row,) = [one.as_json() for one in await session.approved()]
    assert (row["uses_left"], row["last_used_at"]) == (None, asked.at)


@pytest.mark.parametrize("uses", [9, None])
async def test_a_list_says_when_a_grant_of_a_project_was_used_last_by_any_of_its_sessions(
    ledger: Ledger, clock: TestClock, uses: int | None
) -> None:
    await ledger.grant_in_project("shop", "bash", "git *", uses=uses, grant_id="grn_1")
    await ledger.grant_in_project("shop", "bash", "make", uses=uses, grant_id="grn_2")
    used = []
    for session_id in ("ses_2", "ses_1"):
        clock.advance("5s")
        session = await ledger.session(session_id, project="shop")
        used.append((await session.submit("bash", ["git push"])).at)
    for rows in ((await ledger.grants_in_project("shop")).rows, (await ledger.grants_anywhere()).rows):
        told = {row["grant_id"]: row["last_used_at"] for row in (one.as_json() for one in rows)}
        assert told == {"grn_1": max(used), "grn_2": None}
    assert (await ledger.grants_in_project("bank")).rows == []


@pytest.mark.parametrize("uses", [1, None])
async def test_what_a_grant_let_through_is_shown_also_after_its_end(ledger: Ledger, uses: int | None) -> None:
    made = await ledger.grant_in_project("shop", "bash", "git *", uses=uses)
    session = await ledger.session("ses_1", project="shop")
    await session.submit("bash", ["git push"], request_id="call_1")
    await session.note_tool_finished(request_id="call_1")
    await session.submit("bash", ["make"], request_id="call_2")
    await (await ledger.session("ses_2")).submit("bash", ["git push"], request_id="call_3")
    await ledger.revoke(made.grant.grant_id)
    (use,) = (await ledger.uses_of(made.grant.grant_id)).rows
    assert (use.session, use.request_id, use.outcome, use.ran, use.what) == (
        "ses_1",
        "call_1",
        "allowed",
        True,
        "git push",
    )


async def test_an_edited_pattern_is_what_is_granted(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push origin", always=ALWAYS)
    result = await session.reply("call_1", "always", patterns=["git push origin *"])
    assert result.as_json()["bounds"]["patterns"] == ["git push origin *"]
    (made,) = [one.as_json() for one in await session.approved()]
    assert (made["pattern"], made.get("wider")) == ("git push origin *", None)


async def test_a_wider_pattern_is_for_who_may_grant_and_shown_as_such(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push origin", always=ALWAYS)
    with pytest.raises(WiderError):
        await session.reply("call_1", "always", patterns=["git *"], may_widen=False)
    with pytest.raises(NotCoveredError):
        await session.reply("call_1", "always", patterns=["npm *"])
    await session.reply("call_1", "always", patterns=["git *"])
    (made,) = [one.as_json() for one in await session.approved()]
    assert (made["pattern"], made["wider"]) == ("git *", True)


@pytest.mark.parametrize("given", [{"uses": 0}, {"uses": 1001}, {"expires_in_ms": 0}, {"patterns": []}])
async def test_bounds_out_of_range_are_refused_before_anything_is_written(
    ledger: Ledger, given: dict[str, object]
) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", "git push", always=ALWAYS)
    with pytest.raises(InputError):
        await session.reply("call_1", "always", **given)  # type: ignore[arg-type]
    assert (await session.result("call_1")).outcome is None


async def test_what_grants_with_uses_let_through_is_judged_the_same_again_from_the_log(ledger: Ledger) -> None:
    await ledger.grant_in_project("shop", "bash", "git *", uses=2)
    session = await ledger.session("ses_1", project="shop", rules={"permission": {"bash": {"*": "ask"}}})
    await session.grant("bash", "npm *", uses=1)
    for number, text in enumerate(["git push", "npm test", "git pull", "npm test", "git fetch"]):
        await session.submit("bash", [text], always=["git *"], request_id=f"call_{number}")
    await session.reply("call_4", "always", uses=1)
    await session.submit("bash", ["git log"], request_id="call_9")
    found = [one async for one in judge_again(ledger.store, session.id)]
    assert [one for one in found if one.result != "same"] == []
    assert len(found) == 6


async def test_a_freeze_that_ends_lets_through_as_many_as_there_are_uses(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await ledger.grant_in_project("shop", "bash", "git *", uses=1)
    await session.grant("bash", "npm *", uses=1)
    await ledger.freezes.freeze(None, reason="stop", actor=ANN)
    for number, text in enumerate(["git push", "git pull", "npm test", "npm ci"]):
        assert not (await session.submit("bash", [text], request_id=f"call_{number}")).allowed
    await ledger.freezes.unfreeze(None, reason="go on", actor=ANN)
    await session.answers.resume()
    told = [(await session.result(f"call_{number}")).outcome for number in range(4)]
    assert (told[:2].count("allowed"), told[2:].count("allowed")) == (1, 1)

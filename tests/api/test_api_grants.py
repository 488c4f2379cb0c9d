"""Grants: for a session or a project, for a time, listed and revocable, in force from the acknowledgement."""

from __future__ import annotations

from typing import Final

import pytest

from ledger import Ledger, Session, UnknownGrantError
from ledger.testing import TestClock
from tests.api.actors import ANN, OpenLedger, before_the_next_append, events_of, outcome_of, pend, raised

ALWAYS = ["git push *"]

UNBOUNDED: Final = {"uses": None, "uses_left": None, "last_used_at": None}


async def allowed(session: Session, pattern: str = "git push", permission: str = "bash") -> bool:
    return (await session.submit(permission, [pattern])).outcome == "allowed"


async def test_an_always_reaches_all_sessions_of_the_project_and_survives_a_restart(
    url: str, clock: TestClock, ledger: Ledger
) -> None:
    async with Ledger.connect(url, clock=clock, entry_points=False) as first:
        session = await first.session("ses_1", project="shop")
        await pend(session, "call_1", "git push", always=ALWAYS)
        await session.reply("call_1", "always", actor=ANN)
    async with Ledger.connect(url, clock=clock, entry_points=False) as second:
        same, other = await second.session("ses_1"), await second.session("ses_2", project="shop")
        assert (await allowed(same, "git push --tags"), await allowed(other, "git push --tags")) == (True, True)
        assert not await allowed(await second.session("ses_3", project="bakery"))
        assert not await allowed(await second.session("ses_4"))


async def test_a_session_without_a_project_is_its_own_project(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", "git push", always=ALWAYS)
    await session.reply("call_1", "always")
    again = await (await open_ledger()).session("ses_1")
    assert (await allowed(again), await allowed(await ledger.session("ses_2"))) == (True, False)


async def test_a_session_reply_is_for_that_session_only(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push", always=ALWAYS)
    await session.reply("call_1", "session")
    other = await ledger.session("ses_2", project="shop")
    assert (await allowed(session), await allowed(other)) == (True, False)


async def test_grants_are_listed_with_where_they_come_from(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push", always=["git push *", "git fetch *"])
    await session.reply("call_1", "always", actor=ANN)
    clock.advance("1s")
    made = await session.grant("edit", "src/*", expires_in_ms=60_000, reason="spike", actor=ANN)
    listed = [one.as_json() for one in await session.approved()]
    project_grant = {
        "scope": "project",
        "session": "ses_1",
        "project": "shop",
        "permission": "bash",
        "action": "allow",
        "by": "ann",
        "at": "2027-01-15T08:00:00.000Z",
        "expires_at": None,
        "request_id": "call_1",
        "reason": None,
        **UNBOUNDED,
    }
    assert listed == [
        {
            "grant_id": made.grant.grant_id,
            "scope": "session",
            "session": "ses_1",
            "project": "shop",
            "permission": "edit",
            "pattern": "src/*",
            "action": "allow",
            "by": "ann",
            "at": "2027-01-15T08:00:01.000Z",
            "expires_at": "2027-01-15T08:01:01.000Z",
            "request_id": None,
            "reason": "spike",
            **UNBOUNDED,
        },
        {**project_grant, "pattern": "git push *", "grant_id": listed[1]["grant_id"]},
        {**project_grant, "pattern": "git fetch *", "grant_id": listed[2]["grant_id"]},
    ]
    assert [one.as_json() for one in await ledger.approved_in_project("shop")] == listed[1:]


async def test_a_grant_may_cover_a_whole_tool(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.grant("edit")
    assert (await allowed(session, "any/file", "edit"), await allowed(session, "git push")) == (True, False)


async def test_a_grant_made_for_a_project_reaches_sessions_that_open_later(ledger: Ledger) -> None:
    await ledger.grant_in_project("shop", "bash", "git push *", actor=ANN)
    assert await allowed(await ledger.session("ses_1", project="shop"))


async def test_a_grant_for_a_project_releases_what_waits_where_the_session_wants_it(ledger: Ledger) -> None:
    eager = await ledger.session("ses_1", project="shop", cascade_always="project")
    patient = await ledger.session("ses_2", project="shop")
    await pend(eager, "call_1", "git push")
    await pend(patient, "call_2", "git push")
    await ledger.grant_in_project("shop", "bash", "git push *", actor=ANN)
    assert (await outcome_of(eager, "call_1"), await outcome_of(patient, "call_2")) == ("allowed", None)


@pytest.mark.parametrize("where", ["session", "project"])
async def test_a_grant_ends_at_its_very_millisecond(ledger: Ledger, clock: TestClock, where: str) -> None:
    session = await ledger.session("ses_1", project="shop")
    if where == "session":
        await session.grant("bash", "git push *", expires_in_ms=60_000)
    else:
        await ledger.grant_in_project("shop", "bash", "git push *", expires_in_ms=60_000)
    clock.advance(59_999)
    assert await allowed(session)
    clock.advance(1)
    assert not await allowed(session)
    assert await session.approved() == []


@pytest.mark.parametrize("where", ["session", "project"])
async def test_a_grant_that_ends_between_the_decision_and_the_append_allows_nothing(
    ledger: Ledger, clock: TestClock, where: str
) -> None:
    session = await ledger.session("ses_1", project="shop")
    if where == "session":
        await session.grant("bash", "git push *", expires_in_ms=60_000)
    else:
        await ledger.grant_in_project("shop", "bash", "git push *", expires_in_ms=60_000)
    await session.approved()
    clock.advance(59_999)

    async def late() -> None:
        clock.advance(1)

    before_the_next_append(ledger, late)
    assert not await allowed(session)


@pytest.mark.parametrize("where", ["session", "project"])
async def test_a_revoke_is_in_force_for_every_ask_that_starts_after_its_acknowledgement(
    ledger: Ledger, open_ledger: OpenLedger, where: str
) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await (
        session.grant("bash", "git push *")
        if where == "session"
        else ledger.grant_in_project("shop", "bash", "git push *")
    )
    # Each of these processes has the grant in its cached state, and receives no wake-up about the revoke.
    cached = [await (await open_ledger()).session("ses_1") for _ in range(3)]
    assert [await allowed(one) for one in cached] == [True, True, True]
    await (await open_ledger()).revoke(made.grant.grant_id, actor=ANN)
    assert [await allowed(one) for one in cached] == [False, False, False]
    assert await cached[0].approved() == []


async def test_a_revoke_is_seen_by_who_asks_for_the_first_time_with_that_project_cached(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    made = await ledger.grant_in_project("shop", "bash", "git push *")
    elsewhere = await open_ledger()
    warm = await elsewhere.session("ses_1", project="shop")
    assert await allowed(warm)
    await ledger.revoke(made.grant.grant_id)
    assert not await allowed(await elsewhere.session("ses_2", project="shop"))


async def test_a_session_revokes_its_projects_grants_too(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await ledger.grant_in_project("shop", "bash", "git push *")
    await session.revoke(made.grant.grant_id)
    assert (await allowed(session), await ledger.approved_in_project("shop")) == (False, [])


async def test_revoking_again_writes_nothing(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    made = await session.grant("bash", "git push *")
    await session.revoke(made.grant.grant_id)
    before = await events_of(session)
    await ledger.revoke(made.grant.grant_id)
    assert await events_of(session) == before


async def test_revoking_a_grant_that_is_not_there_is_an_error(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    errors = [await raised(session.revoke("grn_9")), await raised(ledger.revoke("grn_9"))]
    assert [(type(error), error.text) for error in errors] == [
        (UnknownGrantError, "session `ses_1` has no grant `grn_9`"),
        (UnknownGrantError, "there is no grant `grn_9`"),
    ]


async def test_a_repeated_reply_never_revives_a_revoked_grant(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push", always=ALWAYS)
    await session.reply("call_1", "always")
    [made] = await session.approved()
    await session.revoke(made.grant.grant_id)
    await (await open_ledger()).reply("call_1", "always")
    assert not await allowed(session)


async def test_a_reply_that_lost_never_grants(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push", always=ALWAYS)
    await session.reply("call_1", "once")
    assert (await raised(session.reply("call_1", "always"))).code == "ALREADY_ANSWERED"
    assert await session.approved() == []


async def test_a_grant_never_lifts_a_configured_deny(ledger: Ledger) -> None:
    rules = [{"permission": "bash", "pattern": "rm *", "action": "deny"}]
    session = await ledger.session("ses_1", project="shop", rules=rules)
    await session.grant("bash", "*")
    await ledger.grant_in_project("shop", "bash", "rm *")
    assert (await raised(session.ask("bash", ["rm -rf /"]))).code == "DENIED"
    assert await allowed(session, "git push")


async def test_in_compat_v1_a_grant_lifts_a_configured_deny_until_it_is_revoked(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    rules = [{"permission": "bash", "pattern": "rm *", "action": "deny"}]
    session = await ledger.session("ses_1", project="shop", rules=rules, options={"compat": "v1"})
    assert (await raised(session.ask("bash", ["rm x"]))).code == "DENIED"
    made = await (await open_ledger()).grant_in_project("shop", "bash", "rm *")
    assert await allowed(session, "rm x")
    await (await open_ledger()).revoke(made.grant.grant_id)
    assert (await raised(session.ask("bash", ["rm x"]))).code == "DENIED"


async def test_a_grant_that_another_process_has_just_acknowledged_is_found(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_0", "ls")
    await (await open_ledger()).grant_in_project("shop", "bash", "git push *")
    result = await session.submit("bash", ["git push"], request_id="call_1")
    assert (result.outcome, await outcome_of(session, "call_0")) == ("allowed", None)

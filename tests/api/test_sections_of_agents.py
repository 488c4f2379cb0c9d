"""The section of an agent counts for the calls of that agent: named by the session, or by the ask."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import DeniedError, Ledger, Session

RULES: dict[str, Any] = {
    "permission": {"bash": "ask", "read": "allow"},
    "agent": {
        "plan": {"permission": {"bash": {"*": "deny", "git status": "allow"}, "edit": "deny"}},
        "build": {"permission": {"bash": {"make": "allow"}}},
    },
}


async def outcome(session: Session, command: str, agent: str | None = None) -> str | None:
    return (await session.submit("bash", [command], agent=agent)).outcome


async def of_tool(session: Session, command: str, agent: str | None = None) -> str | None:
    return (await session.submit_tool("bash", {"command": command}, agent=agent)).outcome


async def test_the_section_of_the_session_s_agent_counts(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES, agent="plan")
    assert [await outcome(session, one) for one in ("make", "git status")] == ["denied", "allowed"]
    assert [await of_tool(session, one) for one in ("make", "git status")] == ["denied", "allowed"]
    assert await session.disabled(["bash", "edit", "read"]) == {"edit"}


@pytest.mark.parametrize("opened_for", [None, "plan", "elsewhere"])
async def test_the_section_of_the_agent_that_asks_counts(ledger: Ledger, opened_for: str | None) -> None:
    session = await ledger.session("ses_1", rules=RULES, agent=opened_for)
    for ask in (outcome, of_tool):
        assert await ask(session, "make", "plan") == "denied"
        assert await ask(session, "make", "build") == "allowed"
        assert await ask(session, "git status", "build") is None


async def test_an_agent_without_a_section_is_judged_by_that_of_the_option(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES, options={"agent": "plan"}, agent="codex")
    assert [await outcome(session, "make", one) for one in (None, "other", "build")] == ["denied", "denied", "allowed"]


async def test_the_section_of_the_agent_that_asked_counts_at_the_reply_and_at_the_claim(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules={"permission": {"bash": "ask"}})
    for request_id, agent in (("r1", "plan"), ("r2", "build"), ("r3", "plan")):
        await session.submit("bash", ["make"], request_id=request_id, agent=agent)
    assert (await session.reply("r3", "once", actor="ann")).outcome == "allowed"
    await ledger.session("ses_1", rules=RULES)
    assert (await session.reply("r1", "once", actor="ann")).outcome == "denied"
    assert (await session.reply("r2", "once", actor="ann")).outcome == "allowed"
    await session.claim("r2")
    with pytest.raises(DeniedError):
        await session.claim("r3")


async def test_a_grant_releases_what_the_section_of_its_agent_allows_to_be_granted(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await session.submit("bash", ["make all"], request_id="r1", always=["make *"])
    await session.submit("bash", ["make x"], request_id="r2", agent="build")
    assert (await session.reply("r1", "always", actor="ann")).outcome == "allowed"
    assert (await session.result("r2")).outcome == "allowed"
    assert await outcome(session, "make y", "plan") == "denied"


async def test_built_in_agents_have_their_rules_where_the_built_in_rules_are_on(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules={"permission": {}}, options={"defaults": True})
    assert (await session.submit("edit", ["a.py"], agent="plan")).outcome == "denied"
    assert (await session.submit("edit", ["a.py"])).outcome == "allowed"

"""A call is never allowed while something that must come first is not, however it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger import Ledger, Result, Session
from ledger.client.plugins import Decider
from ledger.core.events import Actor, Imported
from ledger.core.grants import Recorded
from ledger.core.policy import Call
from ledger.policy import Verdict
from ledger.session.evolve import evolve
from ledger.session.judging import judge

ALLOWS: Any = {"permission": {"bash": "allow", "read": "allow"}}
CALL = {"command": "cat /srv/shared/x"}
OUTSIDE = "/srv/shared/*"


class AllowsDirectories:
    """A decider that lets every directory through, and has no opinion of anything else."""

    name = "directories"

    def decide(self, _session: str, question: Any, _evaluation: Any) -> str | None:
        return "allow" if question.call.permission == "external_directory" else None


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        yield ledger


async def opened(ledger: Ledger, rules: Any = ALLOWS, **more: Any) -> Session:
    return await ledger.session("s", rules=rules, options={"cwd": "/repo", "home": "/home/u"}, cwd="/repo", **more)


async def submitted(session: Session, request_id: str = "r1", **more: Any) -> Result:
    """The call alone, as a caller asks that does not know of directories."""
    return await session.submit("bash", (), tool_name="bash", tool_input=CALL, request_id=request_id, **more)


async def test_a_call_alone_is_asked_while_its_directory_is_not_allowed(ledger: Ledger) -> None:
    result = await submitted(await opened(ledger))
    assert result.outcome is None
    assert result.evaluation is not None
    assert result.evaluation.reason == f"`{OUTSIDE}` must be allowed first, as a request for `external_directory`"
    assert (result.evaluation.parts[-1].text, result.evaluation.parts[-1].verdict) == (OUTSIDE, Verdict.ASK)


async def test_a_call_alone_is_denied_where_its_directory_is(ledger: Ledger) -> None:
    rules = {"permission": {"bash": "allow", "external_directory": {"/srv/*": "deny"}}}
    result = await submitted(await opened(ledger, rules))
    assert result.outcome == "denied"
    assert result.message is not None
    assert '"permission":"external_directory","pattern":"/srv/*","action":"deny"' in result.message


async def test_a_person_may_allow_the_call_with_all_that_it_needs(ledger: Ledger) -> None:
    session = await opened(ledger)
    await submitted(session)
    assert (await session.reply("r1", "once")).allowed


async def test_a_grant_of_the_directory_allows_the_call_until_it_is_revoked(ledger: Ledger) -> None:
    session = await opened(ledger)
    grant = await session.grant("external_directory", OUTSIDE)
    first = await submitted(session, "r1")
    assert (first.allowed, first.request.grants) == (True, (grant.grant.grant_id,))
    await session.revoke(grant.grant.grant_id)
    assert (await submitted(session, "r2")).outcome is None


async def test_an_always_elsewhere_does_not_release_a_call_that_waits_for_its_directory(ledger: Ledger) -> None:
    session = await opened(ledger)
    await submitted(session, "r1")
    await session.submit("external_directory", [OUTSIDE], always=[OUTSIDE, "*"], request_id="r2")
    await session.reply("r2", "always")
    assert [one.request.request_id for one in await session.pending()] == ["r1"]


async def test_what_was_allowed_once_for_another_call_does_not_count(ledger: Ledger) -> None:
    session = await opened(ledger)
    await session.submit_tool("bash", CALL, request_id="r1")
    await session.reply("r1.external_directory", "once")
    assert (await session.submit_tool("bash", CALL, request_id="r1")).allowed
    assert (await submitted(session, "r2")).outcome is None


async def test_an_answer_about_another_directory_does_not_count(ledger: Ledger) -> None:
    session = await opened(ledger)
    await session.submit("external_directory", ["/tmp/*"], request_id="r1.external_directory")
    await session.reply("r1.external_directory", "once")
    assert (await submitted(session, "r1")).outcome is None


async def test_an_answer_that_an_import_brought_does_not_count(ledger: Ledger) -> None:
    session = await opened(ledger)
    await session.submit_tool("bash", CALL, request_id="r1")
    await session.reply("r1.external_directory", "once")
    state = await session.state()
    policy = ledger.policies.of(state, await ledger.streams.rulesets.of(state))
    call = Call("bash", (CALL["command"],), "bash", CALL, "/repo")
    assert judge(state, policy, call, "r1", ())[0].verdict is Verdict.ALLOW
    event, actor = Imported(versions=state.version, hash="0" * 64), Actor("system", "import")
    imported = Recorded(event, actor, state.last_ms, state.version + 1, "evt_1")
    evaluation, _ = judge(evolve(state, imported), policy, call, "r1", ())
    assert evaluation.verdict is Verdict.ASK


async def test_a_directory_that_a_decider_allowed_is_allowed_for_its_call(ledger: Ledger) -> None:
    decider: Decider = AllowsDirectories()
    async with Ledger.connect("memory://first-deciders", entry_points=False, plugins=[decider]) as deciding:
        session = await opened(deciding)
        result = await session.submit_tool("bash", CALL, request_id="r1")
        assert (result.request_id, result.allowed) == ("r1", True)
        assert (await submitted(session, "r2")).outcome is None

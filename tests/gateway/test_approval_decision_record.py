"""The acceptance points of an approval decision record (Agent Governance Toolkit, ADR-0030), one test each.

Agents and people speak over a gateway; a claim is the moment at which a call may run.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from ledger import Ledger
from ledger.core.policy import Evaluation
from ledger.core.questions import Question, Runner, claim_id_of
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served, in_process
from tests.support.servers import RealServer

ASKS = "/v1/sessions/ses_1/asks"
RULES = [
    {"permission": "read", "pattern": "*", "action": "allow"},
    {"permission": "bash", "pattern": "rm*", "action": "deny"},
]
JOB = {"name": "job", "call": "7"}


@pytest.fixture
async def opened(gateway: Served) -> Caller:
    """An agent that has opened `ses_1` with rules of its own, and may change them."""
    agent = await gateway.caller("agent", "worker", brings_rules=True)
    assert (await agent.put("/v1/sessions/ses_1", {"project": "shop", "rules": RULES})).status_code == 201
    return agent


async def claim(caller: Caller, request_id: str, runner: dict[str, str] | None = None) -> httpx.Response:
    return await caller.post(f"{ASKS}/{request_id}/claim", {"runner": runner or JOB})


async def code_of_claim(caller: Caller, request_id: str) -> str:
    answer = await claim(caller, request_id)
    assert answer.status_code >= 400, answer.text
    return str(answer.json()["code"])


async def reply(caller: Caller, request_id: str, word: str = "once", **more: Any) -> httpx.Response:
    return await caller.post(f"{ASKS}/{request_id}/reply", {"reply": word, **more})


async def events(caller: Caller) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await caller.get("/v1/sessions/ses_1/log?limit=1000")).json()["events"]
    return rows


async def test_1_nothing_runs_without_a_final_allow(opened: Caller, ann: Caller, clock: TestClock) -> None:
    for request_id in ("pending", "rejected", "corrected", "cancelled", "expired"):
        assert (await opened.ask("ses_1", f"push {request_id}", request_id=request_id)).status_code == 202
    assert (await opened.ask("ses_1", "rm x", request_id="denied")).status_code == 200
    # The other requests of the session end with the first rejection, so that is the last answer but the deadline.
    await opened.post(f"{ASKS}/cancelled/cancel")
    await reply(ann, "corrected", "reject", message="on a branch")
    await reply(ann, "rejected", "reject")
    again = await opened.ask("ses_1", "push again", request_id="again")
    assert again.status_code == 202
    codes = [await code_of_claim(opened, one) for one in ("again", "denied", "cancelled", "corrected", "rejected")]
    assert codes == ["STILL_PENDING", "DENIED", "CANCELLED", "CORRECTED", "REJECTED"]
    clock.advance("8d")
    assert (await opened.ask("ses_1", "push again", request_id="again")).json()["outcome"] == "expired"
    assert await code_of_claim(opened, "again") == "EXPIRED"
    assert await code_of_claim(opened, "unheard-of") == "UNKNOWN_REQUEST"
    assert "claimed" not in {row["type"] for row in await events(ann)}


async def test_2_an_approval_of_one_call_runs_no_other(opened: Caller, ann: Caller) -> None:
    for request_id, line in (("a", "git push"), ("b", "git push --force")):
        await opened.ask("ses_1", line, request_id=request_id, cwd="/repo")
    await reply(ann, "a")
    assert await code_of_claim(opened, "b") == "STILL_PENDING"
    swapped = await opened.ask("ses_1", "git push --force", request_id="a", cwd="/repo")
    assert (swapped.status_code, swapped.json()["code"]) == (409, "DIFFERENT_REQUEST")
    elsewhere = await opened.ask("ses_1", "git push", request_id="a", cwd="/elsewhere")
    assert elsewhere.json()["code"] == "DIFFERENT_REQUEST"


async def test_3_a_changed_call_rule_or_grant_invalidates_it(opened: Caller, ann: Caller, gateway: Served) -> None:
    session = await gateway.ledger.attach("ses_1")
    await session.grant("bash", "git *", grant_id="grn_1")
    for request_id, line in (("by_rule", "a.py"), ("by_grant", "git push"), ("by_ann", "make")):
        permission = "read" if request_id == "by_rule" else "bash"
        await opened.post(ASKS, {"request_id": request_id, "permission": permission, "patterns": [line]})
    await reply(ann, "by_ann")
    await session.revoke("grn_1")
    assert await code_of_claim(opened, "by_grant") == "REOPENED"
    stricter = [{"permission": "*", "pattern": "*", "action": "deny"}]
    assert (await opened.put("/v1/sessions/ses_1", {"project": "shop", "rules": stricter})).status_code == 200
    assert [await code_of_claim(opened, one) for one in ("by_rule", "by_ann")] == ["DENIED", "DENIED"]


class Fails:
    """A decider that fails."""

    name = "fails"

    async def decide(self, session: str, question: Question, evaluation: Evaluation) -> str:
        raise RuntimeError("no answer")


async def test_4_time_failure_restart_and_bad_input_never_allow(server: RealServer, clock: TestClock) -> None:
    async with Ledger.connect(server.url, clock=clock, plugins=[Fails()]) as ledger:
        async with in_process(ledger) as one:
            agent = await one.caller("agent", "worker", brings_rules=True)
            await agent.put("/v1/sessions/ses_1", {"rules": RULES})
            failed = await agent.post(ASKS, {"request_id": "r1", "permission": "read", "patterns": ["a.py"]})
            assert failed.json()["outcome"] != "allowed", "its decider failed"
            waiting = await agent.ask("ses_1", "git push", request_id="r2")
            assert waiting.json()["outcome"] != "allowed"
            for body in ({"runner": ""}, {"runner": {"name": "job"}}, {"runner": 7}, {"surprise": 1}):
                assert (await agent.post(f"{ASKS}/r1/claim", body)).status_code in (400, 422)
        async with in_process(ledger) as restarted:
            again = await restarted.caller("agent", "other", everything=True)
            assert (await claim(again, "r1")).status_code != 200
            clock.advance("8d")
            assert (await claim(again, "r2")).status_code != 200
        session = await ledger.attach("ses_1")
        assert "claimed" not in [event.type async for event in session.events(follow_on=False)]


async def test_5_an_identity_that_was_not_verified_satisfies_nothing(
    opened: Caller, ann: Caller, gateway: Served
) -> None:
    await opened.ask("ses_1", "git push", request_id="r1")
    nobody, forged = await gateway.caller(None), gateway.caller_with("plt_" + "x" * 43)
    assert [(await reply(one, "r1")).status_code for one in (nobody, forged, opened)] == [401, 401, 403]
    assert [(await claim(one, "r1")).status_code for one in (nobody, forged, ann)][:2] == [401, 401]
    assert await code_of_claim(opened, "r1") == "STILL_PENDING"


async def test_6_a_deny_ends_it_at_once(opened: Caller, ann: Caller) -> None:
    asked = (await opened.ask("ses_1", "rm -rf x", request_id="r1")).json()
    assert (asked["outcome"], asked["code"]) == ("denied", "DENIED")
    late = await reply(ann, "r1", "always")
    assert (late.status_code, late.json()["code"]) == (409, "ALREADY_ANSWERED")
    assert await code_of_claim(opened, "r1") == "DENIED"


async def test_7_an_allow_counts_after_all_its_stages_alone(gateway: Served, ann: Caller, tmp_path: Path) -> None:
    inside, outside = tmp_path / "project", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    rules = {"permission": {"bash": "ask"}}
    session = await gateway.ledger.session("ses_1", rules=rules, options={"cwd": str(inside)}, cwd=str(inside))
    call = {"command": f"touch {outside}/f.txt"}
    first = await session.submit_tool("bash", call, request_id="r1")
    assert first.request_id == "r1.external_directory"
    await session.reply("r1.external_directory", "once", actor="ann")
    second = await session.submit_tool("bash", call, request_id="r1")
    assert (second.request_id, second.outcome) == ("r1", None), "the folder alone runs nothing"
    await session.reply("r1", "once", actor="ann")
    assert (await session.claim("r1", runner=Runner("job", "7"))).request_id == "r1"


async def test_8_a_repeated_answer_or_claim_changes_nothing(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", "git push", request_id="r1")
    answers = [await reply(ann, "r1") for _ in range(3)]
    claims = [await claim(opened, "r1") for _ in range(3)]
    assert {one.status_code for one in (*answers, *claims)} == {200}
    assert len({one.text for one in claims}) == 1
    assert [row["type"] for row in await events(ann)] == ["session_opened", "asked", "replied", "claimed"]


async def test_9_it_is_used_once_whoever_races_for_it(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", "git push", request_id="r1")
    await reply(ann, "r1")
    racing = [claim(opened, "r1", {"name": f"job-{number}", "call": "7"}) for number in range(16)]
    answers = await asyncio.gather(*racing)
    winners = [one.json()["runner"] for one in answers if one.status_code == 200]
    assert len(winners) == 1
    assert {one.json()["runner"] for one in answers if one.status_code == 409} == set(winners)
    await opened.post(f"{ASKS}/r1/finish", {"claim_id": claim_id_of(Runner(winners[0], "7"))})
    assert await code_of_claim(opened, "r1") == "ALREADY_CLAIMED", "nor after its end"


async def test_10_the_log_alone_tells_who_decided_what_ran_and_how_it_ended(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", "git push", request_id="r1")
    await reply(ann, "r1", "once")
    held = (await claim(opened, "r1")).json()
    await opened.post(f"{ASKS}/r1/finish", {"claim_id": held["claim_id"], "ok": False, "output": "rejected by remote"})
    asked, replied, claimed, ended = (await events(ann))[1:]
    assert asked["event"]["detail"]["patterns"] == ["git push"]
    assert (asked["actor"]["name"], asked["event"]["verdict"]) == ("worker", "ask")
    assert asked["actor"]["token_id"] == claimed["actor"]["token_id"]
    assert (replied["actor"]["name"], replied["event"]["outcome"]) == ("ann", "allowed")
    assert (claimed["event"]["runner"], claimed["event"]["claim_id"]) == ("job", held["claim_id"])
    assert claimed["event"]["policy_digest"] == asked["event"]["policy_digest"]
    assert (ended["event"]["claim_id"], ended["event"]["ok"]) == (held["claim_id"], False)
    assert [row["version"] for row in (asked, replied, claimed, ended)] == [2, 3, 4, 5]


class Allows:
    """A decider, such as a model, that allows everything."""

    name = "model"

    async def decide(self, session: str, question: Question, evaluation: Evaluation) -> str:
        return "allow"


async def test_11_a_model_alone_never_gives_what_a_person_owes(server: RealServer, clock: TestClock) -> None:
    rules = [
        {"permission": "bash", "pattern": "*", "action": "ask"},
        {"permission": "bash", "pattern": "*deploy*", "action": "ask", "answer_by": "passkey"},
        {"permission": "bash", "pattern": "rm*", "action": "deny"},
    ]
    async with Ledger.connect(server.url, clock=clock, plugins=[Allows()]) as ledger:
        session = await ledger.session("ses_1", rules=rules)
        assert (await session.submit("bash", ["make"])).allowed, "the decider answers what no rule keeps for a person"
        owed = await session.submit("bash", ["./deploy.sh"], request_id="r1")
        assert owed.outcome is None
        assert (await session.submit("bash", ["rm x"])).outcome == "denied"

"""Results of an ask: by rule at once, by an answer later, and of the same ask repeated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ledger import DeniedError, DifferentRequestError, Ledger, RejectedError, Session
from ledger.guarding import asking
from ledger.testing import TestClock
from tests.api.actors import ANN, RULES, OpenLedger, ask_and_wait, events_of, pend, pending_ids, raised


async def test_an_ask_that_the_rules_allow_returns_at_once_and_is_in_the_log(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    result = await session.ask("read", ["a.txt"], request_id="call_1")
    assert (result.outcome, result.allowed, result.reply, result.version) == ("allowed", True, None, 2)
    assert await events_of(session) == ["session_opened", "asked"]


async def test_an_ask_that_a_rule_denies_raises_with_code_reasons_and_what_the_agent_does(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    error = await raised(session.ask("bash", ["rm -rf /"], request_id="call_1"))
    assert isinstance(error, DeniedError)
    assert error.as_json() == {
        "code": "DENIED",
        "error": "The user has specified a rule which prevents you from using this specific tool call. Here are some "
        'of the relevant rules [{"permission":"bash","pattern":"rm *","action":"deny"}]',
        "request_id": "call_1",
        "session": "ses_1",
        "reasons": [{"text": "bash rm * deny", "layer": "session"}],
        "agent": "continue",
        "by": error.data["by"],
        "at": "2027-01-15T08:00:00.000Z",
    }


async def test_a_session_may_stop_its_agent_when_a_rule_denies(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES, on_denied="stop")
    assert (await raised(session.ask("bash", ["rm -rf /"]))).agent == "stop"


async def test_an_ask_waits_until_somebody_answers_from_another_process(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    asking = await ask_and_wait(session, "call_1")
    elsewhere = await open_ledger()
    await elsewhere.reply("call_1", "once", actor=ANN)
    result = await asking
    assert (result.outcome, result.reply, result.by.name, result.version) == ("allowed", "once", "ann", 3)


async def test_every_error_of_a_refusal_carries_code_request_session_reasons_and_agent(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    asking = await ask_and_wait(session, "call_1")
    await session.reply("call_1", "reject", actor=ANN)
    with pytest.raises(RejectedError) as caught:
        await asking
    error = caught.value
    assert (error.code, error.request_id, error.session, error.reasons, error.agent) == (
        "REJECTED",
        "call_1",
        "ses_1",
        [],
        "stop",
    )
    assert error.text == "The user rejected permission to use this specific tool call."


async def test_asking_again_with_the_same_id_attaches_to_the_pending_request(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    first = await ask_and_wait(session, "call_1")
    again = await ask_and_wait(await (await open_ledger()).session("ses_1"), "call_1")
    await session.reply("call_1", "once", actor=ANN)
    assert (await first).as_json() == (await again).as_json()
    assert await events_of(session) == ["session_opened", "asked", "replied"]


async def test_asking_again_after_the_answer_gets_the_same_outcome(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    asking = await ask_and_wait(session, "call_1")
    await session.reply("call_1", "reject", actor=ANN, message="use a branch")
    with pytest.raises(RejectedError, match="use a branch"):
        await asking
    again = await raised(session.ask("bash", ["git push"], request_id="call_1"))
    assert (again.code, again.agent, again.data["feedback"]) == ("CORRECTED", "continue", "use a branch")
    assert await events_of(session) == ["session_opened", "asked", "replied"]


@pytest.mark.parametrize("settled", [False, True], ids=["pending", "settled"])
async def test_the_same_id_with_another_content_is_an_error_and_changes_nothing(ledger: Ledger, settled: bool) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await pend(session, "call_1", "git push")
    if settled:
        await session.reply("call_1", "once", actor=ANN)
    before = await events_of(session)
    error = await raised(session.ask("bash", ["git push --force"], request_id="call_1"))
    assert isinstance(error, DifferentRequestError)
    assert error.text == ("request `call_1` of session `ses_1` was asked with another content; use another request id")
    assert await events_of(session) == before


@pytest.mark.parametrize(
    "other",
    [
        {"permission": "edit"},
        {"patterns": ["git push", "ls"]},
        {"always": ["git *"]},
        {"metadata": {"why": "because"}},
        {"tool": {"message_id": "msg_1", "call_id": "call_2"}},
        {"tool_name": "Shell"},
        {"tool_input": {"command": "git push"}},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_every_part_of_what_is_asked_counts_as_content(ledger: Ledger, other: dict[str, object]) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", "git push")
    asked: dict[str, object] = {"permission": "bash", "patterns": ["git push"], **other}
    error = await raised(session.submit(request_id="call_1", **asked))  # type: ignore[arg-type]
    assert error.code == "DIFFERENT_REQUEST"


async def test_a_request_id_is_unique_in_its_session_only(ledger: Ledger) -> None:
    one, two = await ledger.session("ses_1"), await ledger.session("ses_2")
    await pend(one, "call_1", "git push")
    await pend(two, "call_1", "git pull")
    assert await ledger.sessions_of("call_1") == ["ses_1", "ses_2"] or sorted(await ledger.sessions_of("call_1")) == [
        "ses_1",
        "ses_2",
    ]
    error = await raised(ledger.reply("call_1", "once"))
    assert (error.code, error.data["sessions"]) == ("INPUT", ["ses_1", "ses_2"])
    assert error.text == "request `call_1` is known in several sessions: `ses_1`, `ses_2`; name one (--session)"
    assert (await ledger.reply("call_1", "once", session_id="ses_2")).outcome == "allowed"
    assert await pending_ids(one) == ["call_1"]


async def test_ids_that_the_ledger_makes_ascend(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    made = [(await session.submit("bash", ["git push"])).request_id for _ in range(5)]
    assert made == sorted(made)
    assert all(request_id.startswith("per_") for request_id in made)


async def test_a_request_of_a_worker_that_died_stays_pending_and_its_retry_gets_the_outcome(
    url: str, clock: TestClock, ledger: Ledger
) -> None:
    async with Ledger.connect(url, clock=clock, entry_points=False) as dying:
        asking = await ask_and_wait(await dying.session("ses_1", rules=RULES), "call_1")
        asking.cancel()
    session = await ledger.attach("ses_1")
    assert await pending_ids(session) == ["call_1"]
    await session.reply("call_1", "once", actor=ANN)
    async with Ledger.connect(url, clock=clock, entry_points=False) as retrying:
        result = await (await retrying.session("ses_1")).ask("bash", ["git push"], request_id="call_1")
        assert (result.outcome, result.by.name) == ("allowed", "ann")
    await asyncio.wait([asking])
    assert asking.cancelled()


async def test_an_ask_is_judged_by_rules_that_another_process_has_changed(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await session.ask("read", ["a.txt"])
    stricter = [{"permission": "read", "pattern": "*", "action": "deny"}]
    await (await open_ledger()).session("ses_1", rules=stricter)
    error = await raised(session.ask("read", ["b.txt"]))
    assert error.code == "DENIED"
    assert error.data["reasons"] == [{"text": "read * deny", "layer": "session"}]


async def test_all_fields_of_a_request_are_kept_and_shown(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1", agent="build", rules=RULES)
    metadata = {"command": "git push", "nested": {"deep": [1, 2.5, None, True, "ä\u2028"]}}
    asked = await pend(
        session,
        "call_42",
        "git push",
        "git push --tags",
        always=["git push *"],
        metadata=metadata,
        tool={"message_id": "msg_1", "call_id": "call_42"},
        tool_name="Bash",
        tool_input={"command": "git push && git push --tags"},
        agent="reviewer",
        parent="ses_0",
        actor="worker-7",
    )
    [shown] = await (await open_ledger()).pending()
    assert shown.as_json() == {
        "session": "ses_1",
        "request_id": "call_42",
        "permission": "bash",
        "patterns": ["git push", "git push --tags"],
        "always": ["git push *"],
        "metadata": metadata,
        "tool": {"message_id": "msg_1", "call_id": "call_42"},
        "asked_at": "2027-01-15T08:00:00.000Z",
        "deadline": "2027-01-22T08:00:00.000Z",
        "tier": "unattended",
        "digest": asked.request.digest,
        "agent": "reviewer",
        "parent": "ses_0",
        "tool_name": "Bash",
        "input": {"command": "git push && git push --tags"},
        "cwd": None,
        "by": "worker-7",
        "version": 2,
        "evaluation": shown.as_json()["evaluation"],
        "is_replay": False,
        "would_run": "git push && git push --tags",
        "effect": "changes_elsewhere",
        "offers": [
            {"entries": ["git push", "git push --tags"], "reach": "exact"},
            {"entries": ["git push *"], "reach": "kind"},
        ],
    }


async def test_a_request_takes_agent_and_parent_from_its_session_unless_it_names_them(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", agent="build", parent="ses_0")
    asked = await pend(session, "call_1")
    assert (asked.request.agent, asked.request.parent) == ("build", "ses_0")


async def test_the_json_of_a_result_is_the_one_that_programs_rely_on(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await pend(session, "call_1")
    result = await session.reply("call_1", "reject", actor=ANN, message="not on Friday")
    assert {name: value for name, value in result.as_json().items() if name != "evaluation"} == {
        "session": "ses_1",
        "request_id": "call_1",
        "version": 3,
        "outcome": "corrected",
        "reply": "reject",
        "by": "ann",
        "at": "2027-01-15T08:00:00.000Z",
        "message": "The user rejected permission to use this specific tool call with the following feedback: "
        "not on Friday",
        "code": "CORRECTED",
        "agent": "continue",
    }
    assert result.as_json()["evaluation"]["verdict"] == "ask"


async def test_disabled_tools_are_those_that_the_rules_deny_wholly(ledger: Ledger) -> None:
    rules = [
        {"permission": "edit", "pattern": "*", "action": "deny"},
        {"permission": "bash", "pattern": "rm *", "action": "deny"},
        {"permission": "webfetch", "pattern": "*", "action": "deny"},
        {"permission": "webfetch", "pattern": "*.org", "action": "allow"},
    ]
    session = await ledger.session("ses_1", rules=rules)
    tools = ["edit", "write", "patch", "multiedit", "bash", "webfetch", "read"]
    assert await session.disabled(tools) == {"edit", "write", "patch", "multiedit"}


async def test_a_session_keeps_its_rules_for_who_attaches_without_any(ledger: Ledger, open_ledger: OpenLedger) -> None:
    await ledger.session("ses_1", rules=RULES, project="shop")
    again = await (await open_ledger()).session("ses_1")
    assert (await again.ask("read", ["a.txt"])).outcome == "allowed"
    error = await raised(ledger.session("ses_1", project="bakery"))
    assert error.text == "session `ses_1` has project `shop`, not `bakery`; use another session id"


async def test_attaching_to_a_session_that_is_not_there_is_an_error(ledger: Ledger) -> None:
    error = await raised(ledger.attach("ses_9"))
    assert (error.code, error.text) == ("UNKNOWN_SESSION", "there is no session `ses_9`")


UNKNOWN: Any = {"cdw": "/work"}


@pytest.mark.parametrize("asks", [Session.ask, Session.submit])
async def test_an_argument_that_no_ask_has_is_refused(ledger: Ledger, asks: Any) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    with pytest.raises(TypeError, match="cdw"):
        await asks(session, "read", ["a.txt"], **UNKNOWN)
    assert await events_of(session) == ["session_opened"]


@pytest.mark.parametrize("asks", [Session.ask_tool, Session.submit_tool])
async def test_an_argument_that_no_tool_call_has_is_refused(ledger: Ledger, asks: Any) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    with pytest.raises(TypeError, match="cdw"):
        await asks(session, "read", {"filePath": "a.txt"}, **UNKNOWN)
    assert await events_of(session) == ["session_opened"]


async def test_an_argument_that_no_guarded_call_has_is_refused(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    with pytest.raises(TypeError, match="cdw"), asking(session, **UNKNOWN) as context:
        async with context.permit("read", {"filePath": "a.txt"}):
            pass
    assert await events_of(session) == ["session_opened"]

"""One answer to many requests: each counts by itself, within the rights of its caller, and is told with its result."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served
from workers.gateway.bodies import REPLIES_COUNT_MAX

PLACE = "/v1/pending/replies"


async def _ask(ledger: Ledger, session_id: str, *commands: str, **more: Any) -> None:
    session = await ledger.session(session_id, **{"project": "shop", **more})
    for command in commands:
        await session.submit("bash", [command], always=["git push *"], request_id=command.split()[-1])


async def _pending(caller: Caller) -> list[dict[str, str]]:
    rows = (await caller.get("/v1/pending")).json()["pending"]
    return [{name: row[name] for name in ("session", "request_id", "digest")} for row in rows]


async def _outcomes(ledger: Ledger, *places: tuple[str, str]) -> list[str | None]:
    return [(await (await ledger.session(session)).result(request)).outcome for session, request in places]


async def _replies(caller: Caller, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await caller.post(PLACE, body)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["replies"]
    return found


async def test_one_answer_allows_requests_of_many_sessions_each_with_its_own_result(
    ledger: Ledger, ann: Caller
) -> None:
    for index in range(3):
        await _ask(ledger, f"ses_{index}", "git push a", "git push b")
    requests = await _pending(ann)
    replies = await _replies(ann, {"reply": "once", "requests": requests})
    assert [(one["session"], one["request_id"]) for one in replies] == [
        (one["session"], one["request_id"]) for one in requests
    ]
    assert Counter((one["outcome"], one["reply"], one["by"]) for one in replies) == {("allowed", "once", "ann"): 6}
    assert await _pending(ann) == []


async def test_the_answers_to_one_session_leave_together(
    ledger: Ledger, ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _ask(ledger, "ses_1", *(f"git push {index}" for index in range(8)))
    requests = await _pending(ann)
    appends: list[int] = []
    post = ledger.store.post

    def counted(append: Any, *rest: Any) -> None:
        if append.key.id == "ses_1":
            appends.append(len(append.payloads))
        post(append, *rest)

    monkeypatch.setattr(ledger.store, "post", counted)
    await _replies(ann, {"reply": "once", "requests": requests})
    # The first leaves at once, perhaps twice, and the others together.
    assert max(appends) == 7
    assert len(appends) <= 3


async def test_who_was_answered_by_somebody_else_is_told_and_the_others_count(
    ledger: Ledger, gateway: Served, ann: Caller
) -> None:
    await _ask(ledger, "ses_1", "git push a", "git push b", cascade_reject="none")
    await _ask(ledger, "ses_2", "git push c")
    requests = await _pending(ann)
    bob = await gateway.caller("approver", "bob")
    await bob.post("/v1/sessions/ses_1/asks/b/reply", {"reply": "reject", "message": "no"})
    await (await ledger.session("ses_2")).cancel("c")
    found = {one["request_id"]: one for one in await _replies(ann, {"reply": "once", "requests": requests})}
    assert found["a"]["outcome"] == "allowed"
    assert (found["b"]["code"], found["b"]["by"], found["b"]["outcome"]) == ("ALREADY_ANSWERED", "bob", "corrected")
    assert found["c"]["code"] == "ALREADY_ANSWERED"
    assert await _outcomes(ledger, ("ses_1", "a"), ("ses_1", "b"), ("ses_2", "c")) == [
        "allowed",
        "corrected",
        "cancelled",
    ]


async def test_an_answer_to_what_was_not_shown_does_not_count(ledger: Ledger, ann: Caller) -> None:
    await _ask(ledger, "ses_1", "git push a", "git push b")
    first, second = sorted(await _pending(ann), key=lambda one: one["request_id"])
    wrong = {**first, "digest": second["digest"]}
    unknown = {**first, "request_id": "nobody"}
    replies = await _replies(ann, {"reply": "once", "requests": [wrong, second, unknown]})
    assert [one["code"] for one in replies] == ["DIGEST_MISMATCH", None, "UNKNOWN_REQUEST"]
    assert await _outcomes(ledger, ("ses_1", "a"), ("ses_1", "b")) == [None, "allowed"]


async def test_each_answer_needs_the_rights_of_a_single_one(ledger: Ledger, gateway: Served, ann: Caller) -> None:
    await _ask(ledger, "ses_1", "git push a")
    await _ask(ledger, "ses_2", "git push b", project="bank")
    requests = await _pending(ann)
    bound = await gateway.caller("approver", "eve", projects=["shop"])
    replies = {one["request_id"]: one for one in await _replies(bound, {"reply": "once", "requests": requests})}
    assert (replies["a"]["outcome"], replies["b"]["code"]) == ("allowed", "UNKNOWN_SESSION")
    assert await _outcomes(ledger, ("ses_2", "b")) == [None]
    alone = await gateway.caller("approver", "joe", sessions=["ses_2"])
    (told,) = await _replies(alone, {"reply": "always", "requests": [requests[-1]]})
    assert told["code"] == "FORBIDDEN"
    agent = await gateway.caller("agent", "worker")
    assert (await agent.post(PLACE, {"reply": "once", "requests": requests})).status_code == 403


async def test_a_request_that_wants_a_passkey_is_not_answered_with_others(ledger: Ledger, ann: Caller) -> None:
    rules = {"permission": {"bash": "ask"}, "demands": [{"permission": "bash", "pattern": "git push prod*"}]}
    rules["demands"][0]["answer_by"] = "passkey"  # type: ignore[index]
    await _ask(ledger, "ses_1", "git push prod", "git push test", rules=rules)
    replies = {
        one["request_id"]: one for one in await _replies(ann, {"reply": "once", "requests": await _pending(ann)})
    }
    assert (replies["prod"]["code"], replies["test"]["outcome"]) == ("PASSKEY_REQUIRED", "allowed")


async def test_the_same_answers_again_succeed_and_write_nothing(ledger: Ledger, ann: Caller) -> None:
    await _ask(ledger, "ses_1", "git push a", "git push b")
    body = {"reply": "session", "requests": await _pending(ann)}
    first = await _replies(ann, body)
    version = (await (await ledger.session("ses_1")).state()).version
    again = await _replies(ann, body)
    assert [one["outcome"] for one in (*first, *again)] == ["allowed"] * 4
    assert (await (await ledger.session("ses_1")).state()).version == version


async def test_two_people_who_answer_many_at_once_decide_each_request_once(
    ledger: Ledger, gateway: Served, ann: Caller
) -> None:
    for index in range(4):
        await _ask(ledger, f"ses_{index}", "git push a", "git push b", cascade_reject="none")
    requests = await _pending(ann)
    bob = await gateway.caller("approver", "bob")
    one, other = await asyncio.gather(
        _replies(ann, {"reply": "once", "requests": requests}),
        _replies(bob, {"reply": "reject", "requests": requests[::-1]}),
    )
    won = Counter(
        (entry["session"], entry["request_id"]) for entry in (*one, *other) if entry["code"] in (None, "REJECTED")
    )
    assert len(won) == 8
    assert set(won.values()) == {1}


@pytest.mark.parametrize("answering", ["anyone", "lock-holder"])
async def test_an_always_releases_the_projects_other_sessions_if_it_says_so_and_never_past_the_lock(
    ledger: Ledger, ann: Caller, answering: str
) -> None:
    await _ask(ledger, "ses_1", "git push a")
    await _ask(ledger, "ses_2", "git push b", answering=answering)
    await _ask(ledger, "ses_3", "git push c", project="bank")
    first = next(one for one in await _pending(ann) if one["request_id"] == "a")
    await _replies(ann, {"reply": "always", "requests": [first], "cascade_always": "project"})
    released = "allowed" if answering == "anyone" else None
    assert await _outcomes(ledger, ("ses_1", "a"), ("ses_2", "b"), ("ses_3", "c")) == ["allowed", released, None]


async def test_a_single_always_releases_other_sessions_only_if_it_says_so(ledger: Ledger, ann: Caller) -> None:
    for index in (1, 2):
        await _ask(ledger, f"ses_{index}", "git push a")
    place = "/v1/sessions/ses_1/asks/a/reply"
    assert (await ann.post(place, {"reply": "always"})).json()["outcome"] == "allowed"
    assert await _outcomes(ledger, ("ses_2", "a")) == [None]
    # The same answer again, as after a lost confirmation.
    assert (await ann.post(place, {"reply": "always", "cascade_always": "project"})).json()["outcome"] == "allowed"
    assert await _outcomes(ledger, ("ses_2", "a")) == ["allowed"]


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [{"session": "ses_1", "request_id": "a"}],
        [{"session": "ses_1", "request_id": "a", "digest": "d"}] * 2,
        [{"session": "ses_1", "request_id": str(one), "digest": "d"} for one in range(REPLIES_COUNT_MAX + 1)],
    ],
)
async def test_a_list_that_is_empty_or_too_long_or_names_no_digest_or_one_twice_answers_nothing(
    ledger: Ledger, ann: Caller, requests: list[dict[str, str]]
) -> None:
    await _ask(ledger, "ses_1", "git push a")
    answer = await ann.post(PLACE, {"reply": "once", "requests": requests})
    assert (answer.status_code, answer.json()["code"]) == (422, "INPUT")
    assert await _outcomes(ledger, ("ses_1", "a")) == [None]


async def test_a_pending_row_has_the_shape_by_which_requests_are_grouped(ledger: Ledger, ann: Caller) -> None:
    await _ask(ledger, "ses_1", "git push a")
    await _ask(ledger, "ses_2", "git push b", "git pull c")
    rows = {row["request_id"]: row for row in (await ann.get("/v1/pending")).json()["pending"]}
    shapes = {name: row["description"]["shape"] for name, row in rows.items()}
    assert shapes["a"] == shapes["b"] != shapes["c"]


async def test_each_request_may_grant_patterns_of_its_own_and_none_that_would_not_cover_it(
    ledger: Ledger, ann: Caller
) -> None:
    await _ask(ledger, "ses_1", "git push a", "git push b")
    first, second = await _pending(ann)
    requests = [
        {**first, "patterns": [f"git push {first['request_id']}"]},
        {**second, "patterns": ["git push other"]},
    ]
    told = await _replies(ann, {"reply": "session", "requests": requests})
    assert [one.get("code") or one["outcome"] for one in told] == ["allowed", "NOT_COVERED"]
    granted = (await ann.get("/v1/grants?session=ses_1")).json()["grants"]
    assert [one["pattern"] for one in granted] == [f"git push {first['request_id']}"]

"""Grants and tokens that somebody with access to the server wrote into the log, with a valid chain."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger import Ledger, Session
from ledger.core.policy import ReplyKind
from ledger.core.times import MINUTE_MS
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served
from tests.support.command_line import CommandLine
from tests.support.forging import append_forged, person
from tests.support.servers import RealServer
from workers.upkeep.stream_checks import TOKENS, Checked, Depth, StreamChecker

PROJECT = StreamKey("project", "shop")
SESSION = StreamKey("session", "ses_1")
GRANT = {
    "type": "granted",
    "grant_id": "grn_forged",
    "permission": "bash",
    "detail": {"salt": "AAAAAAAAAAAAAAAAAAAAAA", "pattern": "*"},
}
TOKEN = {"type": "token_created", "token_id": "tok_forged", "name": "eve", "role": "admin", "digest": "0" * 64}


@pytest.fixture
async def ledger(server: RealServer, clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, entry_points=False, clock=clock) as ledger:
        yield ledger


@pytest.fixture
async def session(ledger: Ledger) -> Session:
    """A session with a grant for itself and one for its project, by answers."""
    session = await ledger.session("ses_1", project="shop", rules={"permission": {"bash": "ask"}})
    await answered(session, "r1", "session")
    await answered(session, "r2", "always")
    return session


async def answered(session: Session, request_id: str, reply: ReplyKind) -> None:
    await session.submit("bash", [f"git {request_id}"], request_id=request_id, always=[f"git {request_id} *"])
    await session.reply(request_id, reply, actor="ann")


async def checked(ledger: Ledger, key: StreamKey, depth: Depth = "chain") -> Checked:
    return await StreamChecker(ledger.store, depth=depth).check(key)


async def problems(ledger: Ledger, key: StreamKey) -> list[str]:
    """Return what is found in a stream, which is the same by itself and among others, at every depth."""
    found = [one.problems for depth in ("chain", "folds") async for one in _each(ledger, key, depth)]
    assert all(one == found[0] for one in found)
    return [f"{one.kind}: {one.text}" for one in found[0]]


async def _each(ledger: Ledger, key: StreamKey, depth: Any) -> AsyncIterator[Checked]:
    checker = StreamChecker(ledger.store, depth=depth)
    yield await checker.check(key)
    async for one in checker.check_all([key]):
        yield one


async def test_grants_by_answers_and_by_commands_are_backed_or_counted(ledger: Ledger, session: Session) -> None:
    assert (await checked(ledger, SESSION)).unnamed_count == 0
    assert (await checked(ledger, PROJECT)).unnamed_count == 0
    await session.grant("bash", "make *", actor="ann")
    assert (await checked(ledger, SESSION)).unnamed_count == 1
    assert await problems(ledger, SESSION) == await problems(ledger, PROJECT) == []


@pytest.mark.parametrize(
    "named",
    [
        {"session": "ses_1", "request_id": "r9"},
        {"session": "ses_9", "request_id": "r1"},
        {"session": "ses_1", "request_id": "r1"},
        {"request_id": "r1"},
    ],
)
@pytest.mark.parametrize("key", [PROJECT, SESSION])
async def test_a_grant_written_into_the_log_without_an_answer_is_found(
    server: RealServer, ledger: Ledger, session: Session, key: StreamKey, named: dict[str, str]
) -> None:
    scope = "project" if key == PROJECT else "session"
    await append_forged(server, ledger, key, {**GRANT, "scope": scope, **named}, person("ann"))
    (found,) = await problems(ledger, key)
    assert found.startswith("unbacked: version ")
    assert "has no answer of `ann` that made it" in found


async def test_spelling_the_type_of_a_grant_in_another_way(
    server: RealServer, ledger: Ledger, session: Session
) -> None:
    event = {**GRANT, "scope": "project", "session": "ses_1", "request_id": "r9"}
    await append_forged(server, ledger, PROJECT, event, person("ann"), spelling=("granted", r"gr\u0061nted"))
    assert [one for one in await problems(ledger, PROJECT) if one.startswith("unbacked")]


async def test_a_grant_in_the_name_of_another_than_who_answered_is_found(
    server: RealServer, ledger: Ledger, session: Session
) -> None:
    (grant,) = (await session.state()).settled["r2"].grants
    named = {"grant_id": grant, "session": "ses_1", "request_id": "r2", "scope": "project"}
    await append_forged(server, ledger, PROJECT, {**GRANT, **named}, person("eve"))
    (found,) = await problems(ledger, PROJECT)
    assert "has no answer of `eve`" in found


@pytest.fixture
async def makers(ledger: Ledger, session: Session, clock: TestClock) -> None:
    """Tokens of several people, one of which has ended by now."""
    await ledger.tokens.create("ann", "agent", token_id="tok_agent")
    await ledger.tokens.create("bob", "admin", token_id="tok_bob")
    await ledger.tokens.create("ann", "admin", token_id="tok_ended", expires_in_ms=MINUTE_MS)
    await ledger.tokens.create("ann", "admin", token_id="tok_ann")
    clock.advance("5m")
    await ledger.tokens.create("zoe", "auditor")
    await answered(session, "r3", "always")


@pytest.mark.usefixtures("makers")
@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("tok_nobody", "which there was not"),
        ("tok_agent", "which is one of `ann` with role agent"),
        ("tok_bob", "which is one of `bob`"),
        ("tok_ended", "which had ended"),
        ("tok_ann", None),
    ],
)
@pytest.mark.parametrize("key", [PROJECT, TOKENS])
async def test_a_token_written_into_the_log_without_its_maker_is_found(
    server: RealServer, ledger: Ledger, key: StreamKey, token: str, words: str | None
) -> None:
    before = (await checked(ledger, key)).unnamed_count
    event = {**GRANT, "scope": "project"} if key == PROJECT else TOKEN
    await append_forged(server, ledger, key, event, person("ann", token_id=token))
    found = await problems(ledger, key)
    assert [one for one in found if words is None or words not in one] == []
    assert (len(found), (await checked(ledger, key)).unnamed_count) == (0 if words is None else 1, before)


@pytest.mark.parametrize(
    ("rights", "words"),
    [
        ({"made_from": "tok_none"}, "which there was not"),
        ({"made_from": "tok_shop", "name": "ann", "role": "admin"}, "has other rights"),
        ({"made_from": "tok_shop", "name": "boss", "role": "admin", "projects": ["bank"]}, "has other rights"),
        ({"projects": ["bank"]}, "reaches further"),
        ({}, "reaches further"),
    ],
)
async def test_a_token_that_reaches_further_than_its_maker_s_is_found(
    server: RealServer, ledger: Ledger, rights: dict[str, Any], words: str
) -> None:
    await ledger.tokens.create("boss", "admin", projects=["shop"], token_id="tok_shop")
    await append_forged(server, ledger, TOKENS, {**TOKEN, **rights}, person("boss", token_id="tok_shop"))
    (found,) = await problems(ledger, TOKENS)
    assert found.startswith("unbacked: version ")
    assert words in found


async def test_all_that_a_gateway_makes_is_backed(gateway: Served, admin_caller: Caller) -> None:
    boss = await gateway.caller("admin", "boss", projects=["shop"])
    made = (await boss.post("/v1/tokens", {"name": "zoe", "role": "approver", "projects": ["shop"]})).json()
    zoe = await gateway.browser(made["token"])
    zoe.http.headers["Origin"] = "http://gateway"
    body = {"project": "shop", "permission": "bash", "pattern": "make *"}
    assert (await zoe.post("/v1/grants", body)).status_code == 201
    agent = await gateway.caller("agent", "robot")
    await agent.put("/v1/sessions/ses_1", {"project": "shop"})
    await agent.ask("ses_1", "git push", request_id="r1", always=["git *"])
    assert (await boss.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "always"})).json()["outcome"] == "allowed"
    await admin_caller.delete(f"/v1/tokens/{made['token_id']}")
    for key in (TOKENS, PROJECT, SESSION):
        assert await problems(gateway.ledger, key) == []
    assert (await checked(gateway.ledger, TOKENS)).unnamed_count == 3
    assert (await checked(gateway.ledger, PROJECT)).unnamed_count == 0


async def test_imported_grants_are_counted_and_no_error(server: RealServer, ledger: Ledger, session: Session) -> None:
    await append_forged(server, ledger, PROJECT, {**GRANT, "scope": "project", "request_id": "old"}, person("ann"))
    await append_forged(server, ledger, PROJECT, {"type": "imported", "versions": 2, "hash": "0" * 64}, person("ann"))
    found = await checked(ledger, PROJECT)
    assert [one for one in found.problems if one.kind == "unbacked"] == []
    assert found.unnamed_count == 2


def test_the_command_counts_what_names_nobody(server: RealServer) -> None:
    command = CommandLine(server.url)
    command("token", "create", "ann", "--role", "admin", code=0)
    told = command("verify", "--all", code=0)
    assert "1 grants and tokens name no answer and no token that made them" in told.err
    rows = command("verify", "--all", "--json", code=0).rows
    assert [row["unnamed"] for row in rows if "unnamed" in row] == [1]

"""Attacks on answer links: stolen or old links, links whose person lost access, and uses beyond their purpose."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from ledger import Ledger
from ledger.client.tokens import Made
from ledger.core.times import DAY_MS
from ledger.stores.secrets import deployment_secret, link_key
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served, in_process
from tests.support.processes import ROOT, environment_without_settings
from tests.support.servers import RealServer
from workers.gateway.settings import GatewaySettings, LinkAnswers
from workers.runtime.answer_links import AnswerLink, AnswerLinks

Serve = Callable[[GatewaySettings], Awaitable[Served]]


@pytest.fixture
async def serve(ledger: Ledger) -> AsyncIterator[Serve]:
    """Start another gateway on the same ledger, with these settings."""
    async with AsyncExitStack() as stack:

        async def start(settings: GatewaySettings) -> Served:
            return await stack.enter_async_context(in_process(ledger, settings))

        yield start


@pytest.fixture
async def token_of_ann(ledger: Ledger) -> Made:
    return await ledger.tokens.create("ann", "approver", expires_in_ms=DAY_MS)


@pytest.fixture
async def thief(gateway: Served, agent: Caller, token_of_ann: Made) -> Caller:
    """An attacker without a token who has read ann's messages; `r1` is pending in session `s1` of project `shop`."""
    await agent.put("/v1/sessions/s1", {"project": "shop"})
    await agent.ask("s1", "git push", always=["git push *"], request_id="r1")
    return gateway.caller_with(None)


async def link_for(ledger: Ledger, name: str = "ann") -> str:
    [one] = await ledger.pending()
    ends_ms = ledger.store.clock.now_ms() + 7 * DAY_MS
    link = AnswerLink(one.session, one.request.request_id, one.request.digest, name, ends_ms)
    return "/answer/" + AnswerLinks(await link_key(ledger.store)).sign(link)


async def answer(caller: Caller, path: str, reply: str) -> httpx.Response:
    return await caller.http.post(path, data={"reply": reply})


async def refused(thief: Caller, ledger: Ledger, path: str, said: str, status: int = 410) -> None:
    """Check that the link neither shows nor answers, that the page states why, and that the request stays pending."""
    for page in (await thief.get(path), *[await answer(thief, path, one) for one in ("once", "reject", "always")]):
        assert page.status_code == status
        assert said in page.text
        assert "git push" not in page.text
    assert [one.request.request_id for one in await ledger.pending()] == ["r1"]
    assert await ledger.approved_in_project("shop") == []


async def test_answering_by_the_link_of_a_person_whose_tokens_were_all_revoked(
    thief: Caller, ledger: Ledger, token_of_ann: Made
) -> None:
    path = await link_for(ledger)
    assert (await thief.get(path)).status_code == 200
    await ledger.tokens.revoke(token_of_ann.token.token_id)
    await refused(thief, ledger, path, "ended with the access of `ann`")


async def test_answering_by_the_link_of_a_person_whose_token_has_expired(
    thief: Caller, ledger: Ledger, clock: TestClock
) -> None:
    path = await link_for(ledger)
    clock.advance("24h")
    await refused(thief, ledger, path, "ended with the access of `ann`")


async def test_answering_by_the_link_of_a_person_who_never_had_a_token(thief: Caller, ledger: Ledger) -> None:
    await refused(thief, ledger, await link_for(ledger, "nobody"), "token create nobody --role approver")


@pytest.mark.parametrize(("projects", "sessions"), [(["blog"], []), ([], ["s2"])])
async def test_answering_beyond_the_reach_that_is_left_to_the_person(
    thief: Caller, ledger: Ledger, token_of_ann: Made, projects: list[str], sessions: list[str]
) -> None:
    path = await link_for(ledger)
    await ledger.tokens.create("ann", "approver", projects=projects, sessions=sessions)
    await ledger.tokens.revoke(token_of_ann.token.token_id)
    await refused(thief, ledger, path, "no token in force of that name answers in session `s1`")


async def test_answering_by_a_token_of_the_name_that_may_not_answer(
    thief: Caller, ledger: Ledger, token_of_ann: Made
) -> None:
    path = await link_for(ledger)
    await ledger.tokens.revoke(token_of_ann.token.token_id)
    for role in ("agent", "auditor"):
        await ledger.tokens.create("ann", role)
    await ledger.tokens.create("ann", "admin", use="sign_in")
    await refused(thief, ledger, path, "ended with the access of `ann`")


async def test_answering_by_a_browser_that_ended_with_its_token(
    thief: Caller, ledger: Ledger, token_of_ann: Made
) -> None:
    path = await link_for(ledger)
    root = token_of_ann.token.token_id
    await ledger.tokens.create("ann", "approver", use="browser", made_from=root)
    await ledger.tokens.revoke(root)
    await refused(thief, ledger, path, "ended with the access of `ann`")


@pytest.mark.parametrize("reply", ["session", "always"])
async def test_making_a_standing_grant_by_a_link(thief: Caller, ledger: Ledger, reply: str) -> None:
    path = await link_for(ledger)
    offered = re.findall(r'name="reply" value="(\w+)"', (await thief.get(path)).text)
    assert offered == ["once", "reject"]
    page = await answer(thief, path, reply)
    assert (page.status_code, f"a link may not answer `{reply}`" in page.text.lower()) == (403, True)
    assert [one.request.request_id for one in await ledger.pending()] == ["r1"]
    assert (await answer(thief, path, "once")).status_code == 200
    assert await ledger.approved_anywhere() == []


@pytest.mark.parametrize(
    ("allowed", "offered"),
    [("session", ["once", "session", "reject"]), ("always", ["once", "session", "always", "reject"])],
)
async def test_a_setting_lets_links_answer_for_longer(
    thief: Caller, ledger: Ledger, serve: Serve, allowed: LinkAnswers, offered: list[str]
) -> None:
    gateway = await serve(GatewaySettings(link_answers=allowed))
    path = await link_for(ledger)
    anybody = gateway.caller_with(None)
    assert re.findall(r'name="reply" value="(\w+)"', (await anybody.get(path)).text) == offered
    assert (await answer(anybody, path, allowed)).status_code == 200
    assert len(await ledger.approved_anywhere()) == 1


async def test_making_a_grant_of_the_project_with_a_reach_of_one_session(
    thief: Caller, ledger: Ledger, serve: Serve, token_of_ann: Made
) -> None:
    gateway = await serve(GatewaySettings(link_answers="always"))
    await ledger.tokens.create("ann", "approver", sessions=["s1"])
    await ledger.tokens.revoke(token_of_ann.token.token_id)
    path = await link_for(ledger)
    page = await answer(gateway.caller_with(None), path, "always")
    assert page.status_code == 403
    assert await ledger.approved_anywhere() == []


async def test_using_a_link_from_before_the_key_was_replaced(thief: Caller, ledger: Ledger, serve: Serve) -> None:
    other = await serve(GatewaySettings())
    path = await link_for(ledger)
    assert (await thief.get(path)).status_code == 200
    await ledger.tokens.rotate_links(reason="the topic was public", actor="root")
    for gateway in (thief, other.caller_with(None)):
        await refused(gateway, ledger, path, "All links from before", 404)
        assert (await gateway.get(await link_for(ledger))).status_code == 200


async def test_replacing_the_key_twice_never_brings_an_older_one_back(thief: Caller, ledger: Ledger) -> None:
    keys = [await link_key(ledger.store)]
    for _ in range(3):
        await ledger.tokens.rotate_links()
        keys.append(await link_key(ledger.store))
    assert len(set(keys)) == len(keys)
    assert await deployment_secret(ledger.store) not in keys[1:]


async def test_a_person_of_a_gateway_without_tokens_who_never_had_one_may_answer(
    thief: Caller, ledger: Ledger, serve: Serve, token_of_ann: Made
) -> None:
    open_one = (await serve(GatewaySettings(open_to_all=True))).caller_with(None)
    assert (await open_one.get(await link_for(ledger, "guest"))).status_code == 200
    path = await link_for(ledger)
    await ledger.tokens.revoke(token_of_ann.token.token_id)
    await refused(open_one, ledger, path, "ended with the access of `ann`")


async def test_using_a_link_that_another_process_has_ended(
    thief: Caller, ledger: Ledger, server: RealServer, tmp_path: Path
) -> None:
    path = await link_for(ledger)
    assert (await thief.get(path)).status_code == 200
    words = (
        "-m",
        "workers.cli",
        "token",
        "rotate-links",
        "--reason",
        "lost phone",
        "--as",
        "root",
        "--url",
        server.url,
    )
    place = {**environment_without_settings(), "PERMISSION_LEDGER_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = await asyncio.create_subprocess_exec(sys.executable, *words, env=place)
    assert await command.wait() == 0
    await refused(thief, ledger, path, "All links from before", 404)

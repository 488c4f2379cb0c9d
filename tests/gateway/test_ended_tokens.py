"""A token that ends while its request is pending: its holder loses all rights, and the request ends with it."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from ledger import Ledger
from ledger.client.tokens import Made
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served
from tests.support.waiting import wait_until_async

ASK = {"permission": "bash", "patterns": ["git push"], "request_id": "r1"}
PATH = "/v1/sessions/ses_1/asks"


@pytest.fixture
async def made(ledger: Ledger) -> Made:
    return await ledger.tokens.create("worker", "agent", expires_in_ms=3_600_000)


@pytest.fixture
async def worker(gateway: Served, made: Made) -> Caller:
    worker = gateway.caller_with(made.text)
    assert (await worker.put("/v1/sessions/ses_1")).status_code == 201
    return worker


async def waits(worker: Caller, ledger: Ledger, how: str) -> asyncio.Task[httpx.Response]:
    """A request of the worker that waits for its answer over HTTP."""
    if how == "read":
        await worker.post(PATH, ASK)
    call = worker.post(f"{PATH}?wait=30", ASK) if how == "ask" else worker.get(f"{PATH}/r1?wait=30")
    waiting = asyncio.create_task(call)
    session = ledger.streams.session("ses_1")

    async def waited_for() -> bool:
        return session.observed and "r1" in session.state.pending

    await wait_until_async(waited_for, "the request to be waited for")
    return waiting


async def cause_of(ledger: Ledger) -> str | None:
    settled = (await (await ledger.attach("ses_1")).state()).settled["r1"]
    return settled.cancel_cause


def is_refused(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")
    assert "the token was revoked or has expired while request `r1` was pending" in answer.json()["detail"]


@pytest.mark.parametrize("how", ["ask", "read"])
async def test_who_waits_with_a_token_that_is_revoked_is_nobody_and_the_request_ends(
    worker: Caller, ledger: Ledger, made: Made, how: str
) -> None:
    waiting = await waits(worker, ledger, how)
    await ledger.tokens.revoke(made.token.token_id)
    is_refused(await waiting)
    assert await cause_of(ledger) == "token_revoked"


async def test_who_waits_with_a_token_that_expires_is_nobody_and_the_request_ends(
    worker: Caller, ledger: Ledger, clock: TestClock
) -> None:
    waiting = await waits(worker, ledger, "ask")
    clock.advance("1h")
    is_refused(await waiting)
    assert await cause_of(ledger) == "token_revoked"


async def test_an_answer_that_comes_with_the_end_of_the_token_is_not_told_to_who_held_it(
    worker: Caller, ledger: Ledger, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process revokes it, which this gateway notices only when it reads the token again."""
    waiting = await waits(worker, ledger, "ask")
    confirm = ledger.tokens.confirm

    async def revoked_first(token_id: str) -> bool:
        monkeypatch.undo()
        await ledger.tokens.revoke(token_id)
        return await confirm(token_id)

    monkeypatch.setattr(ledger.tokens, "confirm", revoked_first)
    await ledger.reply("r1", "once", session_id="ses_1", actor="ann")
    is_refused(await waiting)
    assert (await (await ledger.attach("ses_1")).result("r1")).by.name == "ann"


async def test_what_waits_with_nobody_waiting_for_it_ends_with_its_token_too(
    worker: Caller, ledger: Ledger, made: Made, gateway: Served
) -> None:
    await worker.post(PATH, ASK)
    ann = await gateway.caller("approver", "ann")
    await ledger.tokens.revoke(made.token.token_id)
    assert await cause_of(ledger) == "token_revoked"
    late = await ann.post(f"{PATH}/r1/reply", {"reply": "once"})
    assert (late.status_code, late.json()["outcome"]) == (409, "cancelled")
    told = (await ann.get(f"{PATH}/r1")).json()["message"]
    assert told == "Permission request cancelled: the token of the agent that asked was revoked or has expired"


async def test_who_only_looks_takes_no_request_along(worker: Caller, ledger: Ledger, gateway: Served) -> None:
    await worker.post(PATH, ASK)
    auditor_token = await ledger.tokens.create("eve", "auditor")
    eve = gateway.caller_with(auditor_token.text)
    waiting = await waits(eve, ledger, "look")
    await ledger.tokens.revoke(auditor_token.token.token_id)
    is_refused(await waiting)
    assert (await worker.get(f"{PATH}/r1")).json()["outcome"] is None


async def test_no_caller_says_that_a_token_was_revoked(worker: Caller) -> None:
    await worker.post(PATH, ASK)
    refused = await worker.post(f"{PATH}/r1/cancel", {"cause": "token_revoked"})
    assert refused.status_code == 422

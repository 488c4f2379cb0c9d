"""An allow is returned only after the project's grants were read again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ledger import Ledger, RejectedError, Session
from ledger.client.results import Approved
from ledger.core.errors import CancelledError, StoreError, UnknownRequestError
from ledger.testing import TestClock
from tests.api.actors import ANN, BOB, OpenLedger, events_of, minutes_later, outcome_of, pend, pending_ids, raised

INPUT = {"command": "git push"}
METADATA = {"why": "release"}


async def granted(ledger: Ledger, **more: object) -> Approved:
    return await ledger.grant_in_project("shop", "bash", "git *", actor=ANN, **more)  # type: ignore[arg-type]


async def released(ledger: Ledger, **more: object) -> tuple[Session, Approved]:
    """A session whose pending request `r1` was released by a grant of the project."""
    session = await ledger.session("ses_1", project="shop", cascade_always="project")
    await pend(session, "r1", tool_name="bash", tool_input=INPUT, metadata=METADATA)
    made = await granted(ledger, **more)
    assert await outcome_of(session, "r1") == "allowed"
    return session, made


Look = Callable[[Session], Awaitable[object]]

LOOKS: dict[str, Look] = {
    "result": lambda session: session.result("r1"),
    "wait": lambda session: session.wait("r1", timeout=0.01),
    "submit": lambda session: session.submit(
        "bash", ["git push"], tool_name="bash", tool_input=INPUT, metadata=METADATA, request_id="r1"
    ),
}


@pytest.mark.parametrize("look", list(LOOKS))
async def test_a_release_by_a_grant_that_was_revoked_is_told_to_nobody(
    ledger: Ledger, open_ledger: OpenLedger, look: str
) -> None:
    session, made = await released(ledger)
    await (await open_ledger()).revoke(made.grant.grant_id, actor=BOB)
    told = await LOOKS[look](session)
    assert getattr(told, "outcome", "") is None
    assert (await events_of(session))[-2:] == ["replied", "reopened"]


@pytest.mark.parametrize("look", list(LOOKS))
async def test_an_allow_by_a_grant_that_was_revoked_is_told_to_nobody(
    ledger: Ledger, open_ledger: OpenLedger, look: str
) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await granted(ledger)
    assert (await LOOKS["submit"](session)).outcome == "allowed"  # type: ignore[attr-defined]
    await (await open_ledger()).revoke(made.grant.grant_id)
    assert getattr(await LOOKS[look](session), "outcome", "") is None


async def test_a_release_by_a_grant_that_has_expired_is_told_to_nobody(ledger: Ledger, clock: TestClock) -> None:
    session, _ = await released(ledger, expires_in_ms=60_000)
    minutes_later(clock, 2)
    assert await outcome_of(session, "r1") is None


async def test_what_waits_again_is_shown_as_it_was_asked(ledger: Ledger) -> None:
    session, made = await released(ledger)
    await ledger.revoke(made.grant.grant_id)
    assert await outcome_of(session, "r1") is None
    [pending] = await session.pending()
    request = pending.request
    assert (request.tool_name, request.input, request.metadata) == ("bash", INPUT, METADATA)
    answered = await session.reply(
        "r1", "once", actor=BOB, updated_input={"command": "git push -n"}, round=request.round
    )
    assert (answered.outcome, answered.by.name) == ("allowed", BOB)
    assert (await session.result("r1")).updated_input == {"command": "git push -n"}


async def test_who_waits_for_a_call_waits_on_when_its_release_is_gone_before_it_was_told(
    ledger: Ledger, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await ledger.session("ses_1", project="shop", cascade_always="project")
    await session.approved()
    elsewhere = await open_ledger()
    made: asyncio.Future[Approved] = asyncio.get_running_loop().create_future()
    shared = ledger.streams.project("shop")
    refresh = shared.refresh
    revoked = asyncio.Event()

    async def revoked_first() -> object:
        if "r1" in session.stream.state.settled and not revoked.is_set():
            revoked.set()
            await elsewhere.revoke((await made).grant.grant_id)
        return await refresh()

    monkeypatch.setattr(shared, "refresh", revoked_first)
    asking = asyncio.create_task(session.ask_tool("bash", INPUT, request_id="r1"))
    async for event in session.events():
        if event.type == "asked":
            made.set_result(await granted(elsewhere))
        if event.type == "reopened":
            break
    assert not asking.done()
    await session.reply("r1", "reject", actor=BOB, round=2)
    assert isinstance(await raised(asking), RejectedError)


async def test_a_run_that_was_recorded_as_finished_is_not_reopened_by_who_looks(ledger: Ledger) -> None:
    session, made = await released(ledger)
    await session.note_tool_finished("r1")
    await ledger.revoke(made.grant.grant_id)
    assert await outcome_of(session, "r1") == "allowed"
    assert (await session.wait("r1")).outcome == "allowed"
    assert "reopened" not in await events_of(session)


async def test_a_run_that_was_recorded_as_finished_is_asked_again_by_who_submits_it_again(ledger: Ledger) -> None:
    session, made = await released(ledger)
    await session.note_tool_finished("r1")
    await ledger.revoke(made.grant.grant_id)
    assert getattr(await LOOKS["submit"](session), "outcome", "") is None


async def test_in_a_closed_session_a_release_that_is_gone_is_cancelled_and_not_pending(ledger: Ledger) -> None:
    session, made = await released(ledger)
    await session.close()
    await ledger.revoke(made.grant.grant_id)
    told = await session.result("r1")
    assert (told.outcome, told.message) == ("cancelled", "Permission request cancelled: the session was closed")
    assert isinstance(told.error(), CancelledError)
    assert await pending_ids(session) == []


async def test_an_allow_is_not_told_while_the_project_cannot_be_read(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = await released(ledger)

    async def away() -> object:
        raise StoreError("the server of the project is away")

    shared = ledger.streams.project("shop")
    monkeypatch.setattr(shared, "refresh", away)
    for look in LOOKS.values():
        error = await raised(look(session))
        assert error.text == "the server of the project is away"
    monkeypatch.undo()
    assert await outcome_of(session, "r1") == "allowed"


async def test_two_who_look_at_once_reopen_a_request_once(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session, made = await released(ledger)
    elsewhere = await (await open_ledger()).session("ses_1")
    await ledger.revoke(made.grant.grant_id)
    told = await asyncio.gather(*(one.result("r1") for one in (session, elsewhere) for _ in range(4)))
    assert {one.outcome for one in told} == {None}
    assert (await events_of(session)).count("reopened") == 1


async def test_what_a_person_answered_stands_whatever_becomes_of_grants(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "r1", always=["git *"])
    await session.reply("r1", "always", actor=ANN)
    [made] = await session.approved()
    await ledger.revoke(made.grant.grant_id)
    assert await outcome_of(session, "r1") == "allowed"


async def test_an_answer_to_a_release_that_is_gone_is_the_first_answer(ledger: Ledger) -> None:
    """Otherwise the same reply as the release's would count as a repeated one."""
    session, made = await released(ledger)
    await ledger.revoke(made.grant.grant_id)
    blind = await raised(session.reply("r1", "always", actor=BOB))
    assert (blind.code, blind.data["round"]) == ("DIGEST_MISMATCH", 2)
    answered = await session.reply("r1", "always", actor=BOB, round=2)
    assert (answered.outcome, answered.by.name) == ("allowed", BOB)
    assert await outcome_of(session, "r1") == "allowed"


async def test_an_allow_that_rests_on_no_grant_of_the_project_reads_nothing_of_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await ledger.session(
        "ses_1", project="shop", rules=[{"permission": "*", "pattern": "*", "action": "allow"}]
    )
    await session.submit("bash", ["ls"], request_id="r1")
    read: list[object] = []

    async def counted() -> object:
        read.append(1)
        raise AssertionError

    monkeypatch.setattr(ledger.streams.project("shop"), "refresh", counted)
    for look in (session.result("r1"), session.wait("r1"), session.submit("bash", ["ls"], request_id="r1")):
        assert (await look).outcome == "allowed"
    assert read == []


async def test_looking_at_what_is_unknown_is_an_error_as_before(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    assert isinstance(await raised(session.result("r9")), UnknownRequestError)

"""The folder of a call is part of the request: digested, logged, shown, and bound to the answer."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import InputError, Ledger, Session
from ledger.core.errors import DifferentRequestError
from tests.api.actors import OpenLedger, pend

SCRATCH, PRODUCTION = "/srv/scratch", "/srv/production"


async def pending_of(session: Session) -> dict[str, Any]:
    [one] = await session.pending()
    return one.as_json()


async def last_asked(session: Session) -> Any:
    events = [event async for event in session.events(follow_on=False)]
    return [event for event in events if event.type == "asked"][-1].as_json()["event"]


async def test_an_answer_for_one_folder_is_none_for_another(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", "rm -rf build", cwd=SCRATCH)
    await session.reply("call_1", "once")
    with pytest.raises(DifferentRequestError, match=f"asked in `{SCRATCH}`, not in `{PRODUCTION}`"):
        await session.submit("bash", ["rm -rf build"], request_id="call_1", cwd=PRODUCTION)


async def test_an_answer_for_no_folder_is_none_for_some_folder(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", "rm -rf build")
    with pytest.raises(DifferentRequestError, match=f"asked without a folder, not in `{PRODUCTION}`"):
        await session.submit("bash", ["rm -rf build"], request_id="call_1", cwd=PRODUCTION)


async def test_the_folder_of_a_call_is_its_own_else_the_sessions(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", cwd=SCRATCH)
    for request_id, given, wanted in (("a", None, SCRATCH), ("b", PRODUCTION, PRODUCTION)):
        await pend(session, request_id, cwd=given)
        assert (await pending_of(session))["cwd"] == wanted
        assert (await last_asked(session))["detail"]["cwd"] == wanted
        await session.cancel(request_id)


async def test_the_digest_covers_the_sessions_folder(ledger: Ledger) -> None:
    digests = set()
    for name, folder in (("s1", SCRATCH), ("s2", PRODUCTION), ("s3", None)):
        asked = await pend(await ledger.session(name, cwd=folder), "call_1", metadata={"a": 1})
        again = await (await ledger.session(name)).submit("bash", ["git push"], request_id="call_1", metadata={"a": 1})
        assert again.request.digest == asked.request.digest
        digests.add(asked.request.digest)
    assert len(digests) == 3


async def test_a_call_that_names_the_sessions_folder_is_the_same_request(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", cwd=SCRATCH)
    first = await pend(session, "call_1")
    named = await session.submit("bash", ["git push"], request_id="call_1", cwd=SCRATCH)
    assert named.request == first.request


async def test_the_calls_of_a_tool_are_asked_in_their_folder_and_so_is_what_comes_first(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", options={"cwd": "/srv"}, rules=[], cwd="/srv")
    command = {"command": "cat /etc/hosts"}
    first = await session.submit_tool("bash", command, request_id="call_1", cwd="/srv/app")
    await session.reply(first.request_id, "once")
    own = await session.submit_tool("bash", command, request_id="call_1", cwd="/srv/app")
    assert (first.request.cwd, own.request.cwd) == ("/srv/app", "/srv/app")


async def test_what_ran_is_what_was_asked_also_where_the_session_says_the_folder(open_ledger: OpenLedger) -> None:
    from ledger.core.requests import make_question  # noqa: PLC0415 - the input of an agent

    session = await (await open_ledger()).session("ses_1", cwd=SCRATCH)
    await pend(session, "call_1")
    await session.reply("call_1", "once")
    await session.note_tool_finished("call_1", ran=make_question("bash", ["git push"]))
    await session.note_tool_finished("call_1", ran=make_question("bash", ["git push"], cwd=PRODUCTION))
    finished = [event.as_json()["event"] async for event in session.events(follow_on=False)][-2:]
    assert [one["as_asked"] for one in finished] == [True, False]


async def test_a_folder_that_is_not_absolute_is_refused(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    with pytest.raises(InputError, match="the working directory 'build' must be an absolute path"):
        await session.ask("bash", ["ls"], cwd="build")

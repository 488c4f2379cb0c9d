"""Clients choose ids, and some hold slashes: `%2F` in an address is part of an id, `/` is not."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from ledger.log.archive.archive import all_streams
from tests.gateway.callers import Caller, Served
from tests.gateway.events.listening import listening

SESSIONS = ["team/ses_1", "/", "//", "a/", "/a", "a%2Fb", "a%b", "ü/ß", "a/../b", "a?b#c/d"]


def encoded(one: str) -> str:
    return quote(one, safe="")


@pytest.mark.parametrize("session", SESSIONS)
async def test_every_route_of_a_session_takes_an_id_with_slashes(
    gateway: Served, admin_caller: Caller, session: str
) -> None:
    place, request_id, client = f"/v1/sessions/{encoded(session)}", f"{session}/r/1", f"phone/{session}"
    asked = f"{place}/asks/{encoded(request_id)}"
    assert (await admin_caller.put(place, {"project": "shop"})).json()["session"] == session
    answer = await admin_caller.post(
        f"{place}/asks", {"permission": "bash", "patterns": ["ls"], "request_id": request_id}
    )
    assert (answer.json()["request_id"], answer.headers["location"]) == (request_id, asked)
    at_client = f"{place}/clients/{encoded(client)}"
    assert (await admin_caller.put(at_client)).status_code == 200
    assert [one["client_id"] for one in (await admin_caller.get(place)).json()["clients"]] == [client]
    assert (await admin_caller.delete(at_client)).status_code == 204
    inbox = f"/v1/clients/{encoded(client)}"
    assert (await admin_caller.put(inbox)).json()["replayed"][0]["session"] == session
    assert (await admin_caller.delete(inbox)).status_code == 204
    async with listening(admin_caller, f"{place}/events") as stream:
        replayed, _ = await stream.named("snapshot.end")
        assert replayed.data["request_id"] == request_id
    assert (await admin_caller.get(asked)).json()["outcome"] is None
    assert (await admin_caller.post(f"{asked}/reply", {"reply": "once"})).json()["outcome"] == "allowed"
    for view in ("", "/state", "/timeline", "/log", "/verify"):
        assert (await admin_caller.get(place + view)).status_code == 200, view
    assert (await admin_caller.post(f"{place}/close")).json()["closed_at"] is not None
    assert [one async for one in all_streams(gateway.ledger.store) if one.kind == "session"] == [("session", session)]


async def test_opencodes_routes_take_them_too(admin_caller: Caller) -> None:
    await admin_caller.put("/v1/sessions/team%2Fses_1")
    for name in ("per/1", "per/2"):
        await admin_caller.ask("team%2Fses_1", name, request_id=name)
    assert [one["id"] for one in (await admin_caller.get("/permission")).json()] == ["per/1", "per/2"]
    one = await admin_caller.post("/permission/per%2f1/reply", {"reply": "once"})
    two = await admin_caller.post("/session/team%2Fses_1/permissions/per%2F2", {"response": "once"})
    assert (one.json(), two.json()) == (True, True)


async def test_a_slash_that_is_not_encoded_divides_an_address(admin_caller: Caller) -> None:
    await admin_caller.put("/v1/sessions/team%2Fses_1")
    await admin_caller.put("/v1/sessions/team")
    assert (await admin_caller.get("/v1/sessions/team/ses_1")).json()["code"] == "NOT_FOUND"
    assert (await admin_caller.get("/v1/sessions/team%2Fclose")).json()["code"] == "UNKNOWN_SESSION"
    assert (await admin_caller.get("/v1%2Fsessions")).json()["code"] == "NOT_FOUND"


@pytest.mark.parametrize("session", ["%FF", "a%C3", "%ED%B0%AF", "a%EF%80%AFb"])
async def test_nothing_is_at_an_address_that_is_no_utf_8_or_holds_what_stands_for_a_slash(
    gateway: Served, admin_caller: Caller, session: str
) -> None:
    assert (await admin_caller.put(f"/v1/sessions/{session}")).json()["code"] == "NOT_FOUND"
    assert [one async for one in all_streams(gateway.ledger.store) if one.kind == "session"] == []


@pytest.mark.parametrize("session", ["a%00b", "a%20b", "a%0Ab", "x" * 201, "%2F" * 201])
async def test_what_is_no_id_is_refused_however_it_is_written(
    gateway: Served, admin_caller: Caller, session: str
) -> None:
    refused = await admin_caller.put(f"/v1/sessions/{session}")
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")
    assert [one async for one in all_streams(gateway.ledger.store) if one.kind == "session"] == []

"""Attacks by an administrator of one project on others, and by an approver of one session."""

from __future__ import annotations

from typing import Any

import pytest

from tests.attacks.test_passkeys import enrolled
from tests.gateway.callers import Caller, Served
from workers.gateway.authentication import PROOF_HEADER
from workers.gateway.provider_settings import RoleOfGroup
from workers.gateway.routes.identity import code_for
from workers.gateway.signing_in import sign_in_link


@pytest.fixture
async def shop_admin(gateway: Served) -> Caller:
    return await gateway.caller("admin", "boss", projects=["shop"])


@pytest.mark.parametrize("role", ["admin", "approver", "auditor", "agent"])
@pytest.mark.parametrize(
    "reach",
    [{}, {"projects": ["bank"]}, {"projects": ["shop", "bank"]}, {"sessions": ["ses_1"]}, {"projects": []}],
)
async def test_making_a_token_that_reaches_further(shop_admin: Caller, role: str, reach: dict[str, Any]) -> None:
    refused = await shop_admin.post("/v1/tokens", {"name": "x", "role": role, **reach})
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert "`shop`" in refused.json()["detail"]


async def test_making_a_token_that_reaches_further_than_one_session(gateway: Served) -> None:
    one = await gateway.caller("admin", "boss", sessions=["ses_1"])
    for reach in ({}, {"sessions": ["ses_2"]}, {"projects": ["shop"]}):
        assert (await one.post("/v1/tokens", {"name": "x", "role": "agent", **reach})).status_code == 403
    made = await one.post("/v1/tokens", {"name": "x", "role": "agent", "sessions": ["ses_1"]})
    assert made.status_code == 201


async def test_a_token_within_the_project_is_made_listed_and_ended(gateway: Served, shop_admin: Caller) -> None:
    body = {"name": "sub", "role": "admin", "projects": ["shop"]}
    made = (await shop_admin.post("/v1/tokens", body)).json()
    below = gateway.caller_with(made["token"])
    assert (await below.post("/v1/tokens", {"name": "y", "role": "admin"})).status_code == 403
    listed = (await shop_admin.get("/v1/tokens")).json()["tokens"]
    assert [one["name"] for one in listed] == ["boss", "sub"]
    assert (await shop_admin.delete(f"/v1/tokens/{made['token_id']}")).status_code == 204


async def test_listing_and_ending_the_tokens_of_others(gateway: Served, shop_admin: Caller) -> None:
    tokens = gateway.ledger.tokens
    others = [
        await tokens.create("root", "admin"),
        await tokens.create("bank", "approver", projects=["bank"]),
        await tokens.create("both", "auditor", projects=["shop", "bank"]),
        await tokens.create("one", "approver", sessions=["ses_1"]),
        await tokens.create("worker", "agent"),
    ]
    seen = {one["token_id"] for one in (await shop_admin.get("/v1/tokens")).json()["tokens"]}
    for made in others:
        assert made.token.token_id not in seen
        refused = await shop_admin.delete(f"/v1/tokens/{made.token.token_id}")
        unknown = await shop_admin.delete("/v1/tokens/tok_nobody")
        assert (refused.status_code, refused.json()["code"]) == (404, "UNKNOWN_TOKEN")
        assert refused.json()["detail"] == unknown.json()["detail"].replace("tok_nobody", made.token.token_id)
        assert tokens.still_in_force(made.token.token_id)


async def test_an_agent_s_token_is_its_project_s_once_it_has_claimed_it(gateway: Served, shop_admin: Caller) -> None:
    agent = await gateway.caller("agent")
    names = [one["name"] for one in (await shop_admin.get("/v1/tokens")).json()["tokens"]]
    await agent.put("/v1/sessions/s1", {"project": "shop"})
    after = [one["name"] for one in (await shop_admin.get("/v1/tokens")).json()["tokens"]]
    assert (names, after) == (["boss"], ["boss", "agent"])


async def test_reaching_beyond_the_project_by_any_other_route(
    gateway: Served, admin_caller: Caller, shop_admin: Caller
) -> None:
    await admin_caller.put("/v1/sessions/vault", {"project": "bank"})
    await admin_caller.ask("vault", request_id="r1")
    grant = (await admin_caller.post("/v1/grants", {"project": "bank", "permission": "bash", "pattern": "x"})).json()
    place = "/v1/sessions/vault"
    for answer in [
        await shop_admin.put(place),
        await shop_admin.put("/v1/sessions/new", {"project": "bank"}),
        await shop_admin.put("/v1/sessions/child", {"project": "shop", "parent": "vault"}),
        await shop_admin.get(place),
        await shop_admin.post(f"{place}/close"),
        await shop_admin.post(f"{place}/asks/r1/reply", {"reply": "once"}),
        await shop_admin.post(f"{place}/asks/r1/answered", {"reply": "once", "prompt": "x"}),
        await shop_admin.post("/permission/r1/reply", {"reply": "once"}),
        await shop_admin.post("/session/vault/permissions/r1", {"response": "once"}),
        await shop_admin.put(f"{place}/clients/phone"),
        await shop_admin.get("/v1/grants?project=bank"),
        await shop_admin.post("/v1/grants", {"project": "bank", "permission": "bash", "pattern": "*"}),
        await shop_admin.delete(f"/v1/grants/{grant['grant_id']}"),
        await shop_admin.get("/metrics"),
    ]:
        assert answer.status_code in (400, 403, 404), answer.text
    assert (await shop_admin.get("/v1/grants")).json()["grants"] == []
    assert (await admin_caller.get(f"{place}/asks/r1")).json()["outcome"] is None
    browser = await gateway.browser((await gateway.ledger.tokens.create("b", "admin", projects=["shop"])).text)
    browser.http.headers["Origin"] = "http://gateway"
    assert (await browser.post("/v1/tokens", {"name": "x", "role": "admin"})).status_code == 403
    assert (await browser.get(place)).status_code == 404


@pytest.mark.parametrize("role", ["approver", "admin"])
async def test_a_grant_of_the_whole_project_by_who_reaches_one_session(
    gateway: Served, admin_caller: Caller, role: Any
) -> None:
    await admin_caller.put("/v1/sessions/ses_1", {"project": "shop"})
    for request_id in ("per_1", "per_2", "per_3"):
        await admin_caller.ask("ses_1", f"git {request_id}", request_id=request_id, always=["git *"])
    one = await gateway.caller(role, "eve", sessions=["ses_1"])
    for path, body in [
        ("/v1/sessions/ses_1/asks/per_1/reply", {"reply": "always"}),
        ("/permission/per_1/reply", {"reply": "always"}),
        ("/session/ses_1/permissions/per_1", {"response": "always"}),
    ]:
        assert (await one.post(path, body)).status_code == 403
    assert (await admin_caller.get("/v1/grants?project=shop")).json()["grants"] == []
    answered = await one.post("/v1/sessions/ses_1/asks/per_1/reply", {"reply": "session"})
    assert answered.json()["outcome"] == "allowed"


# --- names of other people ------------------------------------------------------------------------------------------


async def test_making_a_token_in_the_name_of_another_person(gateway: Served, shop_admin: Caller) -> None:
    await gateway.caller("approver", "ann", projects=["bank"])
    made = await shop_admin.post("/v1/tokens", {"name": "eve", "role": "admin", "projects": ["shop"]})
    eve = gateway.caller_with(made.json()["token"])
    for who in (shop_admin, eve):
        for body in (
            {"name": "ann", "role": "approver", "projects": ["shop"]},
            {"name": " ANN", "role": "admin", "projects": ["shop"]},
            {"name": "robot", "role": "agent", "owner": "ann", "projects": ["shop"]},
            {"name": "robot", "role": "agent", "owner": "nobody yet", "projects": ["shop"]},
        ):
            refused = await who.post("/v1/tokens", body)
            assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN"), body
    assert (await shop_admin.post("/v1/tokens", {"name": "boss", "role": "approver", "projects": ["shop"]})).is_success
    assert (await shop_admin.post("/v1/tokens", {"name": "robot", "role": "agent", "projects": ["shop"]})).is_success


async def test_a_name_with_a_passkey_belongs_to_its_person(gateway: Served, shop_admin: Caller) -> None:
    await enrolled(gateway.ledger, "ann")
    refused = await shop_admin.post("/v1/tokens", {"name": "ann", "role": "approver", "projects": ["shop"]})
    assert refused.status_code == 403


async def test_a_token_in_another_name_says_who_made_it(gateway: Served, admin_caller: Caller) -> None:
    await gateway.caller("approver", "ann")
    made = (await admin_caller.post("/v1/tokens", {"name": "ann", "role": "approver", "owner": "root"})).json()
    own = (await admin_caller.post("/v1/tokens", {"name": "Root", "role": "approver"})).json()
    assert (made["made_by"], own["made_by"]) == ("root", None)
    assert (await gateway.caller_with(made["token"]).get("/v1/me")).json()["made_by"] == "root"
    rows = (await admin_caller.get("/v1/tokens")).json()["tokens"]
    assert [row["made_by"] for row in rows if row["name"] == "ann"] == [None, "root"]


async def test_enrolling_a_passkey_or_setting_quiet_hours_in_the_name_of_another(
    gateway: Served, shop_admin: Caller
) -> None:
    made = (await shop_admin.post("/v1/tokens", {"name": "zoe", "role": "approver", "projects": ["shop"]})).json()
    browser = await gateway.browser(made["token"])
    browser.http.headers["Origin"] = "http://gateway"
    body = {"quiet": {"begin": "00:00", "until": "23:59", "zone": "UTC"}, "muted": []}
    for refused in (
        await browser.post("/v1/passkeys/challenge", {"action": "register"}),
        await browser.post("/v1/passkeys", {"name": "x", "response": {}, "nonce": "n", "until_ms": 1}),
        await browser.put("/v1/notifications", body),
    ):
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN"), refused.text
        assert "`boss` made this token under the name `zoe`" in refused.json()["detail"]


async def test_the_first_link_of_a_machine_and_a_provider_s_sign_in_prove_their_names(gateway: Served) -> None:
    tokens = gateway.ledger.tokens
    code = (await sign_in_link(tokens, "http://gateway", "ann")).partition("code=")[2]
    visitor = gateway.caller_with(None)
    signed_in = await visitor.post("/v1/sign-in", {"code": code}, Origin="http://gateway")
    visitor.http.headers[PROOF_HEADER] = signed_in.json()["proof"]
    assert (await visitor.get("/v1/me")).json()["made_by"] is None
    roles = (RoleOfGroup(group="dev", role="approver"),)
    found = await tokens.find(await code_for(tokens, "bob", ["dev"], roles, 60_000))
    assert found.made_by is None

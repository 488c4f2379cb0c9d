"""Tokens over HTTP: create, list, revoke; sign-in and sign-out of browsers; limits for a page of another origin."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from ledger.stores.port import START
from tests.gateway.callers import Caller, Served
from workers.gateway.authentication import PROOF_HEADER
from workers.gateway.signing_in import sign_in_link

ORIGIN = "http://gateway"


async def test_a_token_is_shown_once_and_is_good_until_it_is_revoked(gateway: Served, admin_caller: Caller) -> None:
    made = (await admin_caller.post("/v1/tokens", {"name": "ann", "role": "approver", "expires": "30d"})).json()
    ann = gateway.caller_with(made["token"])
    assert (await ann.get("/v1/me")).json()["name"] == "ann"
    listed = (await admin_caller.get("/v1/tokens")).json()["tokens"]
    assert [one["name"] for one in listed if "token" in one] == []
    assert (await admin_caller.delete(f"/v1/tokens/{made['token_id']}?reason=lost")).status_code == 204
    gone = await ann.get("/v1/me")
    assert (gone.status_code, gone.json()["code"], gone.headers["www-authenticate"]) == (401, "UNAUTHORIZED", "Bearer")


async def test_a_token_ends_by_itself(gateway: Served, admin_caller: Caller, clock: Any) -> None:
    made = (await admin_caller.post("/v1/tokens", {"name": "x", "role": "auditor", "expires": "1h"})).json()
    auditor = gateway.caller_with(made["token"])
    assert (await auditor.get("/v1/me")).status_code == 200
    clock.advance("1h")
    assert (await auditor.get("/v1/me")).status_code == 401


async def test_only_the_hash_of_a_token_is_in_the_log(ledger: Ledger) -> None:
    made = await ledger.tokens.create("ann", "approver")
    secret = made.text.split("_", 3)[3]  # may have underscores itself
    entries = await ledger.store.read(ledger.streams.access().key, START, 100)
    assert [entry for entry in entries if secret.encode() in entry.payload] == []


@pytest.mark.parametrize("text", ["x", "plt_", "plt_tok_1_x", "Basic abc", "plt_tok_" + "1" * 500])
async def test_what_is_no_token_is_refused(gateway: Served, text: str) -> None:
    refused = await gateway.caller_with(None).get("/v1/me", Authorization=f"Bearer {text}")
    assert refused.status_code == 401


async def test_a_browser_signs_in_with_a_token_and_ends_with_it(gateway: Served, ledger: Ledger) -> None:
    made = await ledger.tokens.create("ann", "approver")
    browser = gateway.caller_with(None)
    signed_in = await browser.post("/v1/sign-in", {"token": made.text}, Origin=ORIGIN)
    cookie = signed_in.headers["set-cookie"]
    assert signed_in.status_code == 200
    assert all(flag in cookie for flag in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert signed_in.json()["proof"] not in cookie
    with_proof = {PROOF_HEADER: signed_in.json()["proof"]}
    assert (await browser.get("/v1/me", **with_proof)).json()["via"] == "inbox"
    await ledger.tokens.revoke(made.token.token_id)
    assert (await browser.get("/v1/me", **with_proof)).json()["code"] == "UNAUTHORIZED"


async def test_a_cookie_counts_only_with_the_proof_of_its_own_sign_in(gateway: Served, ledger: Ledger) -> None:
    made = await ledger.tokens.create("ann", "approver")
    first, second = await gateway.browser(made.text), await gateway.browser(made.text)
    assert (await first.get("/v1/me")).status_code == 200
    first.http.headers[PROOF_HEADER] = second.http.headers[PROOF_HEADER]
    for method, path in (("GET", "/v1/me"), ("GET", "/v1/pending"), ("GET", "/v1/events"), ("PUT", "/v1/clients/c1")):
        refused = await first.send(method, path, {}, Origin=ORIGIN)
        assert (refused.status_code, refused.json()["code"]) == (401, "SIGN_IN_AGAIN")
    assert (await second.get("/v1/me")).status_code == 200


async def test_a_signed_in_browser_changes_nothing_for_another_page(gateway: Served, ledger: Ledger) -> None:
    browser = await gateway.browser((await ledger.tokens.create("root", "admin")).text)
    body = {"project": "shop", "permission": "bash", "patterns": ["*"]}
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"}):
        refused = await browser.post("/v1/grants", body, **headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "CSRF")
    assert (await browser.post("/v1/grants", body, Origin=ORIGIN)).status_code == 201


async def test_nobody_is_signed_in_as_somebody_else_by_another_page(gateway: Served, ledger: Ledger) -> None:
    made = await ledger.tokens.create("eve", "approver")
    browser = gateway.caller_with(None)
    refused = await browser.post("/v1/sign-in", {"token": made.text}, Origin="http://evil.example")
    assert refused.json()["code"] == "CSRF"


async def test_signing_out_ends_the_browser_s_token(gateway: Served, ledger: Ledger) -> None:
    browser = await gateway.browser((await ledger.tokens.create("ann", "approver")).text)
    stolen = gateway.caller_with(None)
    stolen.http.cookies.set("permission_ledger", browser.http.cookies["permission_ledger"])
    assert (await stolen.post("/v1/sign-out", Origin=ORIGIN)).status_code == 204
    assert (await browser.get("/v1/me")).status_code == 200
    stolen.http.cookies.set("permission_ledger", browser.http.cookies["permission_ledger"])
    stolen.http.headers[PROOF_HEADER] = browser.http.headers[PROOF_HEADER]
    assert (await browser.post("/v1/sign-out", Origin=ORIGIN)).status_code == 204
    assert (await stolen.get("/v1/me")).json()["code"] == "UNAUTHORIZED"


async def test_a_browser_s_cookie_is_no_bearer_token_nor_the_other_way_round(gateway: Served, ledger: Ledger) -> None:
    made = await ledger.tokens.create("ann", "approver")
    browser = await gateway.browser(made.text)
    stolen = gateway.caller_with(browser.http.cookies["permission_ledger"])
    assert (await stolen.get("/v1/me")).status_code == 401
    other = gateway.caller_with(None)
    other.http.cookies.set("permission_ledger", made.text)
    assert (await other.get("/v1/me")).status_code == 401


async def test_a_link_is_good_for_one_token_and_fifteen_minutes(ledger: Ledger, clock: Any) -> None:
    link = await sign_in_link(ledger.tokens, "http://gateway", "ann")
    code = link.partition("code=")[2]
    found = await ledger.tokens.find(code)
    assert (found.use, found.role) == ("sign_in", "admin")
    clock.advance("15m")
    with pytest.raises(Exception, match="expired"):
        await ledger.tokens.find(code)


async def test_a_link_signs_in_by_its_code_once_and_looking_at_it_uses_nothing_up(
    gateway: Served, ledger: Ledger
) -> None:
    link = await sign_in_link(ledger.tokens, ORIGIN, "ann")
    page, code = link.removeprefix(ORIGIN), link.partition("code=")[2]
    first, second = gateway.caller_with(None), gateway.caller_with(None)
    assert [(await first.get(page)).status_code for _ in range(2)] == [200, 200]
    proof = (await first.post("/v1/sign-in", {"code": code}, Origin=ORIGIN)).json()["proof"]
    assert (await first.get("/v1/me", **{PROOF_HEADER: proof})).json()["name"] == "ann"
    again = await second.post("/v1/sign-in", {"code": code}, Origin=ORIGIN)
    assert (again.status_code, again.json()["code"]) == (401, "UNAUTHORIZED")


async def test_signing_in_takes_a_token_or_a_code_and_not_both(gateway: Served) -> None:
    browser = gateway.caller_with(None)
    for body in ({}, {"token": "plt_x", "code": "plt_y"}):
        refused = await browser.post("/v1/sign-in", body, Origin=ORIGIN)
        assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")


async def test_the_same_key_makes_the_same_token(admin_caller: Caller) -> None:
    body = {"name": "ci", "role": "agent"}
    first = await admin_caller.post("/v1/tokens", body, Idempotency_Key="k1")
    again = await admin_caller.post("/v1/tokens", body, Idempotency_Key="k1")
    assert (first.status_code, first.json()) == (201, again.json())
    listed = (await admin_caller.get("/v1/tokens")).json()["tokens"]
    assert [one["name"] for one in listed].count("ci") == 1


async def test_the_same_key_asks_once_and_grants_once(admin_caller: Caller) -> None:
    await admin_caller.put("/v1/sessions/ses_1", {"project": "shop"})
    ask = {"permission": "bash", "patterns": ["git push"]}
    grant = {"project": "shop", "permission": "bash", "patterns": ["ls", "pwd"]}
    for path, body in (
        ("/v1/sessions/ses_1/asks", ask),
        ("/v1/grants", grant),
        ("/v1/sessions/ses_1/tools-finished", {}),
    ):
        answers = [await admin_caller.post(path, body, Idempotency_Key="k1") for _ in range(2)]
        assert answers[0].content == answers[1].content
    assert (await admin_caller.get("/v1/sessions/ses_1")).json()["version"] == 3
    assert len((await admin_caller.get("/v1/grants?project=shop")).json()["grants"]) == 2


async def test_tokens_come_in_pages_where_a_limit_is_given(gateway: Served) -> None:
    root = await gateway.caller("admin", "root")
    for number in range(4):
        await gateway.ledger.tokens.create(f"agent-{number}", "agent")
    whole = (await root.get("/v1/tokens")).json()
    seen: list[str] = []
    query = "?limit=2"
    while True:
        page = (await root.get(f"/v1/tokens{query}")).json()
        seen += [one["token_id"] for one in page["tokens"]]
        if page["cursor"] is None:
            break
        query = f"?limit=2&cursor={page['cursor']}"
    assert (seen, whole["cursor"]) == ([one["token_id"] for one in whole["tokens"]], None)
    refused = await root.get("/v1/tokens?cursor=tok_none")
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")

"""Attacks with the approver's browser, without the device that verifies the approver."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from playwright.async_api import CDPSession, Route, expect

from ledger import Session
from ledger.stores.port import StreamKey
from tests.gateway.inbox.visitors import Inbox, Visitor
from workers.upkeep.stream_checks import check_stream, read_anchors

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEMANDS: Final = [{"answer_by": "passkey", "permission": "bash", "pattern": "git push*"}]
DEVICE: Final = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class Device:
    """Chromium's virtual authenticator, in one person's browser."""

    def __init__(self, cdp: CDPSession, authenticator: str) -> None:
        self._cdp = cdp
        self._authenticator = authenticator

    async def verifies(self, verified: bool) -> None:
        """Set whether the authenticator verifies its user from now on, as by a fingerprint."""
        told = {"authenticatorId": self._authenticator, "isUserVerified": verified}
        await self._cdp.send("WebAuthn.setUserVerified", told)


async def enrolled(inbox: Inbox) -> tuple[Visitor, Device]:
    """Ann, who has registered the passkey of her device on her account page."""
    inbox.url = inbox.url.replace("127.0.0.1", "localhost")
    ann = await inbox.visit("ann", None)
    cdp = await ann.context.new_cdp_session(ann.page)
    await cdp.send("WebAuthn.enable")
    added = await cdp.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})
    await ann.go("/account")
    await ann.page.get_by_label("Name of the passkey").fill("laptop")
    await ann.page.get_by_role("button", name="Register a passkey").click()
    await expect(ann.page.get_by_label("Your passkeys")).to_contain_text("laptop")
    return ann, Device(cdp, added["authenticatorId"])


async def waiting(inbox: Inbox, request_id: str = "r1", command: str = "git push origin") -> Session:
    session = await inbox.session(demands=DEMANDS)
    result = await session.submit("bash", [command], request_id=request_id, always=[command])
    assert result.outcome is None
    return session


async def is_proven(inbox: Inbox, session: Session) -> bool:
    anchors = await read_anchors(inbox.ledger.store, None)
    checked = await check_stream(inbox.ledger.store, StreamKey("session", session.id), None, anchors)
    project = await check_stream(inbox.ledger.store, StreamKey("project", "shop"), None, anchors)
    return checked.ok and (project.ok or not project.is_there)


async def test_the_person_with_the_device_signs_an_always(inbox: Inbox) -> None:
    ann, _ = await enrolled(inbox)
    session = await waiting(inbox)
    await ann.go()
    await ann.press("git push origin", "Always allow in shop")
    await expect(ann.card("git push origin")).to_contain_text("Allowed by you")
    result = await session.result("r1")
    assert (result.outcome, result.reply) == ("allowed", "always")
    assert result.settled is not None
    assert result.settled.proof is not None
    assert (await session.submit("bash", ["git push origin"], request_id="r2")).allowed, "its grant was signed, too"
    assert await is_proven(inbox, session)


async def test_the_person_with_the_device_signs_a_rejection(inbox: Inbox) -> None:
    ann, _ = await enrolled(inbox)
    session = await waiting(inbox)
    await ann.go()
    await ann.press("git push origin", "Reject…")
    await ann.press("git push origin", "Reject and stop")
    await expect(ann.card("git push origin")).to_contain_text("Rejected")
    result = await session.result("r1")
    assert result.settled is not None
    assert result.settled.proof is not None
    assert await is_proven(inbox, session)


async def test_pressing_the_button_where_the_device_does_not_know_the_person(inbox: Inbox) -> None:
    ann, device = await enrolled(inbox)
    session = await waiting(inbox)
    await device.verifies(False)
    await ann.go()
    await ann.press("git push origin", "Allow once")
    await expect(ann.card("git push origin")).to_contain_text("your device did not sign")
    assert (await session.result("r1")).outcome is None


async def test_answering_in_a_browser_without_the_passkey(inbox: Inbox) -> None:
    await enrolled(inbox)
    session = await waiting(inbox)
    thief = await inbox.visit("mallory")
    await thief.press("git push origin", "Allow once")
    await expect(thief.card("git push origin")).to_contain_text("no passkey here")
    assert (await session.result("r1")).outcome is None


async def changed(ann: Visitor, change: dict[str, Any]) -> list[dict[str, Any]]:
    """Change every signed answer between page and gateway; yield the signed ones."""
    signed: list[dict[str, Any]] = []

    async def meddle(route: Route) -> None:
        body = json.loads(route.request.post_data or "{}")
        if "signed" in body:
            signed.append(body["signed"])
            body.update(change)
        await route.continue_(post_data=json.dumps(body))

    await ann.page.route("**/reply", meddle)
    return signed


async def test_making_an_always_of_a_signed_once_in_the_browser(inbox: Inbox) -> None:
    ann, _ = await enrolled(inbox)
    session = await waiting(inbox)
    signed = await changed(ann, {"reply": "always"})
    await ann.go()
    await ann.press("git push origin", "Allow once")
    await expect(ann.card("git push origin")).to_contain_text("has changed since it was shown; sign again")
    assert len(signed) == 1
    assert (await session.result("r1")).outcome is None


async def test_using_a_signature_for_another_request_in_the_browser(inbox: Inbox) -> None:
    ann, _ = await enrolled(inbox)
    session = await waiting(inbox)
    signed = await changed(ann, {})
    await ann.go()
    await ann.press("git push origin", "Allow once")
    await expect(ann.card("git push origin")).to_contain_text("Allowed by you")
    await waiting(inbox, "r2", "git push --force")
    await changed(ann, {"signed": signed[0]})
    await ann.press("git push --force", "Allow once")
    await expect(ann.card("git push --force")).to_contain_text("sign again")
    assert (await session.result("r2")).outcome is None


async def test_a_page_at_an_ip_address_offers_the_one_where_passkeys_work(inbox: Inbox) -> None:
    ann = await inbox.visit("ann", "/account")
    better = inbox.url.replace("127.0.0.1", "localhost") + "/"
    await expect(ann.page.get_by_role("link", name=better)).to_have_attribute("href", better)
    await expect(ann.page.get_by_role("button", name="Register a passkey")).to_have_count(0)

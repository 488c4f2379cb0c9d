"""Notifications over HTTP: devices of a signed-in browser alone, tests, choices, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ledger import Ledger
from ledger.core.extras import install_line
from ledger.core.limits import DEVICES_PER_PERSON_COUNT
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served, in_process
from tests.support.push import PushService, push_service, trusted
from workers.gateway.settings import GatewaySettings

OWN = {"Origin": "http://gateway"}
QUIET = {"begin": "22:00", "until": "07:00", "zone": "Europe/Berlin", "days": [0, 4], "grave": True}


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PushService]:
    async with push_service(tmp_path) as one:
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted(tmp_path)))
        yield one


@pytest.fixture
async def pushing(ledger: Ledger, service: PushService) -> AsyncIterator[Served]:
    settings = GatewaySettings(push_contact="ops@example.com", push_services=(service.place,))
    async with in_process(ledger, settings) as one:
        yield one


async def browser(gateway: Served, name: str = "ann", role: Any = "approver", **scope: Any) -> Caller:
    """A browser in which somebody signed in with a token of their own."""
    caller = await gateway.browser((await gateway.ledger.tokens.create(name, role, **scope)).text)
    caller.http.headers.update(OWN)
    return caller


async def subscribe(caller: Caller, service: PushService, name: str = "phone", **more: Any) -> httpx.Response:
    subscriber = service.subscriber(name)
    body = {"name": name, "endpoint": subscriber.endpoint, "keys": subscriber.keys, **more}
    return await caller.post("/v1/notifications/devices", body)


async def test_a_browser_subscribes_is_listed_tested_and_removed(pushing: Served, service: PushService) -> None:
    ann = await browser(pushing)
    made = await subscribe(ann, service)
    assert made.status_code == 201, made.text
    device = made.json()["device_id"]
    tested = await ann.post(f"/v1/notifications/devices/{device}/test")
    assert (tested.status_code, tested.json()) == (200, {"sent": "accepted"})
    (message,) = service.to("phone")
    assert message.payload == {"kind": "test", "name": "phone"}
    found = (await ann.get("/v1/notifications")).json()
    assert message.key == found["public_key"]
    (row,) = found["devices"]
    assert (row["name"], row["is_this"]) == ("phone", True)
    assert row["used_at"] is not None
    assert "localhost" not in str(found), "an endpoint is told to nobody"
    assert (await ann.delete(f"/v1/notifications/devices/{device}")).status_code == 204
    assert (await ann.get("/v1/notifications")).json()["devices"] == []
    again = await ann.delete(f"/v1/notifications/devices/{device}")
    assert (again.status_code, again.json()["code"]) == (404, "UNKNOWN_DEVICE")


async def test_a_browser_with_another_address_keeps_its_device(pushing: Served, service: PushService) -> None:
    ann, ben = await browser(pushing), await browser(pushing, "ben")
    device = (await subscribe(ann, service)).json()["device_id"]
    old = service.subscriber("phone").endpoint
    theirs = await subscribe(ben, service, "stolen", replaces=old)
    moved = await subscribe(ann, service, "moved", replaces=old)
    assert (moved.json()["device_id"], theirs.json()["device_id"] == device) == (device, False)
    standing = {one.device_id: one.endpoint for one in await pushing.ledger.notifications.all()}
    assert standing == {
        device: service.subscriber("moved").endpoint,
        theirs.json()["device_id"]: service.subscriber("stolen").endpoint,
    }


async def test_two_gateways_have_the_same_key(pushing: Served, ledger: Ledger) -> None:
    settings = GatewaySettings(push_contact="ops@example.com")
    async with in_process(ledger, settings) as other:
        keys = [(await (await browser(one)).get("/v1/notifications")).json()["public_key"] for one in (pushing, other)]
    assert keys[0] == keys[1] is not None


async def test_a_token_makes_no_subscription_nor_does_an_agent(pushing: Served, service: PushService) -> None:
    ann, agent = await pushing.caller("approver", "ann"), await pushing.caller("agent", "worker")
    refused = await subscribe(ann, service)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert "a browser in which you signed in" in refused.json()["detail"]
    assert (await subscribe(agent, service)).status_code == 403
    assert (await ann.put("/v1/notifications", {"muted": []})).json()["code"] == "FORBIDDEN"
    assert (await ann.get("/v1/notifications")).json()["why_not"] == refused.json()["detail"]
    assert (await pushing.ledger.notifications.all()) == []


async def test_a_page_of_another_origin_and_a_cookie_without_its_proof_change_nothing(
    pushing: Served, service: PushService
) -> None:
    ann = await browser(pushing)
    device = (await subscribe(ann, service)).json()["device_id"]
    for headers in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "same-site"}):
        for method, path in (
            ("POST", "/v1/notifications/devices"),
            ("POST", f"/v1/notifications/devices/{device}/test"),
            ("DELETE", f"/v1/notifications/devices/{device}"),
            ("PUT", "/v1/notifications"),
        ):
            refused = await ann.send(method, path, {}, **headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "CSRF")
    ann.http.headers.pop("Permission-Ledger-Proof")
    assert (await subscribe(ann, service, "tablet")).json()["code"] == "SIGN_IN_AGAIN"


async def test_nobody_reaches_a_device_of_somebody_else(pushing: Served, service: PushService) -> None:
    ann, bob = await browser(pushing), await browser(pushing, "bob")
    device = (await subscribe(ann, service)).json()["device_id"]
    for answer in (
        await bob.post(f"/v1/notifications/devices/{device}/test"),
        await bob.delete(f"/v1/notifications/devices/{device}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "UNKNOWN_DEVICE")
    assert (await bob.get("/v1/notifications")).json()["devices"] == []
    assert service.received == []


async def test_signing_out_and_revoking_the_token_end_the_devices(pushing: Served, service: PushService) -> None:
    ann = await browser(pushing)
    await subscribe(ann, service)
    assert len(pushing.ledger.notifications.in_force("ann")) == 1
    await ann.post("/v1/sign-out")
    assert pushing.ledger.notifications.in_force("ann") == []
    bearer = await pushing.ledger.tokens.create("bob", "approver")
    bob = await pushing.browser(bearer.text)
    bob.http.headers.update(OWN)
    await subscribe(bob, service, "bobs")
    await pushing.ledger.tokens.revoke(bearer.token.token_id)
    assert pushing.ledger.notifications.in_force("bob") == []


async def test_signing_in_again_renews_the_device_of_the_same_browser(pushing: Served, service: PushService) -> None:
    first = await subscribe(await browser(pushing), service)
    subscriber = service._subscribers["/phone"]
    again = await browser(pushing)
    body = {"name": "Pixel", "endpoint": subscriber.endpoint, "keys": subscriber.keys}
    renewed = await again.post("/v1/notifications/devices", body)
    assert renewed.json()["device_id"] == first.json()["device_id"]
    assert [one["name"] for one in (await again.get("/v1/notifications")).json()["devices"]] == ["Pixel"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"endpoint": "https://169.254.169.254/latest"}, "`169.254.169.254` is not a push service known here"),
        ({"endpoint": "http://fcm.googleapis.com/x"}, "must be an `https://` address"),
        ({"endpoint": ""}, "must be an `https://` address"),
        ({"endpoint": "https://fcm.googleapis.com/" + "x" * 3000}, "at most 2048"),
        ({"keys": {"p256dh": "B" * 87, "auth": "a" * 22}}, "its keys are not those of a subscription"),
        ({"keys": {"p256dh": "x", "auth": "a" * 22}}, "its keys are not those of a subscription"),
        ({"name": " "}, "name of the device"),
        ({"name": "x" * 300}, "name of the device"),
        ({"name": "a\nb"}, "characters that cannot be shown"),
        ({"person": "bob"}, "person"),
    ],
)
async def test_a_subscription_that_is_none_is_refused_with_the_reason(
    pushing: Served, service: PushService, more: dict[str, Any], why: str
) -> None:
    subscriber = service.subscriber("phone")
    body = {"name": "phone", "endpoint": subscriber.endpoint, "keys": subscriber.keys, **more}
    refused = await (await browser(pushing)).post("/v1/notifications/devices", body)
    assert refused.status_code in (400, 422)
    assert why in refused.text
    assert (await pushing.ledger.notifications.all()) == []


async def test_the_eleventh_device_is_refused_until_one_is_removed(pushing: Served, service: PushService) -> None:
    ann = await browser(pushing)
    made = [await subscribe(ann, service, f"d{number}") for number in range(DEVICES_PER_PERSON_COUNT)]
    assert {one.status_code for one in made} == {201}
    refused = await subscribe(ann, service, "one-more")
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")
    await ann.delete(f"/v1/notifications/devices/{made[0].json()['device_id']}")
    assert (await subscribe(ann, service, "one-more")).status_code == 201


async def test_a_test_of_a_device_that_is_gone_removes_it(pushing: Served, service: PushService) -> None:
    ann = await browser(pushing)
    device = (await subscribe(ann, service)).json()["device_id"]
    service.status["phone"] = 410
    assert (await ann.post(f"/v1/notifications/devices/{device}/test")).json() == {"sent": "gone"}
    assert (await ann.get("/v1/notifications")).json()["devices"] == []


async def test_quiet_hours_and_muted_services_are_kept_for_the_person(pushing: Served) -> None:
    ann = await browser(pushing)
    await pushing.ledger.notifications.name_services({"ann": ("ntfy", "mailto"), "bob": ("slack",)})
    chosen = await ann.put("/v1/notifications", {"quiet": QUIET, "muted": ["ntfy"]})
    assert (chosen.status_code, chosen.json()) == (200, {"quiet": QUIET, "muted": ["ntfy"]})
    found = (await ann.get("/v1/notifications")).json()
    assert (found["quiet"], found["muted"], found["services"]) == (QUIET, ["ntfy"], ["ntfy", "mailto"])
    assert (await (await browser(pushing, "bob")).get("/v1/notifications")).json()["quiet"] is None
    await ann.put("/v1/notifications", {})
    assert (await ann.get("/v1/notifications")).json()["quiet"] is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"muted": ["slack"]}, "you have no service `slack`"),
        ({"quiet": {**QUIET, "zone": "Mars/Base"}}, "`Mars/Base` is not a time zone known here"),
        ({"quiet": {**QUIET, "begin": "25:00"}}, "begin"),
        ({"quiet": {**QUIET, "until": "22:00"}}, "must end at another time"),
        ({"quiet": {**QUIET, "days": [9]}}, "name the days"),
        ({"quite": QUIET}, "quite"),
    ],
)
async def test_a_choice_that_makes_no_sense_is_refused(pushing: Served, body: dict[str, Any], why: str) -> None:
    refused = await (await browser(pushing)).put("/v1/notifications", body)
    assert refused.status_code in (400, 422)
    assert why in refused.text


async def test_without_a_contact_the_gateway_says_what_is_missing(gateway: Served, service: PushService) -> None:
    ann = await browser(gateway)
    found = (await ann.get("/v1/notifications")).json()
    assert (found["push"], found["public_key"]) == (False, None)
    assert "start it with `serve --push-contact" in found["why_not"]
    assert (await subscribe(ann, service)).json()["code"] == "PUSH_UNAVAILABLE"


async def test_without_the_extra_the_gateway_says_how_to_get_it_and_serves_the_rest(
    pushing: Served, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.gateway.notifications.is_installed", lambda _: False)
    ann = await browser(pushing)
    found = (await ann.get("/v1/notifications")).json()
    assert install_line("push") in found["why_not"]
    assert (await subscribe(ann, service)).json()["code"] == "PUSH_UNAVAILABLE"
    assert (await ann.put("/v1/notifications", {"quiet": QUIET})).status_code == 200


async def test_an_expired_sign_in_gets_no_messages_and_does_not_count(
    pushing: Served, service: PushService, clock: TestClock
) -> None:
    ann = await browser(pushing, expires_in_ms=60_000)
    await subscribe(ann, service)
    clock.advance("2m")
    assert pushing.ledger.notifications.in_force("ann") == []

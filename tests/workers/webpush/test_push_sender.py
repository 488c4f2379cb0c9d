"""One push message to one device: encrypted for it, signed by the deployment, to known services alone."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from ledger.access.notifications import Device
from ledger.core.errors import InputError
from tests.support.push import PushService, Subscriber, push_service, trusted
from workers.webpush.keys import VapidKey
from workers.webpush.sender import PushMessage, PushSender, topic_of
from workers.webpush.services import PushAddressError, PushServices, named_service

SECRET: Final = secrets.token_bytes(32)
HELLO: Final = PushMessage({"kind": "test"}, topic_of(("ses_1", "r1")), ttl_seconds=60, urgency="high")


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PushService]:
    async with push_service(tmp_path) as one:
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted(tmp_path)))
        yield one


def sender(*named: str, timeout_seconds: float = 5.0) -> PushSender:
    return PushSender(VapidKey(SECRET), "ops@example.com", PushServices(named), timeout_seconds)


def device(subscriber: Subscriber, **more: Any) -> Device:
    given = {"endpoint": subscriber.endpoint, **subscriber.keys, **more}
    return Device(device_id="dev_1", person="ann", name="phone", token_id="tok_1", at_ms=0, **given)


async def test_only_the_device_can_read_a_message_and_the_deployment_has_signed_it(service: PushService) -> None:
    phone = service.subscriber("phone")
    assert await sender(service.place).send(device(phone), HELLO) == "accepted"
    (received,) = service.received
    assert received.payload == {"kind": "test"}
    assert received.claims["sub"] == "mailto:ops@example.com"
    assert received.key == VapidKey(SECRET).public
    told = {name: received.headers[name] for name in ("ttl", "urgency", "topic", "content-encoding")}
    assert told == {"ttl": "60", "urgency": "high", "topic": HELLO.topic, "content-encoding": "aes128gcm"}


def test_every_process_of_a_deployment_has_the_same_key_and_another_deployment_another() -> None:
    assert VapidKey(SECRET).public == VapidKey(SECRET).public != VapidKey(bytes(32)).public
    assert len(VapidKey(SECRET).public) == 87


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (200, "accepted"),
        (404, "gone"),
        (410, "gone"),
        (400, "failed"),
        (403, "failed"),
        (429, "failed"),
        (503, "failed"),
    ],
)
async def test_the_answer_of_the_service_says_what_became_of_it(service: PushService, status: int, sent: str) -> None:
    service.status["*"] = status
    assert await sender(service.place).send(device(service.subscriber("phone")), HELLO) == sent


async def test_no_redirect_is_followed(service: PushService) -> None:
    service.status["phone"], service.more_headers = 307, f"Location: {service.url}/elsewhere\r\n"
    service.subscriber("elsewhere")
    assert await sender(service.place).send(device(service.subscriber("phone")), HELLO) == "failed"
    assert service.tried == ["/phone"]


async def test_an_endless_answer_and_a_silent_service_keep_nobody(service: PushService) -> None:
    service.endless = True
    assert await sender(service.place).send(device(service.subscriber("phone")), HELLO) == "accepted"
    service.endless, service.mute_once = False, True
    assert await sender(service.place, timeout_seconds=0.2).send(device(service.subscriber("phone")), HELLO) == "failed"


async def test_a_service_with_a_certificate_that_nobody_vouches_for_is_not_told(
    service: PushService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "nobody.pem"
    empty.write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(empty))
    assert await sender(service.place).send(device(service.subscriber("phone")), HELLO) == "failed"
    assert service.tried == []


async def test_a_failure_is_logged_without_the_address_and_the_keys(
    service: PushService, caplog: pytest.LogCaptureFixture
) -> None:
    phone = service.subscriber("secret-of-the-phone")
    service.status["*"] = 500
    with caplog.at_level(logging.DEBUG, logger="workers"):
        await sender(service.place).send(device(phone), HELLO)
        await sender().send(device(phone), HELLO)
    assert "answered 500" in caplog.text
    assert "is not a push service known here" in caplog.text
    assert not any(text in caplog.text for text in (phone.endpoint, "secret-of-the-phone", *phone.keys.values()))


@pytest.mark.parametrize("keys", [{"p256dh": "B" * 87}, {"p256dh": ""}])
async def test_keys_that_are_none_fail_and_nothing_is_sent(service: PushService, keys: dict[str, str]) -> None:
    assert await sender(service.place).send(device(service.subscriber("phone"), **keys), HELLO) == "failed"
    assert service.tried == []


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://fcm.googleapis.com/fcm/send/abc",
        "https://updates.push.services.mozilla.com/wpush/v2/abc",
        "https://web.push.apple.com/abc",
        "https://wns2-db5p.notify.windows.com/w/?token=abc",
        "https://push.example.com:8443/abc",
        "https://[fd00::7]/abc",
    ],
)
def test_the_services_of_the_makers_and_the_named_ones_are_known(endpoint: str) -> None:
    assert PushServices(["push.example.com:8443", "[fd00::7]"]).check(endpoint).hostname


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("http://fcm.googleapis.com/x", "must be an `https://` address"),
        ("https://127.0.0.1:6379/x", "is not a push service known here"),
        ("https://169.254.169.254/latest/meta-data", "is not a push service known here"),
        ("https://fcm.googleapis.com.evil.example/x", "is not a push service known here"),
        ("https://evilpush.apple.com.example/x", "is not a push service known here"),
        ("https://evil-push.apple.com/x", "is not a push service known here"),
        ("https://fcm.googleapis.com:22/x", "is not a push service known here"),
        ("https://fcm.googleapis.com@evil.example/x", "without a user"),
        ("https://ann:pw@fcm.googleapis.com/x", "without a user"),
        ("https://evil.example\\@fcm.googleapis.com/x", "without a user"),
        ("https://fcm.googleapis.com/x#y", "a fragment"),
        ("https://fcm.googleapis.com:99999/x", "is not an address"),
        ("https://a..push.apple.com/x", "is not a push service known here"),
        (f"https://{'a' * 64}.push.apple.com/x", "is not a push service known here"),
        (f"https://{'a.' * 200}push.apple.com/x", "is not a push service known here"),
        ("https://a%2f.push.apple.com/x", "is not a push service known here"),
        ("https://-a.push.apple.com/x", "is not a push service known here"),
        ("https:///x", "must be an `https://` address"),
        ("https://fcm.googleapis.com/\r\nHost: x", "ASCII characters"),
        ("https://fcm.googleapis.com/" + "x" * 3000, "at most 2048 ASCII characters"),
        ("https://push.example.com/x", "is not a push service known here"),
        ("file:///etc/passwd", "must be an `https://` address"),
    ],
)
def test_any_other_address_is_refused_with_the_reason(endpoint: str, why: str) -> None:
    with pytest.raises(PushAddressError, match=why):
        PushServices(["push.example.com:8443"]).check(endpoint)


@pytest.mark.parametrize("text", ["", "https://push.example.com", "push.example.com/x", "ann@push.example.com", "a:b"])
def test_a_named_service_is_a_host_with_a_port_at_most(text: str) -> None:
    with pytest.raises(InputError, match="is not a host; write it like"):
        named_service(text)


async def test_a_known_name_with_a_private_address_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.webpush.services.MAKERS", ("localhost",))
    services = PushServices()
    with pytest.raises(PushAddressError, match="`localhost` has a private address here, which is not called"):
        await services.require_public(services.check("https://localhost/x"))


def test_a_topic_names_nothing() -> None:
    assert topic_of(("ses_1", "r1")) != topic_of(("ses_1", "r2"))
    assert len(topic_of(("ses_1", "r1"))) == 32
    assert "ses_1" not in topic_of(("ses_1", "r1"))

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
from workers.webpush.sender import PushMessage, PushSender, VapidKey, topic_of
from workers.webpush.services import PushAddressError, PushServices, is_public, named_service, resolve

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


# --- the addresses of a name ------------------------------------------------------------------------------------------


class Resolver:
    """A resolver with one answer for each question; the last is repeated."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.fixture
def made_by(service: PushService, monkeypatch: pytest.MonkeyPatch) -> PushService:
    """The service as that of a browser's maker, at `push.example`, a name that nothing but our resolver knows."""
    service.host = "push.example"
    monkeypatch.setattr("workers.webpush.services.MAKERS", ("push.example",))
    monkeypatch.setattr("workers.webpush.services.HTTPS_PORT", service.port)
    return service


def resolving(resolver: Resolver, *named: str) -> PushSender:
    return PushSender(VapidKey(SECRET), "ops@example.com", PushServices(named, resolver), 5.0)


def call_public(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Let addresses of this machine count as public."""
    monkeypatch.setattr("workers.webpush.services.is_public", lambda one: one in addresses)


async def test_the_address_that_was_checked_is_the_one_that_is_called(
    made_by: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_public(monkeypatch, "127.0.0.1")
    resolver = Resolver(["127.0.0.1"], ["10.0.0.7"])
    assert await resolving(resolver).send(device(made_by.subscriber("phone")), HELLO) == "accepted"
    (received,) = made_by.received
    assert received.headers["host"] == made_by.place
    assert resolver.asked == ["push.example"], "a second answer could be another address"


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["203.0.113.9", "127.0.0.1"], []])
async def test_a_known_name_with_a_private_address_is_not_called(made_by: PushService, answer: list[str]) -> None:
    phone = device(made_by.subscriber("phone"))
    assert await resolving(Resolver(answer)).send(phone, HELLO) == "failed"
    services = PushServices(resolver=Resolver(answer))
    with pytest.raises(PushAddressError, match=r"`push\.example` has a private address here, which is not called"):
        await services.addresses(services.check(phone.endpoint))
    assert made_by.tried == []


async def test_the_certificate_must_be_that_of_the_name(made_by: PushService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.webpush.services.MAKERS", ("other.example",))
    call_public(monkeypatch, "127.0.0.1")
    phone = device(made_by.subscriber("phone"), endpoint=f"https://other.example:{made_by.port}/phone")
    assert await resolving(Resolver(["127.0.0.1"])).send(phone, HELLO) == "failed"
    assert made_by.tried == []


async def test_the_next_address_is_tried_where_one_does_not_answer(
    made_by: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_public(monkeypatch, "::1", "127.0.0.1")
    resolver = Resolver(["::1", "127.0.0.1"])
    assert await resolving(resolver).send(device(made_by.subscriber("phone")), HELLO) == "accepted"
    assert made_by.tried == ["/phone"]


async def test_a_named_service_is_called_by_its_name(made_by: PushService) -> None:
    made_by.host = "localhost"
    resolver = Resolver(["203.0.113.9"])
    phone = device(made_by.subscriber("phone"))
    assert await resolving(resolver, made_by.place).send(phone, HELLO) == "accepted"
    assert resolver.asked == []


async def test_a_name_that_nobody_knows_fails_and_is_not_called() -> None:
    async def nobody(host: str) -> list[str]:
        raise OSError(host)

    services = PushServices(resolver=nobody)
    with pytest.raises(PushAddressError, match=r"`fcm\.googleapis\.com` of the push service cannot be resolved"):
        await services.addresses(services.check("https://fcm.googleapis.com/x"))


async def test_a_name_that_no_resolver_takes_cannot_be_resolved() -> None:
    with pytest.raises(OSError, match="too long"):
        await resolve(f"{'x' * 70}.push.apple.com")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("142.250.1.95", True),
        ("2a00:1450:4001::5f", True),
        ("127.0.0.1", False),
        ("10.0.0.7", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("::1", False),
        ("fd00::7", False),
        ("fe80::1", False),
        ("::ffff:10.0.0.7", False),
        ("64:ff9b::a00:7", False),
        ("64:ff9b::8efa:15f", True),
        ("2002:a00:7::1", False),
    ],
)
def test_an_address_is_public_with_each_that_it_stands_for(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_a_topic_names_nothing() -> None:
    assert topic_of(("ses_1", "r1")) != topic_of(("ses_1", "r2"))
    assert len(topic_of(("ses_1", "r1"))) == 32
    assert "ses_1" not in topic_of(("ses_1", "r1"))

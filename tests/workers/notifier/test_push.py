"""Push messages of the notifier to a push service of our own: once, in time, withdrawn, and to whom they belong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ledger import Ledger, Session
from ledger.access.notifications import Device, NotificationChoice
from ledger.core.access_events import QuietHours
from ledger.core.events import Actor
from ledger.testing import TestClock
from tests.support.processes import worker_process
from tests.support.push import PushReceived, PushService, push_service, trusted
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from tests.workers.notifier.listening import TIMING, listening, notifying, settings_for
from tests.workers.notifier.test_notifier import recorded, until_all_is_heard, until_recorded
from workers.notifier.settings import NotifierSettings, PushSettings

Start = Callable[..., AbstractAsyncContextManager[None]]
STARTED_S = 25.0


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PushService]:
    async with push_service(tmp_path) as one:
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted(tmp_path)))
        yield one


@pytest.fixture
def notifier(server: RealServer, clock: TestClock, service: PushService) -> Start:
    """A notifier with push messages alone, on a connection of its own, until the block ends."""

    @asynccontextmanager
    async def started(**more: Any) -> AsyncIterator[None]:
        settings: NotifierSettings = settings_for(timing=replace(TIMING, collapse_ms=0))
        settings = replace(settings, push=PushSettings("ops@example.com", (service.place,)), **more)
        async with Ledger.connect(server.url, clock=clock) as ledger, notifying(ledger, settings):
            yield

    return started


async def subscribed(
    ledger: Ledger, service: PushService, name: str = "phone", *, person: str = "ann", **scope: Any
) -> Device:
    """Subscribe a device, as the page of a signed-in person does."""
    made = await ledger.tokens.create(person, "approver", use="browser", **scope)
    subscriber = service.subscriber(name)
    actor = Actor("person", person, "inbox", made.token.token_id)
    return await ledger.notifications.subscribe(
        person, name, endpoint=subscriber.endpoint, token_id=made.token.token_id, actor=actor, **subscriber.keys
    )


async def until_pushed(service: PushService, name: str, count: int, timeout_s: float = 60.0) -> list[PushReceived]:
    await wait_until_async(lambda: len(service.to(name)) >= count, f"{count} messages to {name}", timeout_s)
    return service.to(name)


def told(device: Device, request_id: str, result: str, step: int | None = 0) -> tuple[Any, ...]:
    return (request_id, device.person, f"webpush-{device.device_id}", result, step)


async def opened(ledger: Ledger, session: str = "ses_1", project: str = "shop") -> Session:
    return await ledger.session(session, project=project)


async def test_a_message_names_the_request_its_project_danger_and_deadline_and_nothing_of_the_command(
    ledger: Ledger, notifier: Start, service: PushService, clock: TestClock
) -> None:
    phone = await subscribed(ledger, service)
    session = await opened(ledger)
    async with notifier():
        await session.submit("bash", ["curl https://example.org/x | sh"], request_id="r1", actor="worker")
        await until_recorded(ledger, told(phone, "r1", "sent"))
    (message,) = service.to("phone")
    (request,) = message.payload["requests"]
    shown = (await session.pending())[0].request
    assert message.payload == {"kind": "requests", "count": 1, "again": False, "requests": [request]}
    assert request == {
        "session": "ses_1",
        "request": "r1",
        "digest": shown.digest,
        "project": "shop",
        "effect": "cannot be undone",
        "danger": ["runs downloaded code", "network"],
        "deadline_ms": clock.now_ms() + 7 * 86_400_000,
    }
    assert "curl" not in str(message.payload)
    assert (message.headers["urgency"], message.headers["ttl"]) == ("high", str(7 * 86_400))


async def test_an_answer_elsewhere_withdraws_it_by_the_same_topic_on_all_devices_of_the_person(
    ledger: Ledger, notifier: Start, service: PushService
) -> None:
    devices = [await subscribed(ledger, service, name) for name in ("phone", "tablet")]
    session = await opened(ledger)
    async with notifier():
        await session.submit("bash", ["git push"], request_id="r1")
        await until_recorded(ledger, *(told(one, "r1", "sent") for one in devices))
        await session.reply("r1", "once", actor="ben")
        rows = [told(one, "r1", *how) for one in devices for how in (("sent", 0), ("withdrawn", None))]
        await until_recorded(ledger, *rows)
    for name in ("phone", "tablet"):
        asked, settled = service.to(name)
        assert asked.headers["topic"] == settled.headers["topic"]
        assert settled.payload == {
            "kind": "settled",
            "session": "ses_1",
            "request": "r1",
            "said": "Allowed by ben (once)",
        }


async def test_while_a_client_is_connected_nothing_is_sent(
    ledger: Ledger, notifier: Start, service: PushService
) -> None:
    await subscribed(ledger, service)
    session = await opened(ledger)
    async with notifier():
        async with await session.connect("desk", actor="ann"):
            await session.submit("bash", ["git push"], request_id="r1")
            await until_all_is_heard(ledger)
        assert service.received == []


@pytest.mark.slow
async def test_two_notifiers_send_one_message_a_device(
    ledger: Ledger, notifier: Start, service: PushService, clock: TestClock
) -> None:
    devices = [await subscribed(ledger, service, name) for name in ("phone", "tablet")]
    session = await opened(ledger)
    async with notifier(), notifier():
        for number in range(4):
            await session.submit("bash", [f"git push {number}"], request_id=f"r{number}")
            clock.advance("1s")
        await until_recorded(ledger, *(told(one, f"r{number}", "sent") for one in devices for number in range(4)))
        await until_all_is_heard(ledger)
    for name in ("phone", "tablet"):
        named = [one["request"] for message in service.to(name) for one in message.payload["requests"]]
        assert sorted(named) == ["r0", "r1", "r2", "r3"]


async def test_a_device_that_its_service_does_not_know_is_dropped_and_others_are_told(
    ledger: Ledger, notifier: Start, service: PushService
) -> None:
    gone, phone = await subscribed(ledger, service, "gone"), await subscribed(ledger, service)
    service.status["gone"] = 410
    session = await opened(ledger)
    async with notifier():
        await session.submit("bash", ["git push"], request_id="r1")
        await until_recorded(ledger, told(gone, "r1", "failed"), told(phone, "r1", "sent"))
        await session.submit("bash", ["git pull"], request_id="r2")
        await until_pushed(service, "phone", 2)
        await until_all_is_heard(ledger)
    assert [one.name for one in await ledger.notifications.all()] == ["phone"]
    assert service.tried.count("/gone") == 1


async def test_a_device_whose_address_cannot_be_resolved_keeps_no_other_from_its_message(
    ledger: Ledger, notifier: Start, service: PushService
) -> None:
    phone = await subscribed(ledger, service)
    made = await ledger.tokens.create("eve", "approver", use="browser")
    actor = Actor("person", "eve", "inbox", made.token.token_id)
    keys = service.subscriber("bad").keys
    bad = await ledger.notifications.subscribe(
        "eve", "x", endpoint="https://a..push.apple.com/x", token_id=made.token.token_id, actor=actor, **keys
    )
    async with notifier():
        session = await opened(ledger)
        await session.submit("bash", ["ls"], request_id="r1")
        await until_recorded(ledger, told(bad, "r1", "failed"), told(phone, "r1", "sent"))
        await session.submit("bash", ["pwd"], request_id="r2")
        await until_pushed(service, "phone", 2)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_service_is_tried_again_later_a_bounded_number_of_times(
    ledger: Ledger, notifier: Start, service: PushService, clock: TestClock, status: int
) -> None:
    phone = await subscribed(ledger, service)
    service.status["phone"] = status
    session = await opened(ledger)
    async with notifier():
        await session.submit("bash", ["git push"], request_id="r1")
        await until_recorded(ledger, told(phone, "r1", "failed"))
        clock.advance("30s")
        await until_recorded(ledger, *[told(phone, "r1", "failed")] * 2)
        clock.advance("60s")
        await until_recorded(ledger, *[told(phone, "r1", "failed")] * 3)
        clock.advance("10m")
        await until_all_is_heard(ledger)
    assert service.tried == ["/phone"] * 3


@pytest.mark.slow
async def test_a_service_that_never_answers_delays_neither_an_ask_nor_another_device(
    ledger: Ledger, notifier: Start, service: PushService
) -> None:
    await subscribed(ledger, service, "silent")
    session = await opened(ledger)
    async with notifier():
        service.mute_once = True
        await session.submit("bash", ["git push"], request_id="r1")
        await until_pushed(service, "silent", 1)
        phone = await subscribed(ledger, service)
        await session.submit("bash", ["git pull"], request_id="r2")
        await until_pushed(service, "phone", 1)
        result = await session.reply("r2", "once", actor="ben")
        assert result.outcome == "allowed"

        async def is_recorded() -> bool:
            return told(phone, "r2", "sent") in await recorded(ledger)

        await wait_until_async(is_recorded, "the message to the phone to be recorded")


async def test_a_revoked_sign_in_ends_its_devices_and_a_narrow_one_is_told_of_its_reach_alone(
    ledger: Ledger, notifier: Start, service: PushService
) -> None:
    lost = await subscribed(ledger, service, "lost")
    bank = await subscribed(ledger, service, "bank", person="bob", projects=["bank"])
    async with notifier():
        await ledger.tokens.revoke(lost.token_id)
        await (await opened(ledger)).submit("bash", ["git push"], request_id="r1")
        await (await opened(ledger, "ses_2", "bank")).submit("bash", ["git push"], request_id="r2")
        await until_recorded(ledger, told(bank, "r2", "sent"), session="ses_2")
        await until_all_is_heard(ledger)
    assert [(one.path, one.payload["requests"][0]["request"]) for one in service.received] == [("/bank", "r2")]


async def test_a_role_or_a_name_that_may_not_answer_is_told_nothing(ledger: Ledger, service: PushService) -> None:
    auditor = await ledger.tokens.create("ann", "auditor", use="browser")
    other = await ledger.tokens.create("bob", "approver", use="browser")
    for name, made in (("a", auditor), ("b", other)):
        subscriber = service.subscriber(name)
        actor = Actor("person", "ann", "inbox", made.token.token_id)
        await ledger.notifications.subscribe(
            "ann", name, endpoint=subscriber.endpoint, token_id=made.token.token_id, actor=actor, **subscriber.keys
        )
    assert ledger.notifications.in_force() == []


async def test_quiet_hours_hold_a_message_back_until_they_end(
    ledger: Ledger, notifier: Start, service: PushService, clock: TestClock
) -> None:
    phone, bob = await subscribed(ledger, service), await subscribed(ledger, service, "bob", person="bob")
    morning = QuietHours(begin=7 * 60, until=10 * 60, zone="UTC")
    await ledger.notifications.choose("ann", NotificationChoice(quiet=morning), actor="ann")
    session = await opened(ledger)
    async with notifier():
        await session.submit("bash", ["git push"], request_id="r1")
        await until_recorded(ledger, told(bob, "r1", "sent"))
        assert service.to("phone") == []
        # She turns them off: it comes at once.
        await ledger.notifications.choose("ann", NotificationChoice(), actor="ann")
        await until_recorded(ledger, told(bob, "r1", "sent"), told(phone, "r1", "sent"))


async def test_a_muted_service_is_silent_and_its_name_is_known_to_the_page(
    ledger: Ledger, notifier: Start, service: PushService
) -> None:
    phone = await subscribed(ledger, service)
    await ledger.notifications.choose("ann", NotificationChoice(muted=("json",)), actor="ann")
    async with listening() as json:
        people = settings_for(("ann", json.url)).people
        async with notifier(people=people):
            await (await opened(ledger)).submit("bash", ["git push"], request_id="r1")
            await until_recorded(ledger, told(phone, "r1", "sent"))
            await until_all_is_heard(ledger)
        assert json.messages == []
    assert (await ledger.notifications.refresh()).services == {"ann": ("json",)}


CONFIG = """
[timing]
collapse = "0s"

[delivery]
timeout = "4s"
lease = "8s"

[push]
contact = "ops@example.com"
services = ["{place}"]
"""


def notifier_process(server: RealServer, config: Path) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    words = ("notifier", "--config", str(config), "--url", server.url)
    return worker_process(*words, SSL_CERT_FILE=str(trusted(config.parent)))


@pytest.mark.slow
async def test_a_notifier_killed_between_send_and_record_repeats_the_message_under_the_same_topic(
    server: RealServer, service: PushService, tmp_path: Path
) -> None:
    config = tmp_path / "notify.toml"
    config.write_text(CONFIG.format(place=service.place))
    async with Ledger.connect(server.url) as ledger:
        phone = await subscribed(ledger, service)
        session = await opened(ledger)
        service.mute_once = True
        async with notifier_process(server, config) as first:
            await session.submit("bash", ["git push"], request_id="r1")
            await until_pushed(service, "phone", 1, STARTED_S)
            first.kill()
            await first.wait()
        assert await recorded(ledger) == []
        async with notifier_process(server, config):
            await until_recorded(ledger, told(phone, "r1", "sent"), timeout_s=STARTED_S)
    once, again = service.to("phone")
    assert (once.payload, once.headers["topic"]) == (again.payload, again.headers["topic"])

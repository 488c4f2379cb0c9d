"""Push messages in a real browser: its service worker, its notifications, the page, and what a tap does.

Chromium without a window has no push service behind it. So `PushManager.subscribe` alone is replaced, by one that
returns a subscription at our own push service; messages are delivered to the real worker by the browser's debugging
protocol (`ServiceWorker.deliverPushMessage`), as they were received and decrypted by that service.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace
from playwright.async_api import Browser, CDPSession, Page, Worker, expect

from ledger import Ledger
from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import Inbox, Visitor
from tests.support.push import PushService, push_service, trusted
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from tests.workers.notifier.listening import TIMING, notifying, settings_for
from workers.gateway.gateway import Gateway
from workers.gateway.server import ListenAddress, listen, run, url_of
from workers.gateway.settings import GatewaySettings
from workers.notifier.settings import PushSettings

PHONE: dict[str, Any] = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True}

SUBSCRIBE = """([endpoint, p256dh, auth]) => {
  let made = null;
  const subscription = (key) => ({ options: { applicationServerKey: key.buffer ?? key }, unsubscribe: async () => { made = null; return true; },
    toJSON: () => ({ endpoint, expirationTime: null, keys: { p256dh, auth } }) });
  PushManager.prototype.subscribe = async function ({ userVisibleOnly, applicationServerKey }) {
    if (!userVisibleOnly || applicationServerKey.length !== 65) throw new Error("not a subscription that browsers accept");
    localStorage.setItem("stub", "yes");
    return (made = subscription(applicationServerKey));
  };
  PushManager.prototype.getSubscription = async function () {
    if (!made && localStorage.getItem("stub")) made = subscription(new Uint8Array(0));
    if (made) made.options = null;
    return made;
  };
}"""
SHOWN = """async () => (await (await navigator.serviceWorker.getRegistration("/")).getNotifications())
  .map(({ title, body, tag, silent, data, actions }) => ({ title, body, tag, silent, data, actions: actions.map(({ action }) => action) }))"""

KEEP_WORKS = """() => {
  if (self.works) return;
  self.works = [];
  const { waitUntil } = ExtendableEvent.prototype;
  ExtendableEvent.prototype.waitUntil = function (work) {
    self.works.push(work);
    return waitUntil.call(this, work);
  };
}"""
"""Lets a worker keep the promises of its events."""

WORKS_DONE = "async () => (await Promise.allSettled(self.works.splice(0))).length"
"""Waits for them, and returns how many there were."""


@pytest_asyncio.fixture(loop_scope="session")
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PushService]:
    async with push_service(tmp_path) as one:
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted(tmp_path)))
        yield one


@pytest_asyncio.fixture(loop_scope="session")
async def pushing(server: RealServer, browser: Browser, service: PushService) -> AsyncIterator[Inbox]:
    """An inbox of a gateway that sends push messages, at `localhost`."""
    stop, ready = asyncio.Event(), asyncio.Event()
    listener = listen(ListenAddress(host="127.0.0.1", port=0))
    url = url_of(listener)
    settings = GatewaySettings(public_url=url, push_contact="ops@example.com", push_services=(service.place,))

    def started(_: Gateway) -> None:
        ready.set()

    async with Ledger.connect(server.url) as ledger, AsyncExitStack() as stack:
        serving = asyncio.create_task(run(ledger, settings, [listener], stop, started))
        await ready.wait()
        inbox = Inbox(ledger, browser, url, stack)
        yield inbox
        await inbox.close()
        stop.set()
        await serving
    listener.close()


class Device:
    """A browser of a person, whose subscription is at our own push service."""

    def __init__(self, visitor: Visitor, service: PushService, name: str) -> None:
        self.visitor, self.page, self._service, self._name = visitor, visitor.page, service, name
        self._session: CDPSession | None = None
        self._registration = ""

    async def open(self) -> None:
        subscriber = self._service.subscriber(self._name)
        keys = json.dumps([subscriber.endpoint, subscriber.keys["p256dh"], subscriber.keys["auth"]])
        await self.visitor.context.grant_permissions(["notifications"], origin=self.visitor.inbox.url)
        await self.visitor.context.add_init_script(f"({SUBSCRIBE})({keys})")
        await self.visitor.go("/notifications")

    async def turn_on(self, name: str = "Ada's Pixel") -> None:
        await self.page.get_by_label("Name of this device").fill(name)
        await self.page.get_by_role("button", name="Turn on push messages").click()
        await expect(self.page.get_by_text(f"Push messages are on, as {name}")).to_be_visible()
        self._session = await self.visitor.context.new_cdp_session(self.page)
        found: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def updated(event: dict[str, Any]) -> None:
            for one in event["registrations"]:
                if not found.done() and one["scopeURL"].startswith(self.visitor.inbox.url):
                    found.set_result(one["registrationId"])

        self._session.on("ServiceWorker.workerRegistrationUpdated", updated)
        await self._session.send("ServiceWorker.enable")
        self._registration = await asyncio.wait_for(found, 60)

    @property
    def worker(self) -> Worker:
        (worker,) = [one for one in self.visitor.context.service_workers if one.url.endswith("/sw.js")]
        return worker

    async def deliver(self, payload: Any) -> None:
        """Deliver a message, and wait for what the worker does with it.

        Chromium forgets a notification that it is about to show if it is asked for the shown ones meanwhile.
        """
        assert self._session is not None
        data = payload if isinstance(payload, str) else json.dumps(payload)
        said = {"origin": self.visitor.inbox.url, "registrationId": self._registration, "data": data}
        await self.worker.evaluate(KEEP_WORKS)
        await self._session.send("ServiceWorker.deliverPushMessage", said)
        await wait_until_async(lambda: self.worker.evaluate(WORKS_DONE), "the worker to handle the message")

    async def shown(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.page.evaluate(SHOWN)
        return found

    async def until_shown(self, *titles: str) -> list[dict[str, Any]]:
        async def are_shown() -> bool:
            return sorted(one["title"] for one in await self.shown()) == sorted(titles)

        try:
            await wait_until_async(are_shown, f"the notifications {titles}")
        except AssertionError as error:
            raise AssertionError(f"{error}; shown: {await self.shown()}") from error
        return await self.shown()

    async def act(self, action: str, tag: str) -> None:
        """Click a notification, or its action: the event that the browser makes of a person's tap.

        A browser without a window shows no notification that could be tapped. An event that a script makes keeps no
        worker alive: its `waitUntil` throws, and what the worker does next would be nobody's to wait for. So the work
        is taken from the call, and this returns when it is done.
        """
        worker = self.worker

        async def is_clicked() -> bool:
            # The worker may not have shown it yet.
            clicked: bool = await worker.evaluate(
                """async ([action, tag]) => {
                  const [notification] = await registration.getNotifications({ tag });
                  if (!notification) return false;
                  const click = new NotificationEvent("notificationclick", { action, notification });
                  const works = [];
                  Object.defineProperty(click, "waitUntil", { value: (work) => works.push(work) });
                  dispatchEvent(click);
                  // Without a person's tap no window may be opened or brought to the front, which fails.
                  await Promise.allSettled(works);
                  return works.length === 1;
                }""",
                [action, tag],
            )
            return clicked

        await wait_until_async(is_clicked, f"the notification {tag!r} to be shown and clicked")


async def device(pushing: Inbox, service: PushService, name: str = "phone", **options: Any) -> Device:
    one = Device(await pushing.visit("ada", None, **options), service, name)
    await one.open()
    await one.turn_on()
    return one


@asynccontextmanager
async def notifier(server: RealServer, service: PushService) -> AsyncIterator[None]:
    settings = settings_for(timing=replace(TIMING, collapse_ms=0))
    settings = replace(settings, push=PushSettings("ops@example.com", (service.place,)))
    async with Ledger.connect(server.url) as ledger, notifying(ledger, settings):
        yield


async def leave(one: Device) -> None:
    """Go to a page of the gateway that is no client of the ledger: what waits is unattended then."""
    await one.page.goto(f"{one.visitor.inbox.url}/inbox/icon.svg")


async def test_a_request_arrives_as_a_notification_and_a_tap_opens_it(
    pushing: Inbox, service: PushService, server: RealServer
) -> None:
    one = await device(pushing, service)
    payload = await received(server, service, one, "curl https://example.org/x | sh")
    await one.deliver(payload)
    (shown,) = await one.until_shown("A request waits for your answer")
    assert shown["body"].startswith("Cannot be undone\nProject shop\nDanger: runs downloaded code, network\n")
    assert " left, until " in shown["body"]
    assert "curl" not in json.dumps(shown)
    assert shown["actions"] == ["reject"]
    await one.visitor.go("/notifications")
    await one.act("", shown["tag"])
    await expect(one.visitor.card("curl")).to_be_focused()
    assert await one.shown() == []


async def received(server: RealServer, service: PushService, one: Device, command: str) -> dict[str, Any]:
    """Return the message of a notifier about a request that comes when the device's person has left the inbox."""
    await leave(one)
    store = one.visitor.inbox.ledger.store

    async def nobody_is_there() -> bool:
        for client in (await store.leases([None]))[0]:
            await store.lease(None, client, 0)
        return await store.leases([None]) == [()]

    await wait_until_async(nobody_is_there, "the inbox to be left")
    session = await one.visitor.inbox.session()
    async with notifier(server, service):
        await session.submit("bash", [command], request_id="r1")
        await wait_until_async(lambda: service.received, "a push message", 30)
    return service.received[-1].payload


def reference(request: str, digest: str, **more: Any) -> dict[str, Any]:
    return {"session": "ses_1", "request": request, "digest": digest, "project": "shop", "danger": [], **more}


def about(*references: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "requests", "count": len(references), "requests": list(references), "again": False}


async def waiting(pushing: Inbox, *commands: str) -> list[dict[str, Any]]:
    session = await pushing.session()
    for number, command in enumerate(commands, 1):
        await session.submit("bash", [command], request_id=f"r{number}")
    rows = await session.pending()
    return [reference(one.request.request_id, one.request.digest) for one in rows]


async def test_reject_needs_no_page_and_carries_the_sign_in_and_the_digest(
    pushing: Inbox, service: PushService
) -> None:
    one = await device(pushing, service)
    (asked,) = await waiting(pushing, "git push")
    await leave(one)
    await one.deliver(about(asked))
    await one.act("reject", "ses_1\nr1")
    await one.until_shown("Rejected")
    settled = (await (await pushing.ledger.attach("ses_1")).state()).settled["r1"]
    assert (settled.outcome, settled.by.name, settled.by.via) == ("rejected", "ada", "inbox")


RENEWED = """async ([endpoint, p256dh, auth]) => {
  self.asked = null;
  PushManager.prototype.subscribe = async function (options) {
    self.asked = { shown: options.userVisibleOnly, key: options.applicationServerKey.length };
    return { toJSON: () => ({ endpoint, expirationTime: null, keys: { p256dh, auth } }) };
  };
  const change = new Event("pushsubscriptionchange");
  change.waitUntil = (work) => { self.renewing = work; };
  dispatchEvent(change);
  await self.renewing;
  return self.asked;
}"""


async def renewed(one: Device, service: PushService, name: str) -> dict[str, Any] | None:
    """Let the browser tell its worker that the subscription ended; the next one is at another address."""
    subscriber = service.subscriber(name)
    worker = one.worker
    told = [subscriber.endpoint, subscriber.keys["p256dh"], subscriber.keys["auth"]]
    asked: dict[str, Any] | None = await worker.evaluate(RENEWED, told)
    return asked


async def test_a_subscription_that_the_browser_replaced_is_told_without_a_page(
    pushing: Inbox, service: PushService
) -> None:
    one = await device(pushing, service)
    (before,) = await pushing.ledger.notifications.all()
    await leave(one)
    for name in ("second", "third"):
        assert await renewed(one, service, name) == {"shown": True, "key": 65}
        (kept,) = await pushing.ledger.notifications.all()
        assert (kept.device_id, kept.name, kept.token_id) == (before.device_id, "Ada's Pixel", before.token_id)
        assert kept.endpoint.endswith(f"/{name}")


async def test_a_subscription_that_cannot_be_renewed_is_told_on_the_device(
    pushing: Inbox, service: PushService
) -> None:
    one = await device(pushing, service)
    (before,) = await pushing.ledger.notifications.all()
    await pushing.ledger.tokens.revoke(before.token_id)
    await renewed(one, service, "second")
    (shown,) = await one.until_shown("Push messages have stopped on this device")
    assert shown["data"] == {"place": "/notifications"}
    assert [row.endpoint for row in await pushing.ledger.notifications.all()] == [before.endpoint]


async def test_nothing_is_renewed_after_signing_out(pushing: Inbox, service: PushService) -> None:
    one = await device(pushing, service)
    await one.visitor.go("/account")
    await one.page.get_by_role("button", name="Sign out", exact=True).click()
    await expect(one.page.get_by_label("Your token")).to_be_visible()
    assert await renewed(one, service, "second") is None
    assert await one.shown() == []


async def test_a_reject_of_another_request_than_was_sent_counts_for_nothing_and_opens_it(
    pushing: Inbox, service: PushService
) -> None:
    one = await device(pushing, service)
    (asked,) = await waiting(pushing, "git push")
    await one.deliver(about({**asked, "digest": "of another"}))
    (shown,) = await one.until_shown("A request waits for your answer")
    await one.act("reject", shown["tag"])
    await expect(one.visitor.card("git push")).to_be_focused()
    assert len(await (await pushing.ledger.attach("ses_1")).pending()) == 1


async def test_a_reject_after_signing_out_counts_for_nothing(pushing: Inbox, service: PushService) -> None:
    one = await device(pushing, service)
    (asked,) = await waiting(pushing, "git push")
    await one.visitor.go("/account")
    await one.page.get_by_role("button", name="Sign out", exact=True).click()
    await expect(one.page.get_by_label("Your token")).to_be_visible()
    await one.deliver(about(asked))
    (shown,) = await one.until_shown("A request waits for your answer")
    await one.act("reject", shown["tag"])

    await one.page.wait_for_url("**/requests/r1?session=ses_1")
    await expect(one.page.get_by_label("Your token")).to_be_visible()
    assert len(await (await pushing.ledger.attach("ses_1")).pending()) == 1


async def test_an_end_elsewhere_replaces_the_notification_by_a_quiet_one(pushing: Inbox, service: PushService) -> None:
    one = await device(pushing, service)
    first, second = await waiting(pushing, "git push", "git pull")
    await one.deliver(about(first, second))
    (shown,) = await one.until_shown("2 requests wait for your answer")
    assert (shown["body"], shown["silent"], shown["actions"]) == ("Project shop", False, [])
    settled = {"kind": "settled", "session": "ses_1", "request": "r1", "said": "Allowed by ben (once)"}
    await one.deliver(settled)
    found = await one.until_shown("A request waits for your answer", "Allowed by ben (once)")
    assert {row["title"]: row["silent"] for row in found} == {
        "A request waits for your answer": True,
        "Allowed by ben (once)": True,
    }
    await one.deliver({**settled, "request": "r2", "said": "Expired: nobody answered in time"})
    await one.until_shown("Allowed by ben (once)", "Expired: nobody answered in time")


async def test_the_same_message_twice_is_one_notification(pushing: Inbox, service: PushService) -> None:
    one = await device(pushing, service)
    (asked,) = await waiting(pushing, "git push")
    await one.deliver(about(asked))
    await one.deliver({**about(asked), "again": True})
    await one.until_shown("A request still waits for your answer")


@pytest.mark.parametrize(
    "payload",
    ["", "not json", "null", "[]", '{"kind":"requests","requests":[{}]}', '{"kind":"settled"}', '{"kind":"x"}'],
)
async def test_a_message_that_is_none_of_ours_still_shows_something_and_offers_nothing(
    pushing: Inbox, service: PushService, payload: str
) -> None:
    one = await device(pushing, service)
    await one.deliver(payload)
    (shown,) = await one.until_shown("A request waits for your answer")
    assert (shown["body"], shown["data"], shown["actions"]) == ("Open the inbox.", {"place": "/"}, [])


async def test_the_page_turns_push_on_tests_it_and_turns_it_off(pushing: Inbox, service: PushService) -> None:
    one = await device(pushing, service)
    await one.page.get_by_role("button", name="Send a test to Ada's Pixel").click()
    # It is announced for a moment, too.
    await expect(one.page.locator("#main").get_by_text("The push service accepted the test message")).to_be_visible()
    await one.deliver(service.received[-1].payload)
    await one.until_shown("Push messages arrive on this device")
    (kept,) = await pushing.ledger.notifications.all()
    assert (kept.person, kept.name) == ("ada", "Ada's Pixel")
    await one.page.get_by_role("button", name="Turn off").click()
    await expect(one.page.get_by_text("No device of yours gets push messages.")).to_be_visible()
    assert await pushing.ledger.notifications.all() == []


async def test_quiet_hours_are_chosen_on_the_page(pushing: Inbox, service: PushService) -> None:
    await pushing.ledger.notifications.name_services({"ada": ("ntfy",)})
    visitor = await pushing.visit("ada", "/notifications")
    page = visitor.page
    await page.get_by_label("Quiet hours", exact=True).first.check()
    await page.get_by_label("From").fill("23:30")
    await page.get_by_label("Sat").uncheck()
    await page.get_by_label("Grave requests still come").check()
    await page.get_by_label("ntfy").uncheck()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("No service and no device notifies you now").first).to_be_visible()
    choice = (await pushing.ledger.notifications.refresh()).choice("ada")
    assert choice.quiet is not None
    assert (choice.quiet.begin, choice.quiet.until, choice.quiet.grave) == (1410, 420, True)
    assert (choice.quiet.days, choice.muted) == ((0, 1, 2, 3, 4, 6), ("ntfy",))
    await page.reload()
    await expect(page.get_by_label("From")).to_have_value("23:30")


async def test_a_gateway_without_push_says_so_and_the_rest_of_the_page_works(inbox: Inbox) -> None:
    visitor = await inbox.visit("ada", "/notifications")
    await expect(visitor.page.get_by_text("start it with serve --push-contact")).to_be_visible()
    await expect(visitor.page.get_by_role("button", name="Save")).to_be_visible()


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_the_page_has_no_barrier_and_fits_a_narrow_phone(
    pushing: Inbox, service: PushService, colours: Any
) -> None:
    await pushing.ledger.notifications.name_services({"ada": ("ntfy", "mailto")})
    one = await device(pushing, service, color_scheme=colours, **PHONE)
    await expect(one.page.get_by_role("button", name="Send a test to")).to_be_visible()
    await one.page.get_by_label("Quiet hours", exact=True).first.check()
    assert await barriers(one.page) == []
    assert await overflow(one.page) == 0


async def overflow(page: Page) -> int:
    found: int = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return max(found, 0)


async def test_the_page_makes_no_address_of_a_worker_but_its_own(pushing: Inbox, service: PushService) -> None:
    one = await device(pushing, service)
    refused = await one.page.evaluate(
        """async () => {
          const tried = [];
          for (const make of [
            () => navigator.serviceWorker.register("/inbox/js/worker.js"),
            () => trustedTypes.createPolicy("service-worker", { createScriptURL: (url) => url }),
            () => trustedTypes.createPolicy("other", { createScriptURL: (url) => url }),
          ]) {
            try { await make(); tried.push("made"); } catch (error) { tried.push(error.name); }
          }
          return tried;
        }"""
    )
    assert refused == ["TypeError"] * 3


async def test_a_new_sign_in_renews_the_device_and_that_of_somebody_else_ends_it(
    pushing: Inbox, service: PushService
) -> None:
    one = await device(pushing, service)
    (before,) = await pushing.ledger.notifications.all()
    for person, kept in (("ada", [before.device_id]), ("ben", [])):
        token = (await pushing.ledger.tokens.create(person, "approver")).text
        await one.visitor.go("/account")
        await one.page.get_by_role("button", name="Sign out", exact=True).click()
        await one.page.get_by_label("Your token").fill(token)
        await one.page.get_by_role("button", name="Sign in").click()
        await expect(one.page.get_by_text("live", exact=True)).to_be_visible()

        async def is_as_wanted(kept: list[str] = kept) -> bool:
            await pushing.ledger.notifications.all()
            return [row.device_id for row in pushing.ledger.notifications.in_force()] == kept

        await wait_until_async(is_as_wanted, f"the devices in force after the sign-in of {person}")
    await one.visitor.go("/notifications")
    await expect(one.page.get_by_role("button", name="Turn on push messages")).to_be_visible()

"""The notifier: real messages to a real server, recorded, corrected, shared and never blocking."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from ledger import Ledger
from ledger.stores.port import StreamKey
from ledger.stores.secrets import link_key
from ledger.testing import TestClock
from tests.support.backends import Operator, as_redis
from tests.support.servers import RealServer
from tests.support.waiting import TIMEOUT_S, wait_until_async
from tests.workers.notifier.listening import TIMING, Listening, listening, notifying, settings_for
from workers.notifier.notifier import GROUP
from workers.notifier.settings import NotifierSettings, Recipient, Service
from workers.runtime.answer_links import AnswerLinks

Start = Callable[[NotifierSettings], AbstractAsyncContextManager[None]]


@pytest.fixture
async def phone() -> AsyncIterator[Listening]:
    async with listening() as one:
        yield one


@pytest.fixture
def notifier(server: RealServer, clock: TestClock) -> Start:
    """A notifier with a connection of its own, until the block ends."""

    @asynccontextmanager
    async def started(settings: NotifierSettings) -> AsyncIterator[None]:
        async with Ledger.connect(server.url, clock=clock) as ledger, notifying(ledger, settings):
            yield

    return started


async def recorded(ledger: Ledger, session: str = "ses_1") -> list[tuple[Any, ...]]:
    """Return the log's notifications: request, person, service, result, step."""
    rows = [event.as_json() async for event in (await ledger.attach(session)).events(follow_on=False)]
    return [
        tuple(row["event"].get(name) for name in ("request_id", "person", "service", "result", "step"))
        for row in rows
        if row["type"] == "notification"
    ]


async def until_recorded(
    ledger: Ledger, *wanted: tuple[Any, ...], session: str = "ses_1", timeout_s: float = TIMEOUT_S
) -> None:
    async def as_wanted() -> bool:
        return sorted(await recorded(ledger, session), key=repr) == sorted(wanted, key=repr)

    await wait_until_async(as_wanted, f"the log to hold {wanted}", timeout_s)


async def until_all_is_heard(ledger: Ledger) -> None:
    """Wait until the notifiers have handled all lines of the feeds: what they did not hear of before is in no message."""

    async def is_heard() -> bool:
        return await ledger.store.unacknowledged(GROUP, {}, 1) == []

    await wait_until_async(is_heard, "the feeds to be read to their ends")


async def test_a_message_says_what_would_run_and_carries_a_link_for_that_person(
    ledger: Ledger, notifier: Start, phone: Listening, clock: TestClock
) -> None:
    session = await ledger.session("ses_1", project="shop")
    async with notifier(settings_for(("ann", phone.url))):
        await session.submit("bash", ["git push\x1b[8m --force"], request_id="r1", agent="claude", actor="worker")
        await until_recorded(ledger, ("r1", "ann", "json", "sent", 0))
    (message,) = phone.messages
    *lines, link = message["message"].splitlines()
    assert message["title"] == "bash waits for your answer"
    assert lines == [
        "Cannot be undone",
        "> bash",
        r"> command: git push\x1b[8m --force",
        "> in shop / ses_1",
        "> calls itself: claude",
        "Danger: deletes, network",
        "Look closely, characters are invisible or look like others: U+001B control character",
        "Asked by the token `worker` 0s ago, 7d left",
        "",
        "Answer:",
    ]
    address, _, signed = link.rpartition("/")
    read = AnswerLinks(await link_key(ledger.store)).read(signed, clock.now_ms())
    assert address == "https://permits.example.com/answer"
    assert (read.session, read.request_id, read.name) == ("ses_1", "r1", "ann")
    assert read.expires_ms == clock.now_ms() + 7 * 86_400_000


async def test_reminders_follow_the_clock_and_stop_with_the_answer(
    ledger: Ledger, notifier: Start, phone: Listening, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    async with notifier(settings_for(("ann", phone.url))):
        await session.submit("bash", ["git push"], request_id="r1")
        await until_recorded(ledger, ("r1", "ann", "json", "sent", 0))
        clock.advance("1h")
        told = [("r1", "ann", "json", "sent", step) for step in (0, 1)]
        await until_recorded(ledger, *told)
        await session.reply("r1", "once", actor="bob")
        await until_recorded(ledger, *told, ("r1", "ann", "json", "withdrawn", None))
        clock.advance("2d")
        await session.submit("bash", ["ls"], request_id="r2")
        await wait_until_async(lambda: len(phone.messages) == 4, "the next request's message")
    assert phone.titles == [
        "bash waits for your answer",
        "bash still waits for your answer",
        "Allowed by bob (once)",
        "bash waits for your answer",
    ]


@pytest.mark.slow
async def test_a_broken_service_is_tried_again_and_holds_up_nobody(
    ledger: Ledger, notifier: Start, phone: Listening, clock: TestClock
) -> None:
    async with listening() as broken, listening() as silent:
        broken.broken = silent.silent = True
        people = (("ann", broken.url), ("bob", silent.url), ("carl", phone.url))
        session = await ledger.session("ses_1")
        async with notifier(settings_for(*people)):
            await session.submit("bash", ["git push"], request_id="r1")
            first = [("r1", "ann", "json", "failed", 0), ("r1", "carl", "json", "sent", 0)]
            await until_recorded(ledger, *first)
            broken.broken = False
            clock.advance("30s")
            await wait_until_async(lambda: broken.messages, "the second try")
            await until_recorded(ledger, *first, ("r1", "ann", "json", "sent", 0))
            assert silent.tried == 1


async def test_two_notifiers_gather_as_one(ledger: Ledger, notifier: Start, phone: Listening, clock: TestClock) -> None:
    settings = settings_for(("ann", phone.url))
    async with notifier(settings), notifier(settings):
        for number in range(8):
            session = await ledger.session(f"ses_{number}")
            await session.submit("bash", [f"git push {number}"], request_id="r1")
            await until_recorded(ledger, ("r1", "ann", "json", "sent", 0), session="ses_0")
        assert len(phone.messages) == 1
        clock.advance("5m")
        await until_recorded(ledger, ("r1", "ann", "json", "sent", 0), session="ses_7")
    assert phone.titles == ["bash waits for your answer", "7 requests wait for your answer"]


async def test_two_notifiers_at_once_say_nothing_twice(ledger: Ledger, notifier: Start, phone: Listening) -> None:
    timing = msgspec.structs.replace(TIMING, collapse_ms=0, an_hour_a_session=100, a_day_a_person=100)
    settings = settings_for(("ann", phone.url), timing=timing)
    names = [f"r{number}" for number in range(20)]
    async with notifier(settings), notifier(settings):
        session = await ledger.session("ses_1")
        for name in names:
            await session.submit("bash", [f"git push {name}"], request_id=name)
            await wait_until_async(partial(phone.received, f"{name}\n"), name)
        await until_recorded(ledger, *((name, "ann", "json", "sent", 0) for name in names))
    said = "\n".join(one["message"] for one in phone.messages)
    assert [said.count(f"git push {name}\n") for name in names] == [1] * len(names)


async def test_a_person_with_three_services_is_not_told_more_often_by_two_notifiers(
    ledger: Ledger, notifier: Start, phone: Listening
) -> None:
    timing = msgspec.structs.replace(TIMING, collapse_ms=0, a_day_a_person=6)
    async with listening() as one, listening() as two, listening() as three:
        of_ann = tuple(Service(f"json-{number}", each.url) for number, each in enumerate((one, two, three)))
        settings = settings_for(("bob", phone.url), timing=timing)
        settings = msgspec.structs.replace(settings, people=(*settings.people, (Recipient("ann"), of_ann)))
        async with notifier(settings), notifier(settings):
            for number in range(6):
                session = await ledger.session(f"ses_{number}")
                await session.submit("bash", [f"git push {number}"], request_id="r1")
                await wait_until_async(partial(phone.received, f"git push {number}\n"), f"bob to hear of {number}")
            await wait_until_async(lambda: sum(len(each.messages) for each in (one, two, three)) >= 6, "ann's messages")
        assert sum(len(each.messages) for each in (one, two, three)) == 6


async def test_what_came_within_five_minutes_is_one_message(
    ledger: Ledger, notifier: Start, phone: Listening, clock: TestClock
) -> None:
    async with notifier(settings_for(("ann", phone.url))):
        one, two = await ledger.session("ses_1"), await ledger.session("ses_2")
        await one.submit("bash", ["a"], request_id="r1")
        await until_recorded(ledger, ("r1", "ann", "json", "sent", 0))
        for session in (one, two):
            for name in ("r2", "r3"):
                await session.submit("bash", [f"{session.id} {name}"], request_id=name)
        await until_all_is_heard(ledger)
        clock.advance("5m")
        await until_recorded(ledger, *((name, "ann", "json", "sent", 0) for name in ("r2", "r3")), session="ses_2")
    assert phone.titles == ["bash waits for your answer", "4 requests wait for your answer"]
    assert [phone.messages[1]["message"].count(f"> command: ses_{n} r{m}") for n in (1, 2) for m in (2, 3)] == [
        1,
        1,
        1,
        1,
    ]


async def test_a_notifier_that_starts_goes_on_where_another_ended(
    ledger: Ledger, notifier: Start, phone: Listening, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    settings = settings_for(("ann", phone.url))
    async with notifier(settings):
        await session.submit("bash", ["git push"], request_id="r1")
        await until_recorded(ledger, ("r1", "ann", "json", "sent", 0))
    await session.submit("bash", ["ls"], request_id="r2")
    clock.advance("10m")
    async with notifier(settings):
        await until_recorded(ledger, ("r1", "ann", "json", "sent", 0), ("r2", "ann", "json", "sent", 0))
    await session.reply("r2", "once", actor="bob")
    async with notifier(settings):
        await wait_until_async(lambda: len(phone.messages) == 3, "the correction")
    assert phone.titles[2] == "Allowed by bob (once)"


async def test_nothing_secret_of_a_service_is_recorded_or_logged(
    ledger: Ledger, notifier: Start, phone: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    phone.broken = True
    caplog.set_level("DEBUG")
    session = await ledger.session("ses_1")
    async with notifier(settings_for(("ann", phone.url))):
        await session.submit("bash", ["git push"], request_id="r1")
        await until_recorded(ledger, ("r1", "ann", "json", "failed", 0))
    events = [event.as_json() async for event in session.events(follow_on=False)]
    assert "secret-path" not in repr(events)
    assert [one.name for one in caplog.records if one.name.startswith("apprise")] == []
    assert "secret-path" not in "".join(one.getMessage() for one in caplog.records if "urllib3" not in one.name)


async def test_a_session_with_an_entry_of_another_program_is_skipped_and_the_others_are_told_of(
    ledger: Ledger, notifier: Start, phone: Listening, admin: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    bad = await ledger.session("ses_bad")
    await bad.submit("bash", ["ls"], request_id="of_bad")
    key = as_redis(ledger.store).keys.stream(StreamKey("session", "ses_bad"))
    await admin.run("XADD", key, f"{bad.stream.position.ms}-{bad.stream.position.version + 1}", "other", "x")
    session = await ledger.session("ses_1")
    async with notifier(settings_for(("ann", phone.url))):
        await session.submit("bash", ["git push"], request_id="r1")
        await until_recorded(ledger, ("r1", "ann", "json", "sent", 0))
    told = [line for line in caplog.messages if line.startswith("notifier: session ses_bad is skipped: ")]
    assert len(told) == 1
    assert "has other fields than `d`" in told[0]


async def test_a_message_shows_a_mask_and_never_the_secret(ledger: Ledger, notifier: Start, phone: Listening) -> None:
    secret = "ghp" + "_Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2Rr1Qq0Pp9Oo8N"
    session = await ledger.session("ses_1")
    async with notifier(settings_for(("ann", phone.url))):
        await session.submit("bash", [f"git push https://ann:{secret}@github.com/acme/web"], request_id="r1")
        await until_recorded(ledger, ("r1", "ann", "json", "sent", 0))
    (message,) = phone.messages
    assert "> command: git push https[:]//ann:{secret:github:" in message["message"]
    assert secret not in str(phone.messages)

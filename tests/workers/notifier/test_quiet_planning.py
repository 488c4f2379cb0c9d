"""Plans with the choices of a person: quiet hours, and services that are muted."""

from __future__ import annotations

from typing import Any

from ledger import Ledger, Timeouts
from ledger.access.notifications import NotificationChoice
from ledger.core.access_events import QuietHours
from ledger.testing import TestClock
from tests.workers.notifier.listening import TIMING
from tests.workers.notifier.test_notifier_planning import ANN, Ann, said, state_of
from workers.notifier.plan import MessagePlan, RecipientChannel, plan
from workers.notifier.settings import Recipient

HOUR_MS = 3_600_000
# The clock begins on 2027-01-15 at 08:00 UTC.
MORNING = QuietHours(begin=7 * 60, until=10 * 60, zone="UTC")
END_MS = 1_800_000_000_000 + 2 * HOUR_MS
DEVICE = RecipientChannel(Recipient("ann"), "webpush-dev_1", is_device=True)


async def planned(ledger: Ledger, clock: TestClock, channel: RecipientChannel = ANN, **choice: Any) -> MessagePlan:
    state = await state_of(ledger)
    return plan(channel, [state], {}, TIMING, clock.now_ms(), choice=NotificationChoice(**{"quiet": MORNING, **choice}))


async def test_a_request_that_comes_in_quiet_hours_is_told_when_they_end(ledger: Ledger, clock: TestClock) -> None:
    await (await ledger.session("ses_1")).submit("bash", ["git push"], request_id="r1")
    assert (await planned(ledger, clock)).reminders == ()
    clock.advance("1h")
    found = await planned(ledger, clock)
    assert (found.reminders, found.next_ms) == ((), END_MS)
    clock.set(END_MS)
    # The reminder of the first hour came in them too: one message is enough.
    assert said(await planned(ledger, clock)) == [("r1", 1)]


async def test_other_people_without_quiet_hours_are_told_at_once(ledger: Ledger, clock: TestClock) -> None:
    await (await ledger.session("ses_1")).submit("bash", ["git push"], request_id="r1")
    bob = RecipientChannel(Recipient("bob"), "ntfy")
    assert said(await planned(ledger, clock, bob, quiet=None)) == [("r1", 0)]


async def test_a_message_that_was_due_before_and_late_waits_for_the_end_too(ledger: Ledger, clock: TestClock) -> None:
    clock.set(END_MS - 4 * HOUR_MS)
    await (await ledger.session("ses_1")).submit("bash", ["git push"], request_id="r1")
    assert said(await planned(ledger, clock)) == [("r1", 0)]
    clock.advance("1h")
    assert (await planned(ledger, clock)).next_ms == END_MS


async def test_grave_requests_come_nevertheless_if_the_person_wants_that(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["git push"], request_id="plain")
    await session.submit("bash", ["rm -rf build"], request_id="grave")
    wanting = QuietHours(begin=7 * 60, until=10 * 60, zone="UTC", grave=True)
    assert said(await planned(ledger, clock, quiet=wanting)) == [("grave", 0)]
    assert said(await planned(ledger, clock)) == []


async def test_what_expired_in_quiet_hours_is_told_when_they_end(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(attended=60, unattended=1800, cap=1800))
    await session.submit("bash", ["git push"], request_id="r1")
    clock.advance("31m")
    await session.submit("bash", ["ls"], request_id="r2")
    assert (await planned(ledger, clock)).corrections == ()
    clock.set(END_MS)
    due = await planned(ledger, clock)
    assert [one.settled.request.request_id for one in due.corrections] == ["r1"]
    assert (await planned(ledger, clock, quiet=None)).corrections == ()
    await session.note_notification("r1", "ntfy", "withdrawn", person="ann")
    assert (await planned(ledger, clock)).corrections == ()


async def test_what_was_answered_in_quiet_hours_is_not_told(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["git push"], request_id="r1")
    await session.reply("r1", "once", actor="bob")
    clock.set(END_MS)
    assert await planned(ledger, clock) == MessagePlan()


async def test_a_muted_service_reminds_of_nothing_and_still_corrects_what_it_told(
    ledger: Ledger, clock: TestClock
) -> None:
    ann = Ann(ledger, clock)
    session = await ledger.session("ses_1")
    await session.submit("bash", ["git push"], request_id="r1")
    await ann.told(await ann.look())
    await session.submit("bash", ["git pull"], request_id="r2")
    await session.reply("r1", "once", actor="bob")
    clock.advance("10m")
    found = await planned(ledger, clock, quiet=None, muted=("ntfy",))
    assert (said(found), len(found.corrections)) == ([], 1)


async def test_devices_have_limits_of_their_own_and_are_corrected_of_own_answers_too(
    ledger: Ledger, clock: TestClock
) -> None:
    phone, other = Ann(ledger, clock, DEVICE), RecipientChannel(Recipient("ann"), "webpush-dev_2", is_device=True)
    session = await ledger.session("ses_1")
    for number in range(6):
        await session.submit("bash", [f"git push {number}"], request_id=f"r{number}")
        await phone.told(await phone.look())
        clock.advance("5m")
    # The phone had its five messages of this hour; the tablet and ntfy had none.
    assert (await phone.look()).reminders == ()
    assert len((await planned(ledger, clock, other, quiet=None)).reminders) == 6
    assert len((await planned(ledger, clock, quiet=None)).reminders) == 6
    await session.reply("r0", "once", actor="ann")
    assert [one.settled.request.request_id for one in (await phone.look()).corrections] == ["r0"]

"""Plans of notifications, made from the events of a session and the time alone."""

from __future__ import annotations

from collections.abc import Mapping

from ledger import Ledger
from ledger.core.limits import LEASE_MS
from ledger.log.inboxes import InboxReach
from ledger.testing import TestClock
from projections.queries import SentMessage
from tests.workers.notifier.listening import TIMING
from workers.notifier.notification_states import NotificationStates
from workers.notifier.plan import MessagePlan, NotificationState, RecipientChannel, plan
from workers.notifier.runner import Attendance
from workers.notifier.settings import Recipient

ANN = RecipientChannel(Recipient("ann"), "ntfy")


async def state_of(ledger: Ledger, session: str = "ses_1") -> NotificationState:
    """Return the state that a notifier which starts now would fold."""
    (notified,) = await NotificationStates(ledger).refresh({session})
    return notified


def said(found: MessagePlan) -> list[tuple[str, int]]:
    return [(one.request.request_id, one.step) for one in found.reminders]


class Ann:
    """Plans and records deliveries as a notifier does."""

    def __init__(self, ledger: Ledger, clock: TestClock, channel: RecipientChannel = ANN) -> None:
        self.ledger = ledger
        self.clock = clock
        self.channel = channel
        self.count = 0

    async def look(
        self, messages: Mapping[str, SentMessage] | None = None, *sessions: str, under_way: int = 0
    ) -> MessagePlan:
        states = [await state_of(self.ledger, session) for session in sessions or ("ses_1",)]
        now_ms = self.clock.now_ms()
        return await Attendance(self.ledger.store).planned(
            lambda attended: plan(
                self.channel, states, messages or {}, TIMING, now_ms, under_way=under_way, attended=attended
            )
        )

    async def told(self, found: MessagePlan, result: str = "sent") -> None:
        self.count += 1
        for one in found.reminders:
            session = await self.ledger.attach(one.state.session_id)
            message_id = f"msg_{self.count}" if result == "sent" else None
            await session.note_notification(
                one.request.request_id,
                self.channel.service,
                result,
                person=self.channel.person.name,
                step=one.step,
                message_id=message_id,
            )


async def test_at_once_then_after_an_hour_then_after_a_day(ledger: Ledger, clock: TestClock) -> None:
    ann = Ann(ledger, clock)
    session = await ledger.session("ses_1")
    await session.submit("bash", ["git push"], request_id="r1")
    asked_ms = clock.now_ms()
    reminded: list[tuple[str, int, int | None]] = []
    for _ in range(3):
        found = await ann.look()
        assert len(found.reminders) == 1
        await ann.told(found)
        after = await ann.look()
        assert after.reminders == ()
        reminded.append((*said(found)[0], None if after.next_ms is None else after.next_ms - asked_ms))
        clock.set(after.next_ms or clock.now_ms())
    assert reminded == [("r1", 0, 3_600_000), ("r1", 1, 86_400_000), ("r1", 2, None)]


async def test_of_steps_that_were_missed_only_the_last_is_said(ledger: Ledger, clock: TestClock) -> None:
    ann = Ann(ledger, clock)
    await (await ledger.session("ses_1")).submit("bash", ["git push"], request_id="r1")
    clock.advance("2h")
    assert said(await ann.look()) == [("r1", 1)]


async def test_nothing_is_said_of_what_rules_decide_or_somebody_sees(ledger: Ledger, clock: TestClock) -> None:
    ann = Ann(ledger, clock)
    session = await ledger.session("ses_1", rules=[{"permission": "read", "pattern": "*", "action": "allow"}])
    await session.submit("read", ["a.py"], request_id="r0")
    await session.connect("phone", actor="ann")
    await session.submit("bash", ["git push"], request_id="r1")
    assert await ann.look() == MessagePlan()


async def test_it_is_said_once_a_request_moves_to_the_unattended_tier(ledger: Ledger, clock: TestClock) -> None:
    ann = Ann(ledger, clock)
    session = await ledger.session("ses_1")
    await session.connect("phone", actor="ann")
    await session.submit("bash", ["git push"], request_id="r1")
    await session.disconnect("phone")
    assert await ann.look() == MessagePlan()
    clock.advance("60s")
    await session.submit("bash", ["ls"], request_id="r2")
    assert said(await ann.look()) == [("r1", 0), ("r2", 0)]


async def test_what_waits_while_somebody_is_there_is_not_said_again(ledger: Ledger, clock: TestClock) -> None:
    ann = Ann(ledger, clock)
    session = await ledger.session("ses_1")
    await session.submit("bash", ["git push"], request_id="r1")
    await ann.told(await ann.look())
    clock.advance("1h")
    await session.connect("phone", actor="ann")
    seen = await ann.look()
    assert (seen.reminders, seen.next_ms) == ((), clock.now_ms() + LEASE_MS)
    await session.disconnect("phone")
    assert said(await ann.look()) == [("r1", 1)]


async def test_an_open_inbox_shows_what_waits_and_one_that_lost_its_lease_does_not(
    ledger: Ledger, clock: TestClock
) -> None:
    ann = Ann(ledger, clock)
    session = await ledger.session("ses_1", project="shop")
    await session.submit("bash", ["git push"], request_id="r1")
    await ledger.connect_inbox("laptop", actor="ann", reach=InboxReach(projects=("shop",)))
    assert (await ann.look()).reminders == ()
    clock.advance(LEASE_MS)
    assert said(await ann.look()) == [("r1", 0)]


async def test_within_five_minutes_of_a_message_others_are_gathered(ledger: Ledger, clock: TestClock) -> None:
    ann = Ann(ledger, clock)
    one, two = await ledger.session("ses_1"), await ledger.session("ses_2")
    await one.submit("bash", ["a"], request_id="r1")
    await ann.told(await ann.look())
    sent_ms = clock.now_ms()
    clock.advance("60s")
    await one.submit("bash", ["b"], request_id="r2")
    await two.submit("bash", ["c"], request_id="r3")
    waiting = await ann.look({}, "ses_1", "ses_2")
    assert (said(waiting), waiting.next_ms) == ([], sent_ms + 300_000)
    clock.set(sent_ms + 300_000)
    assert said(await ann.look({}, "ses_1", "ses_2")) == [("r2", 0), ("r3", 0)]


async def test_a_message_of_another_session_counts_for_gathering_too(ledger: Ledger, clock: TestClock) -> None:
    await (await ledger.session("ses_1")).submit("bash", ["a"], request_id="r1")
    found = await Ann(ledger, clock).look({"msg_9": SentMessage("ntfy", clock.now_ms() - 1000)})
    assert (said(found), found.next_ms) == ([], clock.now_ms() + 299_000)


async def test_a_session_is_told_of_five_times_an_hour(ledger: Ledger, clock: TestClock) -> None:
    ann = Ann(ledger, clock)
    session = await ledger.session("ses_1")
    first_ms = clock.now_ms()
    for number in range(5):
        await session.submit("bash", [str(number)], request_id=f"r{number}")
        await ann.told(await ann.look())
        clock.advance("6m")
    await session.submit("bash", ["6"], request_id="r6")
    held = await ann.look()
    assert (said(held), held.next_ms) == ([], first_ms + 3_600_000)


async def test_a_session_is_told_of_five_times_an_hour_by_all_services_of_a_person_together(
    ledger: Ledger, clock: TestClock
) -> None:
    ntfy, slack = Ann(ledger, clock), Ann(ledger, clock, RecipientChannel(Recipient("ann"), "slack"))
    bob = Ann(ledger, clock, RecipientChannel(Recipient("bob"), "slack"))
    slack.count = 100
    session = await ledger.session("ses_1")
    reminded: dict[str, int] = {"ntfy": 0, "slack": 0}
    for number in range(4):
        await session.submit("bash", [str(number)], request_id=f"r{number}")
        for name, one in (("ntfy", ntfy), ("slack", slack)):
            found = await one.look()
            reminded[name] += bool(found.reminders)
            await one.told(found)
        clock.advance("6m")
    assert reminded == {"ntfy": 3, "slack": 2}
    assert said(await bob.look()) == [(f"r{number}", 0) for number in range(4)]


async def test_a_person_is_told_twenty_times_a_day(ledger: Ledger, clock: TestClock) -> None:
    await (await ledger.session("ses_1")).submit("bash", ["a"], request_id="r1")
    now_ms = clock.now_ms()
    times = [now_ms - 600_000 * (number + 1) for number in range(20)]
    # By two services in turn: what counts is the person.
    messages = {f"msg_{ms}": SentMessage(("ntfy", "slack")[number % 2], ms) for number, ms in enumerate(times)}
    for service in ("ntfy", "slack", "mailto"):
        ann = Ann(ledger, clock, RecipientChannel(Recipient("ann"), service))
        found = await ann.look(messages)
        assert (said(found), found.next_ms) == ([], times[-1] + 86_400_000)
    messages.popitem()
    assert said(await ann.look(messages)) == [("r1", 0)]
    assert said(await ann.look(messages, under_way=1)) == []


async def test_a_failed_message_is_tried_again_later_and_later_and_given_up(ledger: Ledger, clock: TestClock) -> None:
    ann = Ann(ledger, clock)
    await (await ledger.session("ses_1")).submit("bash", ["a"], request_id="r1")
    began_ms, tried = clock.now_ms(), []
    for _ in range(3):
        found = await ann.look()
        tried.append(clock.now_ms() - began_ms)
        assert said(found) == [("r1", 0)]
        await ann.told(found, "failed")
        clock.set((await ann.look()).next_ms or 0)
    assert tried == [0, 30_000, 90_000]
    assert clock.now_ms() == began_ms + 3_600_000
    assert said(await ann.look()) == [("r1", 1)]


async def test_who_was_told_hears_how_it_ended_unless_it_was_their_own_answer(ledger: Ledger, clock: TestClock) -> None:
    ann, bob = Ann(ledger, clock), Ann(ledger, clock, RecipientChannel(Recipient("bob"), "ntfy"))
    session = await ledger.session("ses_1", cascade_reject="none")
    for request_id in ("r1", "r2"):
        await session.submit("bash", [request_id], request_id=request_id)
    await ann.told(await ann.look())
    await bob.told(await bob.look())
    await session.submit("bash", ["r3"], request_id="r3")
    for request_id, name in (("r1", "ann"), ("r2", "bob"), ("r3", "carl")):
        await session.reply(request_id, "once", actor=name)
    endings = {
        one.channel.person.name: [x.settled.request.request_id for x in (await one.look()).corrections]
        for one in (ann, bob)
    }
    assert endings == {"ann": ["r2"], "bob": ["r1"]}
    await session.note_notification("r2", "ntfy", "withdrawn", person="ann")
    assert await ann.look() == MessagePlan()
    clock.advance("25h")
    assert (await bob.look()).corrections == ()


async def test_nobody_hears_of_projects_they_do_not_care_for(ledger: Ledger, clock: TestClock) -> None:
    await (await ledger.session("ses_1", project="shop")).submit("bash", ["a"], request_id="r1")
    await (await ledger.session("ses_2")).submit("bash", ["b"], request_id="r2")
    reminded = {
        name: said(
            await Ann(ledger, clock, RecipientChannel(Recipient("ann", frozenset({name})), "ntfy")).look(
                {}, "ses_1", "ses_2"
            )
        )
        for name in ("shop", "ses_2", "ses_1")
    }
    assert reminded == {"shop": [("r1", 0)], "ses_2": [("r2", 0)], "ses_1": []}


async def test_two_services_of_one_person_fail_each_for_itself(ledger: Ledger, clock: TestClock) -> None:
    ntfy, slack = Ann(ledger, clock), Ann(ledger, clock, RecipientChannel(Recipient("ann"), "slack"))
    await (await ledger.session("ses_1")).submit("bash", ["a"], request_id="r1")
    await ntfy.told(await ntfy.look())
    await slack.told(await slack.look(), "failed")
    clock.advance("30s")
    assert (said(await ntfy.look()), said(await slack.look())) == ([], [("r1", 0)])


async def test_who_has_approved_is_not_reminded_and_the_others_are(ledger: Ledger, clock: TestClock) -> None:
    ann, bob = Ann(ledger, clock), Ann(ledger, clock, RecipientChannel(Recipient("bob"), "ntfy"))
    session = await ledger.session("ses_1", demands=[{"approvers": 2}])
    await session.submit("bash", ["git push"], request_id="r1")
    await session.reply("r1", "once", actor="ann")
    assert said(await ann.look()) == []
    assert said(await bob.look()) == [("r1", 0)]

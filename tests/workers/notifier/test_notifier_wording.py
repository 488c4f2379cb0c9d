"""Content and length of a message."""

from __future__ import annotations

from ledger import Ledger
from ledger.testing import TestClock
from tests.workers.notifier.listening import TIMING
from workers.notifier.notification_states import NotificationStates
from workers.notifier.plan import MessagePlan, RecipientChannel, plan
from workers.notifier.settings import Recipient
from workers.notifier.text import (
    BODY_CHARS_MAX,
    FOLDER_CHARS_MAX,
    LINE_CHARS_MAX,
    correction_message,
    reminder_message,
)


async def planned(ledger: Ledger, clock: TestClock) -> MessagePlan:
    states = await NotificationStates(ledger).refresh({"ses_1"})
    return plan(RecipientChannel(Recipient("ann"), "ntfy"), states, {}, TIMING, clock.now_ms())


async def test_a_long_command_is_cut_and_the_message_says_so(ledger: Ledger, clock: TestClock) -> None:
    await (await ledger.session("ses_1")).submit("bash", ["x" * 10_000], request_id="r1")
    message = reminder_message((await planned(ledger, clock)).reminders, lambda _: None, None, clock.now_ms())
    what = message.body.splitlines()[2]
    shown = LINE_CHARS_MAX * 2 // 3 + LINE_CHARS_MAX // 3
    assert what == (
        "> command: "
        + "x" * (LINE_CHARS_MAX * 2 // 3 - len("command: "))
        + f" … {10_000 + len('command: ') - shown} more characters … "
        + "x" * (LINE_CHARS_MAX // 3)
    )


async def test_what_has_no_room_is_counted_and_found_in_the_inbox(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    for number in range(40):
        await session.submit("bash", [f"{number} " + "y" * 300], request_id=f"r{number}")
    reminders = (await planned(ledger, clock)).reminders
    message = reminder_message(reminders, lambda _: "https://x/answer/1", "https://x/", clock.now_ms())
    told = message.body.count("https://x/answer/1")
    assert message.title == "40 requests wait for your answer"
    assert message.body.endswith(f"… and {40 - told} more:\nhttps://x/")
    assert (5 < told < 40, len(message.body) <= BODY_CHARS_MAX + 100) == (True, True)


async def test_no_line_of_a_message_is_the_agents_own(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    forged = "ls\nin shop / ses_1, asked by ann\nhttps://evil.example/answer"
    await session.submit("bash", [forged], request_id="r1")
    message = reminder_message((await planned(ledger, clock)).reminders, lambda _: None, None, clock.now_ms())
    said = "> command: ls⏎in shop / ses_1, asked by ann⏎https[:]//evil[.]example/answer"
    assert message.body.splitlines()[2] == said
    ours = [one for one in message.body.splitlines() if one and not one.startswith("> ")]
    assert [one.partition(" ")[0] for one in ours] == ["Cannot", "Danger:", "Asked", "Addresses"]


async def test_a_message_says_in_which_folder_it_would_run(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", cwd="/srv/scratch")
    await session.submit("bash", ["rm -rf build"], request_id="r1", cwd="/srv/production\nin shop")
    await session.submit("bash", ["ls"], request_id="r2", cwd="/" + "x" * 4000)
    message = reminder_message((await planned(ledger, clock)).reminders, lambda _: None, None, clock.now_ms())
    assert "> folder: /srv/production⏎in shop" in message.body.splitlines()
    [long] = [one for one in message.body.splitlines() if one.startswith("> folder: /x")]
    assert FOLDER_CHARS_MAX < len(long) < FOLDER_CHARS_MAX + 50


async def test_how_several_ended_is_one_message(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", cascade_reject="none")
    for name in ("r1", "r2"):
        await session.submit("bash", [name], request_id=name)
        await session.note_notification(name, "ntfy", "sent", person="ann", step=0, message_id="msg_1")
    await session.reply("r1", "reject", actor="bob")
    await session.close()
    message = correction_message((await planned(ledger, clock)).corrections, "ann")
    assert message.title == "2 requests were settled"
    assert sorted(message.body.split("\n\n")) == [
        "Cancelled\n> bash\n> command: r2",
        "Rejected by bob\n> bash\n> command: r1",
    ]


async def test_a_message_says_how_many_people_must_approve_and_who_has(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", demands=[{"approvers": 3}])
    await session.submit("bash", ["git push"], request_id="r1")
    await session.reply("r1", "once", actor="bob")
    message = reminder_message((await planned(ledger, clock)).reminders, lambda _: None, None, clock.now_ms())
    lines = message.body.splitlines()
    at = lines.index("3 people must approve it; waits for 2 more people")
    assert lines[at + 1] == "> approved by bob"

"""Every view of a request shows what would run, for every kind of call."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import pytest

from ledger import Ledger
from ledger.client.results import Result, pending_of, result_of
from ledger.core.events import Asked, ToolFinished
from ledger.core.grants import Recorded
from ledger.log.history import LoggedEvent
from ledger.policy import Layer, PolicySource
from ledger.session.state import SessionState
from ledger.testing import TestClock
from projections.sentences import sentence_of
from tests.support.kinds import KINDS
from workers.cli.description import call_in_line
from workers.cli.log import event_line
from workers.cli.pending import pending_cells
from workers.demo.show import Story
from workers.gateway.events.frames import replay_row
from workers.gateway.opencode import request_row
from workers.notifier.plan import Correction, Reminder
from workers.notifier.text import correction_message, reminder_message
from workers.presentation.answer_page import question_page
from workers.presentation.text import visible
from workers.presentation.timeline import TimelineFold
from workers.presentation.words import result_lines

UNTOLD_BY_PATTERNS = [kind for kind in KINDS if kind not in ("edit", "write", "pipeline")]
"""Of an edit OpenCode's clients are told the file, of a pipeline each command, as OpenCode tells them."""

HIDDEN = "ls \u202egpj.x\x1b[8m"


class Seen(NamedTuple):
    """A request that waits, and the event that asked it."""

    state: SessionState
    result: Result
    logged: LoggedEvent


@pytest.fixture
async def ledger(clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", clock=clock) as ledger:
        yield ledger


async def _asked(ledger: Ledger, kind: str) -> Seen:
    call = KINDS[kind]
    rules = {"permission": {"*": "ask"}} if call.dialect == "opencode" else {"permissions": {"ask": ["ExitPlanMode"]}}
    policy = PolicySource(call.dialect, (Layer("project", config=rules),), {"cwd": "/srv/shop"})
    session = await ledger.session("ses_1", policy=policy)
    result = await session.submit_tool(call.tool, call.input, request_id="r1", cwd="/srv/shop")
    if result.request_id != "r1":
        await session.reply(result.request_id, "once")
        result = await session.submit_tool(call.tool, call.input, request_id="r1", cwd="/srv/shop")
    events = [event async for event in session.events(follow_on=False)]
    logged = next(one for one in events if isinstance(one.event, Asked) and one.event.request_id == "r1")
    return Seen(session.stream.state, result_of(session.stream.state, "r1"), logged)


def _sentence(seen: Seen) -> str:
    one = seen.logged
    return sentence_of(Recorded(one.event, one.actor, one.ms, one.version, one.event_id), seen.state)


def _message(seen: Seen) -> str:
    reminder = Reminder(seen.state, seen.result.request, 0)
    return _whole(reminder_message([reminder], lambda _: None, None, seen.result.at_ms).body)


def _whole(message: str) -> str:
    """A message with the addresses in it put together again."""
    return re.sub(r"\[([.:@])\]", r"\1", message)


def _told(seen: Seen) -> str:
    line = Story("ses_1").tell(seen.logged)
    assert line is not None
    return line.text


def _page(seen: Seen) -> str:
    page = question_page(seen.state, seen.result.request, "ann", seen.result.at_ms, ("once", "reject"))
    return html.unescape(re.sub(r"<[^>]+>", "", page))


READERS: dict[str, Callable[[Seen], str]] = {
    "timeline": _sentence,
    "log": lambda seen: event_line(seen.logged, TimelineFold("ses_1").line(seen.logged)),
    "pending": lambda seen: str(pending_cells(pending_of(seen.state)[0], seen.result.at_ms)[3]),
    "ask": lambda seen: "\n".join(result_lines(seen.result)),
    "phone": _message,
    "answer page": _page,
    "event stream": lambda seen: replay_row(seen.state, seen.result.request, ())["would_run"],
    "demo": _told,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
async def test_every_reader_shows_what_would_run(ledger: Ledger, reader: str, kind: str) -> None:
    shown = READERS[reader](await _asked(ledger, kind))
    assert [one for one in KINDS[kind].seen if one not in shown] == []


@pytest.mark.parametrize("kind", UNTOLD_BY_PATTERNS)
async def test_opencodes_clients_are_shown_what_would_run(ledger: Ledger, kind: str) -> None:
    shown = "\n".join(request_row("ses_1", (await _asked(ledger, kind)).result.request)["patterns"])
    assert [one for one in KINDS[kind].seen if one not in shown] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", ["show", "ended", "ran"])
async def test_what_ran_is_told_after_the_answer_too(ledger: Ledger, reader: str, kind: str) -> None:
    await _asked(ledger, kind)
    session = await ledger.session("ses_1")
    await session.reply("r1", "once", actor="bob")
    event = [event async for event in session.events(follow_on=False)][-1]
    state = session.stream.state
    finished = Recorded(ToolFinished(request_id="r1"), event.actor, event.ms, event.version + 1, "evt_1")
    shown = {
        "show": lambda: call_in_line(result_of(state, "r1").request),
        "ended": lambda: _whole(correction_message([Correction(state, state.settled["r1"])], "ann").body),
        "ran": lambda: sentence_of(finished, state),
    }[reader]()
    assert [one for one in KINDS[kind].seen if one not in shown] == []


@pytest.mark.parametrize("reader", ["pending", "ask", "log", "timeline", "phone"])
async def test_what_hides_is_escaped_for_who_reads_lines(ledger: Ledger, reader: str) -> None:
    session = await ledger.session("ses_1")
    result = await session.submit_tool("bash", {"command": HIDDEN}, request_id="r1")
    event = [event async for event in session.events(follow_on=False)][-1]
    shown = visible(READERS[reader](Seen(session.stream.state, result, event)))
    assert r"ls \u202egpj.x\x1b[8m" in shown


@pytest.mark.parametrize("reader", ["timeline", "event stream", "phone"])
async def test_who_cuts_a_long_command_says_by_how_much(ledger: Ledger, reader: str) -> None:
    session = await ledger.session("ses_1")
    result = await session.submit_tool("bash", {"command": "true " * 2_000 + "&& rm x"}, request_id="r1")
    event = [event async for event in session.events(follow_on=False)][-1]
    shown = READERS[reader](Seen(session.stream.state, result, event))
    assert re.search(r"… \(?[0-9]+ more characters", shown)

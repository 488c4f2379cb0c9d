"""The spans of a program that records: asks, waits, replies, claims and runs, each where it happens."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from ledger import Ledger, Session, SyncLedger
from ledger.client.spans import within_trace
from ledger.core.errors import AlreadyAnsweredError, DeniedError
from ledger.core.event_shapes import read_trace_context
from ledger.guarding import asking, guarded
from ledger.stores.port import START
from tests.support.recorded_spans import RecordedSpans, ids, recording, told
from tests.support.waiting import wait_until_async

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
RULES = [
    {"permission": "bash", "pattern": "ls *", "action": "allow"},
    {"permission": "bash", "pattern": "rm *", "action": "deny"},
]


@pytest.fixture
def url() -> str:
    """Return the URL of the ledger. Spans do not depend on the store."""
    return f"memory://{uuid4().hex}"


@pytest.fixture
def spans() -> Iterator[RecordedSpans]:
    with recording() as found:
        yield found


async def opened(ledger: Ledger) -> Session:
    return await ledger.session("ses_1", project="shop", agent="coder", rules=RULES)


async def recorded(ledger: Ledger, session: Session) -> list[dict[str, str] | None]:
    """Return the context that was recorded with each ask."""
    events = [one.as_json() async for one in session.events(follow_on=False)]
    return [one["event"]["detail"].get("trace") for one in events if one["type"] == "asked"]


async def test_an_ask_is_a_span_of_the_askers_trace(ledger: Ledger, spans: RecordedSpans) -> None:
    session = await opened(ledger)
    with trace.get_tracer("agent").start_as_current_span("chat") as around:
        await session.ask("bash", ["ls x"], request_id="r1")
    span = spans.named("ask")
    assert span.parent is not None
    assert ids(span.parent) == ids(around.get_span_context())
    assert told(span) == {
        "gen_ai.conversation.id": "ses_1",
        "gen_ai.tool.name": "bash",
        "request_id": "r1",
        "project": "shop",
        "outcome": "allowed",
        "decided_by": "rule",
    }
    assert span.status.status_code is StatusCode.UNSET
    parent = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"
    assert await recorded(ledger, session) == [{"parent": parent}]


async def test_a_reply_and_a_claim_of_other_traces_link_to_the_ask(ledger: Ledger, spans: RecordedSpans) -> None:
    session = await opened(ledger)
    await session.submit("bash", ["git push"], request_id="r1")
    waiting = asyncio.ensure_future(session.wait("r1"))
    await session.reply("r1", "once", actor="ann")
    await waiting
    await session.claim("r1")
    asked, reply, claim = (spans.named(name) for name in ("ask", "reply", "claim"))
    assert sorted(spans.names) == ["ask", "claim", "reply", "wait"]
    assert [[ids(link) for link in one.links] for one in (reply, claim)] == [[ids(asked)], [ids(asked)]]
    assert len({ids(one)[0] for one in (asked, reply, claim)}) == 3
    assert "outcome" not in told(asked)
    assert (told(reply)["reply"], told(reply)["decided_by"]) == ("once", "person")
    assert told(spans.named("wait"))["outcome"] == "allowed"


async def test_a_denied_ask_is_no_error_of_the_ask(ledger: Ledger, spans: RecordedSpans) -> None:
    session = await opened(ledger)
    with pytest.raises(DeniedError):
        await session.ask("bash", ["rm x"])
    span = spans.named("ask")
    assert (told(span)["outcome"], span.status.status_code) == ("denied", StatusCode.UNSET)


async def test_an_operation_that_raises_has_the_code_of_its_error_and_no_text(
    ledger: Ledger, spans: RecordedSpans
) -> None:
    session = await opened(ledger)
    await session.submit("bash", ["git push"], request_id="r1")
    await session.reply("r1", "reject", actor="ann")
    with pytest.raises(AlreadyAnsweredError) as raised:
        await session.reply("r1", "once", actor="bob")
    span = spans.named("reply")
    assert told(span)["error.type"] == raised.value.code
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, raised.value.code)
    assert span.events == ()


async def test_a_run_is_the_span_around_what_the_tool_does(ledger: Ledger, spans: RecordedSpans) -> None:
    session = await opened(ledger)
    async with session.permit("bash", ["ls x"]):
        with trace.get_tracer("tool").start_as_current_span("inside"):
            pass
    run, inside = spans.named("execute_tool bash"), spans.named("inside")
    assert inside.parent is not None
    assert ids(inside.parent) == ids(run)
    assert told(run)["gen_ai.operation.name"] == "execute_tool"
    assert run.status.status_code is StatusCode.UNSET
    assert [ids(link) for link in run.links] == [ids(spans.named("ask"))]
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_run_that_fails_is_an_error(ledger: Ledger, spans: RecordedSpans) -> None:
    session = await opened(ledger)
    with pytest.raises(ZeroDivisionError):
        async with session.permit("bash", ["ls x"]):
            _ = 1 / 0
    run = spans.named("execute_tool bash")
    assert told(run)["error.type"] == "TOOL_FAILED"
    assert run.status.status_code is StatusCode.ERROR


async def test_a_run_that_is_told_of_by_its_claim_has_one_span_from_the_claim_to_the_end(
    ledger: Ledger, spans: RecordedSpans
) -> None:
    session = await opened(ledger)
    await session.submit("bash", ["ls x"], request_id="r1")
    claim = await session.claim("r1", runner="other")
    for _ in range(2):
        await session.finish("r1", claim.claim_id, ok=True)
    assert spans.names.count("execute_tool bash") == 1
    run = spans.named("execute_tool bash")
    settled = (await session.result("r1")).settled
    assert settled is not None
    assert settled.claim is not None
    assert settled.claim.ended_ms is not None
    assert (run.start_time, run.end_time) == (claim.at_ms * 1_000_000, settled.claim.ended_ms * 1_000_000)


def test_a_blocking_program_has_the_same_spans(spans: RecordedSpans, caplog: pytest.LogCaptureFixture) -> None:
    @guarded("bash")
    def listed(command: str) -> str:
        return command

    with SyncLedger.connect(f"memory://{uuid4().hex}") as ledger:
        session = ledger.session("ses_1", rules=RULES)
        with trace.get_tracer("agent").start_as_current_span("chat") as around, asking(session):
            assert listed("ls x") == "ls x"
        with session.permit("bash", ["ls x"]):
            pass
    assert spans.names == ["ask", "execute_tool bash", "chat", "ask", "execute_tool bash"]
    of_the_agent = around.get_span_context().trace_id
    assert [one.context.trace_id == of_the_agent for one in spans.all] == [True, True, True, False, False]
    assert caplog.text == ""


async def test_a_guarded_function_in_a_thread_has_its_run(
    ledger: Ledger, spans: RecordedSpans, caplog: pytest.LogCaptureFixture
) -> None:
    @guarded("bash")
    def listed(command: str) -> str:
        return command

    with asking(await opened(ledger)):
        await asyncio.to_thread(listed, "ls x")
    assert spans.names == ["ask", "execute_tool bash"]
    assert caplog.text == ""


async def test_a_context_that_was_handed_over_is_the_parent(ledger: Ledger, spans: RecordedSpans) -> None:
    session = await opened(ledger)
    with within_trace(read_trace_context(f"00-{TRACE}-{PARENT}-01", "vendor=1")):
        await session.submit("bash", ["git push"], request_id="r1")
    span = spans.named("ask")
    assert span.parent is not None
    assert ids(span.parent) == (int(TRACE, 16), int(PARENT, 16))
    assert span.parent.is_remote
    parent = f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert await recorded(ledger, session) == [{"parent": parent, "state": "vendor=1"}]


async def test_a_caller_that_is_not_sampled_has_no_span(ledger: Ledger, spans: RecordedSpans) -> None:
    session = await opened(ledger)
    with within_trace(read_trace_context(f"00-{TRACE}-{PARENT}-00")):
        async with session.permit("bash", ["ls x"]):
            pass
    assert spans.names == []


async def test_a_request_that_many_waited_for_has_spans_of_one_current_each(
    ledger: Ledger, spans: RecordedSpans
) -> None:
    session = await opened(ledger)
    asks = [asyncio.ensure_future(session.ask("bash", ["git push"], request_id=f"r{number}")) for number in range(3)]

    async def all_wait() -> bool:
        return len(await session.pending()) == 3

    await wait_until_async(all_wait, "the requests")
    for number in range(3):
        await session.reply(f"r{number}", "once", actor="ann")
    await asyncio.gather(*asks)
    assert Counter(spans.names) == {"ask": 3, "wait": 3, "reply": 3}
    assert all(one.parent is None for one in spans.all)


async def test_no_input_and_no_secret_is_in_a_span(ledger: Ledger, spans: RecordedSpans) -> None:
    rule = {"permission": "*", "pattern": f"*{SECRET[:12]}*{'x' * 300}", "action": "allow"}
    session = await ledger.session("ses_1", rules=[rule])
    await session.submit(f"tool {SECRET}", [f"curl -H {SECRET}"], request_id="r1", agent=SECRET)
    await session.submit("bash", [f"{SECRET[:12]}{'x' * 300}"], request_id="r2", tool_input={"command": "curl me"})
    everything = "".join(one.to_json() for one in spans.all)
    assert SECRET not in everything
    assert "curl" not in everything


async def test_a_trace_state_with_a_secret_is_not_recorded(ledger: Ledger) -> None:
    session = await opened(ledger)
    with within_trace(read_trace_context(f"00-{TRACE}-{PARENT}-01", f"vendor={SECRET}")):
        await session.submit("bash", ["git push"], request_id="r1")
    assert await recorded(ledger, session) == [{"parent": f"00-{TRACE}-{PARENT}-01"}]


async def test_without_a_trace_an_ask_takes_no_byte_more(ledger: Ledger) -> None:
    session = await opened(ledger)
    await session.submit("bash", ["git push"], request_id="r1")
    entries = await ledger.store.read(session.stream.key, START, 100)
    assert all(b"trace" not in entry.payload + (entry.content or b"") for entry in entries)


async def test_the_same_request_of_another_span_is_the_same_request(ledger: Ledger) -> None:
    session = await opened(ledger)
    for span in (PARENT, "00f067aa0ba902b7"):
        with within_trace(read_trace_context(f"00-{TRACE}-{span}-01")):
            assert (await session.submit("bash", ["git push"], request_id="r1")).outcome is None


@pytest.mark.parametrize("has_sdk", [True, False], ids=["no provider", "no sdk"])
async def test_where_nothing_records_an_ask_makes_one_call_for_spans(
    has_sdk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of the decorator; with the SDK loaded besides, one that finds that no provider is set."""
    if not has_sdk:
        monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace")
    made: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.endswith("ledger/client/spans.py"):
            made[frame.f_code.co_name] += 1
        elif event == "call" and "opentelemetry" in path:
            made["opentelemetry"] += 1

    async with Ledger.connect(f"memory://{uuid4().hex}") as ledger:
        session = await ledger.session("ses_1", rules=RULES)
        await session.ask("bash", ["ls x"])
        sys.setprofile(profile)
        try:
            await session.ask("bash", ["ls x"])
        finally:
            sys.setprofile(None)
    assert made == ({"entered": 1, "recording_api": 1, "opentelemetry": 1} if has_sdk else {"entered": 1})

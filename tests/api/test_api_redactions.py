"""Redactions through the API: the entries that go and stay, and the processes that knew their content."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from ledger import InputError, Ledger, RedactedError, UnknownSessionError
from ledger.core.commitments import keyed, short_digest
from ledger.core.events import Redacted
from ledger.core.questions import request_digest
from ledger.core.requests import make_question
from ledger.log.redactions import Pattern, StreamPlan
from ledger.log.tail import read_events
from ledger.log.verify import read_entries
from ledger.session.state import input_digest
from ledger.stores.port import START, Entry, StreamKey
from tests.api.actors import OpenLedger

SESSION = StreamKey("session", "ses_1")
PROJECT = StreamKey("project", "shop")
SECRET = "hunter-two-of-the-shop"


async def entries_of(ledger: Ledger, key: StreamKey = SESSION) -> list[Entry]:
    return list(await ledger.store.read(key, START, 1000))


async def content_of(ledger: Ledger, *keys: StreamKey) -> bytes:
    return b"\n".join([one.content or b"" for key in keys for one in await entries_of(ledger, key)])


async def filled(ledger: Ledger) -> None:
    """A request that is repeated by its answer, its end and a project's grant, and one that is not of it."""
    session = await ledger.session("ses_1", project="shop")
    await session.submit(
        "bash",
        [f"deploy {SECRET}"],
        always=[f"deploy {SECRET} *"],
        request_id="r1",
        tool_name="bash",
        tool_input={"command": f"deploy {SECRET}"},
        tool={"message_id": "m1", "call_id": "call_1"},
    )
    await session.submit("bash", ["git push"], request_id="r2")
    await session.reply("r1", "always", actor="ann", message="only this once")
    await session.note_tool_finished(call_id="call_1", output=f"deployed with {SECRET}")


async def found(ledger: Ledger, pattern: str = SECRET, **bounds: Any) -> list[StreamPlan]:
    return [plan async for plan in ledger.redactions.search(Pattern(pattern), since_ms=0, **bounds)]


async def redact(ledger: Ledger, plans: Iterable[StreamPlan]) -> None:
    for plan in plans:
        await ledger.redactions.redact(plan, reason="a password", actor="ann")


async def problems(ledger: Ledger, key: StreamKey = SESSION) -> tuple[int, list[str]]:
    reading = read_entries(key, await entries_of(ledger, key), await ledger.store.info(key))
    return reading.redacted_count, [one.text for one in reading.problems]


async def test_a_version_takes_all_entries_of_its_request_along_and_the_grants_that_its_answer_made(
    ledger: Ledger,
) -> None:
    await filled(ledger)
    own, granted = await ledger.redactions.plan("ses_1", [2])
    told = [(one.type, one.why) for one in own.selection.goes]
    assert told[0] == ("asked", "named")
    assert {kind for kind, why in told[1:] if why == "same_request"} >= {"replied", "tool_finished"}
    assert [(one.type, one.members) for one in granted.selection.goes] == [("granted", ("pattern",))]
    before = await entries_of(ledger)
    await redact(ledger, [own, granted])
    assert SECRET.encode() not in await content_of(ledger, SESSION, PROJECT)
    after = await entries_of(ledger)
    assert [one[:3] for one in after[: len(before)]] == [one[:3] for one in before]
    assert [one.content for one in after if b"git push" in (one.content or b"")] != []


async def test_the_event_says_who_why_and_which_versions_and_the_chain_holds(ledger: Ledger) -> None:
    await filled(ledger)
    plans = await found(ledger)
    assert [plan.key for plan in plans] == [SESSION, PROJECT]
    versions = plans[0].versions
    await redact(ledger, plans)
    redactions = [
        (one.actor.name, one.event)
        async for one in read_events(ledger.store, SESSION)
        if isinstance(one.event, Redacted)
    ]
    ((who, event),) = redactions
    assert (who, list(event.versions)) == ("ann", versions)
    assert event.detail is not None
    assert event.detail.reason == "a password"
    assert await problems(ledger) == (len(versions), [])
    assert await problems(ledger, PROJECT) == (1, [])
    assert await found(ledger) == []


async def test_a_plan_changes_nothing(ledger: Ledger) -> None:
    await filled(ledger)
    before = await entries_of(ledger)
    await ledger.redactions.plan("ses_1", [2])
    await found(ledger)
    assert await entries_of(ledger) == before


async def test_whoever_knew_the_content_answers_redacted_from_then_on(ledger: Ledger, open_ledger: OpenLedger) -> None:
    await filled(ledger)
    other = await (await open_ledger()).attach("ses_1")
    await other.state()
    await redact(ledger, await found(ledger))
    for session in (other, await (await open_ledger()).attach("ses_1")):
        with pytest.raises(RedactedError):
            await session.submit("bash", [f"deploy {SECRET}"], request_id="r1", tool_name="bash")
        assert SECRET not in repr(await session.state())
        assert (await session.state()).settled["r1"].outcome == "allowed"


async def test_without_the_content_no_guess_of_it_can_be_confirmed(ledger: Ledger) -> None:
    await filled(ledger)
    await redact(ledger, await found(ledger))
    guess = make_question(
        "bash", [f"deploy {SECRET}"], always=[f"deploy {SECRET} *"], tool_name="bash",
        tool_input={"command": f"deploy {SECRET}"},
    )  # fmt: skip
    written = await entries_of(ledger)
    left = b"".join(one.payload + (one.content or b"") for one in written)
    salts = [json.loads(one.content)["salt"] for one in written if one.content is not None]
    assert salts
    plain = (guess.digest, request_digest(guess, None), input_digest(guess.call.input))
    guesses = [*plain, *(keyed(digest, salt) for digest in plain for salt in salts)]
    spelled = [form for one in guesses for form in (one, short_digest(one)) if form is not None]
    assert len(spelled) == 2 * len(guesses), "a digest stands in hex, or in base64url"
    assert [one for one in spelled if one.encode() in left] == []


async def test_a_redaction_among_writers_loses_nothing_of_theirs(ledger: Ledger, open_ledger: OpenLedger) -> None:
    await filled(ledger)
    writers = [await (await open_ledger()).attach("ses_1") for _ in range(3)]

    async def write(number: int) -> None:
        for turn in range(20):
            await writers[number].submit("bash", [f"{number} {turn}"], request_id=f"w{number}_{turn}")

    plans = await found(ledger)
    await asyncio.gather(*(write(number) for number in range(3)), redact(ledger, plans))
    state = await writers[0].state()
    assert len([one for one in state.pending if one.startswith("w")]) == 60
    assert SECRET.encode() not in await content_of(ledger, SESSION, PROJECT)
    assert (await problems(ledger))[1] == []


async def test_what_is_written_between_plan_and_redaction_goes_too(ledger: Ledger) -> None:
    await filled(ledger)
    plans = await found(ledger)
    session = await ledger.attach("ses_1")
    await session.submit("bash", [f"again {SECRET}"], request_id="r3")
    await redact(ledger, plans)
    assert SECRET.encode() not in await content_of(ledger, SESSION, PROJECT)


async def test_ids_and_names_are_reported_as_what_stays(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.submit(f"tool {SECRET}", ["x"], request_id="r1")
    (plan,) = await found(ledger)
    assert plan.versions == []
    assert [(one.version, one.members, one.why) for one in plan.selection.stays] == [(2, ("permission",), "payload")]


async def test_a_search_is_bounded_by_time_session_and_project(ledger: Ledger) -> None:
    await filled(ledger)
    other = await ledger.session("ses_2", project="other")
    await other.submit("bash", [SECRET], request_id="r1")
    assert [plan.key.id for plan in await found(ledger)] == ["ses_1", "ses_2", "shop"]
    assert [plan.key.id for plan in await found(ledger, session="ses_1")] == ["ses_1", "shop"]
    assert [plan.key.id for plan in await found(ledger, project="other")] == ["ses_2"]
    later = await ledger.store.now_ms() + 1
    assert [plan async for plan in ledger.redactions.search(Pattern(SECRET), since_ms=later)] == []


async def test_a_regular_expression_finds_what_escapes_and_members_hide(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["x"], request_id="r1", metadata={'key "quoted"\n': {"deep": [4711]}})
    for pattern in ('key "quoted"\n', "4711", "regex:^47.1$"):
        (plan,) = await found(ledger, pattern)
        assert [(one.version, one.matched) for one in plan.selection.goes] == [(2, ("metadata",))]


@pytest.mark.parametrize("text", ["abc", "x" * 1001, "regex:(", "regex:.*", "regex:|x"])
def test_a_pattern_that_would_take_too_much_or_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="pattern"):
        Pattern(text)


async def test_a_session_or_version_that_does_not_exist_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(UnknownSessionError):
        await ledger.redactions.plan("ses_none", [1])
    with pytest.raises(UnknownSessionError):
        await found(ledger, session="ses_none")
    await ledger.session("ses_1")
    with pytest.raises(InputError, match="has 1 versions, not 7"):
        await ledger.redactions.plan("ses_1", [7])


async def test_a_second_redaction_finds_nothing_left(ledger: Ledger) -> None:
    await filled(ledger)
    await redact(ledger, await ledger.redactions.plan("ses_1", [2]))
    own, *_ = await ledger.redactions.plan("ses_1", [2])
    assert own.versions == []
    assert own.selection.without_content == [2]

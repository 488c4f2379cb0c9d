"""The bridge between an OpenCode server and a real gateway: judged, answered, withdrawn, through every interruption."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateways import Person
from tests.support.opencode import DIRECTORY, OpenCodeServer
from tests.support.waiting import wait_until_async
from tests.workers.bridges.opencode.conftest import Bridged

RULES = {"permission": {"bash": {"*": "ask", "ls *": "allow", "rm *": "deny"}}}


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "opencode.json"
    path.write_text(json.dumps({**RULES, "provider": {"apiKey": "secret"}}))
    return str(path)


async def reply_to(opencode: OpenCodeServer, request_id: str) -> tuple[str, str | None]:
    """Return the reply to an OpenCode request, after waiting for it."""
    await wait_until_async(lambda: request_id in opencode.replies, f"an answer to {request_id}")
    return opencode.replies[request_id]


async def settled(ann: Person, session: str, request_id: str) -> dict[str, Any]:
    """Return how a request ended in the ledger, after waiting for its end."""
    row = await wait_until_async(lambda: ann.outcome(session, request_id), f"{request_id} to be settled")
    assert row is not None
    return row


@pytest.mark.parametrize("directory", [None, DIRECTORY], ids=["all directories", "one directory"])
async def test_rules_decide_without_a_person(bridged: Bridged, rules: str, directory: str | None) -> None:
    opencode = bridged.opencode
    async with bridged.running(rules=rules, directory=directory):
        listed, removed = opencode.ask(pattern="ls -l"), opencode.ask("ses_2", "rm -rf x")
        assert await reply_to(opencode, listed) == ("once", None)
        reply, message = await reply_to(opencode, removed)
    assert reply == "reject"
    assert message is not None
    assert message.startswith("The user has specified a rule which prevents you from using this specific tool call.")


async def test_a_person_answers_from_anywhere_and_sees_what_was_asked(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask()
        shown = await ann.answer_next("ses_1", "reject", message="not on a Friday")
        assert await reply_to(bridged.opencode, request_id) == ("reject", "not on a Friday")
    known = ("request_id", "permission", "patterns", "always", "tool", "agent")
    assert {name: shown[name] for name in known} == {
        "request_id": request_id,
        "permission": "bash",
        "patterns": ["git push"],
        "always": ["git *"],
        "tool": {"message_id": "msg_1", "call_id": "call_1"},
        "agent": "build",
    }
    mark = {"url": bridged.opencode.url, "directory": DIRECTORY}
    assert shown["metadata"] == {"command": "git push", "opencode": mark}


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_request_for_a_folder_shows_the_command_that_wants_it(bridged: Bridged, ann: Person, size: int) -> None:
    command = f"cat /srv/other/notes {'x' * size}"
    other = {"type": "tool", "tool": "bash", "callID": "call_9", "state": {"input": {"command": "ls"}}}
    own = {**other, "callID": "call_1", "state": {"status": "running", "input": {"command": command}}}
    bridged.opencode.parts = [{"type": "text"}, other, own]
    async with bridged.running():
        bridged.opencode.ask(pattern="/srv/other/*", permission="external_directory", metadata={"behind": "a lie"})
        shown = await ann.answer_next("ses_1", "reject")
    behind = {"tool": "bash", "input": {"command": command}}
    length = len(json.dumps(behind["input"]))
    assert shown["metadata"]["behind"] == (behind if size == 1 else {"tool": "bash", "input_chars": length})
    first = shown["description"]["sections"][0]
    assert size > 1 or (first["kind"], first["text"]) == ("command", command)


async def test_an_always_is_kept_by_the_ledger_and_opencode_goes_on_asking(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        first = bridged.opencode.ask()
        await ann.answer_next("ses_1", "always")
        assert await reply_to(bridged.opencode, first) == ("once", None)
        again = bridged.opencode.ask("ses_2", "git push --tags")
        assert await reply_to(bridged.opencode, again) == ("once", None)


async def test_parallel_requests_are_rejected_together_and_the_first_keeps_its_message(
    bridged: Bridged, ann: Person
) -> None:
    async with bridged.running():
        first, second = bridged.opencode.ask(), bridged.opencode.ask(pattern="git pull")
        await ann.waiting("ses_1", 2)
        await ann.reply("ses_1", first, "reject", message="use pnpm")
        assert await reply_to(bridged.opencode, first) == ("reject", "use pnpm")
        assert await reply_to(bridged.opencode, second) == ("reject", None)
    assert (await settled(ann, "ses_1", second))["outcome"] == "rejected"


async def test_what_opencode_rejects_with_a_denied_call_is_withdrawn(bridged: Bridged, ann: Person, rules: str) -> None:
    async with bridged.running(rules=rules):
        waiting = bridged.opencode.ask()
        await ann.waiting("ses_1")
        denied = bridged.opencode.ask(pattern="rm x")
        row = await settled(ann, "ses_1", waiting)
    assert row["message"] == (
        f"Permission request cancelled: it was withdrawn (opencode refused it together with `{denied}`)"
    )


@pytest.mark.parametrize(("said", "kept"), [("once", "once"), ("reject", "reject"), ("always", "session")])
async def test_an_answer_given_in_opencode_is_recorded_as_given_there(
    bridged: Bridged, ann: Person, said: str, kept: str
) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask()
        await ann.waiting("ses_1")
        bridged.opencode.reply(request_id, said)
        row = await settled(ann, "ses_1", request_id)
    assert row["reply"] == kept
    [replied] = [row for row in await ann.events("ses_1") if row["type"] == "replied"]
    assert (replied["actor"]["via"], replied["event"]["told"]) == ("told", "opencode")


async def test_a_sub_agent_s_session_hangs_below_its_parent_s(bridged: Bridged, ann: Person) -> None:
    bridged.opencode.sessions["ses_1"] = {"id": "ses_1", "directory": DIRECTORY, "agent": "build"}
    async with bridged.running():
        request_id = bridged.opencode.ask("ses_child", parent="ses_1")
        shown = await ann.answer_next("ses_child", "once")
        assert await reply_to(bridged.opencode, request_id) == ("once", None)
    assert (shown["lineage"], shown["agent"]) == (["ses_1"], "general")


async def test_an_aborted_request_is_withdrawn_although_it_stays_listed(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask()
        await ann.waiting("ses_1")
        bridged.opencode.abort("ses_1")
        row = await settled(ann, "ses_1", request_id)
        bridged.opencode.drop_streams()
        again = bridged.opencode.ask("ses_2")
        await ann.waiting("ses_2")
        assert [one["request_id"] for one in await ann.pending("ses_1")] == []
    assert (row["outcome"], request_id in bridged.opencode.pending, again in bridged.opencode.pending) == (
        "cancelled",
        True,
        True,
    )


async def test_what_was_asked_while_nobody_listened_is_found_in_the_list(bridged: Bridged, ann: Person) -> None:
    request_id = bridged.opencode.ask()
    async with bridged.running():
        await ann.answer_next("ses_1", "once")
        assert await reply_to(bridged.opencode, request_id) == ("once", None)


async def test_a_bridge_that_was_killed_is_followed_by_one_that_attaches(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask()
        await ann.waiting("ses_1")
    await ann.reply("ses_1", request_id, "once")
    async with bridged.running():
        assert await reply_to(bridged.opencode, request_id) == ("once", None)
    assert [event["type"] for event in await ann.events("ses_1")].count("asked") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("killable_gateway")
async def test_a_gateway_that_was_killed_and_started_again_still_holds_the_request(
    bridged: Bridged, ann: Person
) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask()
        await ann.waiting("ses_1")
        bridged.gateway.kill9()
        await asyncio.to_thread(bridged.gateway.start)
        await ann.answer_next("ses_1", "once")
        assert await reply_to(bridged.opencode, request_id) == ("once", None)


@pytest.mark.usefixtures("no_gateway")
async def test_a_gateway_that_stays_away_is_a_reject_that_says_so(bridged: Bridged) -> None:
    async with bridged.running(grace=0.2):
        reply, message = await reply_to(bridged.opencode, bridged.opencode.ask())
    assert reply == "reject"
    assert message is not None
    assert message.startswith("denied, because nobody could be asked: ")


@pytest.mark.slow
@pytest.mark.usefixtures("no_gateway")
async def test_a_question_may_be_left_to_opencode_s_own_prompt_and_is_recorded_later(
    bridged: Bridged, ann: Person
) -> None:
    async with bridged.running(grace=0.2, on_unreachable="agent"):
        request_id = bridged.opencode.ask()
        await wait_until_async(lambda: bridged.told, "the person to be told")
        assert request_id in bridged.opencode.pending
        bridged.opencode.reply(request_id, "once")
        await asyncio.to_thread(bridged.gateway.start)
        row = await settled(ann, "ses_1", request_id)
    assert (row["outcome"], row["reply"]) == ("allowed", "once")


async def test_opencode_started_again_asks_anew_and_gets_the_standing_answer(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        lost = bridged.opencode.ask()
        await ann.waiting("ses_1")
        await bridged.opencode.stop()
        await bridged.opencode.start()
        row = await settled(ann, "ses_1", lost)
        granted = bridged.opencode.ask(pattern="git push")
        await ann.answer_next("ses_1", "always")
        await reply_to(bridged.opencode, granted)
        await bridged.opencode.stop()
        await bridged.opencode.start()
        await wait_until_async(lambda: bridged.opencode.is_followed, "the bridge to follow again")
        again = bridged.opencode.ask(pattern="git push")
        assert await reply_to(bridged.opencode, again) == ("once", None)
    assert (row["outcome"], row["message"].split(" (")[0]) == (
        "cancelled",
        "Permission request cancelled: the agent that asked is gone",
    )


async def test_a_server_that_is_away_is_told_in_words_and_again_when_it_is_back(bridged: Bridged) -> None:
    async with bridged.running():
        await bridged.opencode.stop()
        await wait_until_async(lambda: bridged.told, "the person to be told")
        await bridged.opencode.start()
        await wait_until_async(lambda: len(bridged.told) > 1, "the person to be told that it is back")
    url = bridged.opencode.url
    assert bridged.told == [
        f"opencode at {url} does not answer; trying again: nothing listens",
        f"opencode at {url} is back",
    ]


def deny_pushes(rules: str) -> None:
    changed = {"permission": {"bash": {**RULES["permission"]["bash"], "git push*": "deny"}}}
    Path(rules).write_text(json.dumps(changed))


@pytest.mark.slow
async def test_a_deny_that_is_added_while_a_request_waits_stops_a_later_yes(
    bridged: Bridged, ann: Person, rules: str
) -> None:
    async with bridged.running(rules=rules):
        request_id = bridged.opencode.ask(pattern="git push")
        await ann.waiting("ses_1")
        before = len(await ann.events("ses_1"))
        deny_pushes(rules)

        async def recorded() -> bool:
            return len(await ann.events("ses_1")) > before

        await wait_until_async(recorded, "the changed rules to be recorded")
        await ann.reply("ses_1", request_id, "once")
        reply, message = await reply_to(bridged.opencode, request_id)
    assert reply == "reject"
    assert message is not None
    assert "git push" in message


async def test_a_changed_file_judges_the_next_request_of_every_session(
    bridged: Bridged, ann: Person, rules: str
) -> None:
    async with bridged.running(rules=rules):
        for session in ("ses_1", "ses_2"):
            assert (await reply_to(bridged.opencode, bridged.opencode.ask(session, "ls -l")))[0] == "once"
        deny_pushes(rules)
        for session in ("ses_1", "ses_2"):
            assert (await reply_to(bridged.opencode, bridged.opencode.ask(session, "git push")))[0] == "reject"


async def test_what_both_lost_is_withdrawn_by_the_next_bridge(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        lost = bridged.opencode.ask()
        await ann.waiting("ses_1")
    bridged.opencode.pending.clear()
    async with bridged.running():
        assert (await settled(ann, "ses_1", lost))["outcome"] == "cancelled"


async def test_a_list_that_opencode_cannot_give_is_told_and_events_are_judged_on(
    bridged: Bridged, ann: Person, rules: str
) -> None:
    bridged.opencode.cannot_list = True
    async with bridged.running(rules=rules):
        await wait_until_async(lambda: bridged.told, "the person to be told")
        assert await reply_to(bridged.opencode, bridged.opencode.ask(pattern="ls -l")) == ("once", None)
    assert bridged.told == ["opencode cannot list its pending requests; only later requests are judged"]


async def test_what_cannot_be_read_is_refused(bridged: Bridged) -> None:
    async with bridged.running():
        reply, message = await reply_to(bridged.opencode, bridged.opencode.ask(patterns="git push"))
    assert (reply, message) == ("reject", "cannot be judged: its patterns is not a list of at most 256 texts")


async def test_a_tool_that_ran_is_noted_with_its_request(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask()
        request = bridged.opencode.pending[request_id]
        await ann.answer_next("ses_1", "once")
        await reply_to(bridged.opencode, request_id)
        bridged.opencode.tool_ends(request_id, request)

        async def noted() -> list[Any]:
            return [event for event in await ann.events("ses_1") if event["type"] == "tool_finished"]

        [event] = await wait_until_async(noted, "the tool's end to be noted")
    assert (event["event"]["request_id"], event["event"].get("ok", True)) == (request_id, True)


async def test_two_people_answer_at_once_and_the_first_wins_everywhere(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask()
        await ann.waiting("ses_1")
        bridged.opencode.reply(request_id, "reject")
        row = await settled(ann, "ses_1", request_id)
    assert (row["outcome"], bridged.opencode.replies[request_id]) == ("rejected", ("reject", None))

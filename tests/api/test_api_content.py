"""Free text and digests of it: none of either stands in a payload, which stays when the content is taken out."""

from __future__ import annotations

from hashlib import sha256

import pytest

from ledger import DifferentRequestError, Ledger
from ledger.core.questions import request_digest
from ledger.core.requests import in_folder, make_question
from ledger.log.tail import read_events
from ledger.session.state import input_digest
from ledger.stores.port import START, Entry, StreamKey
from tests.api.actors import OpenLedger

SESSION = StreamKey("session", "ses_1")
PROJECT = StreamKey("project", "shop")
SECRET = "hunter2"


async def entries_of(ledger: Ledger, key: StreamKey) -> list[Entry]:
    return list(await ledger.store.read(key, START, 1000))


def digests_of(*texts: str) -> list[str]:
    return [sha256(text.encode()).hexdigest() for text in texts]


async def test_no_free_text_and_no_plain_digest_of_it_stands_in_a_payload(ledger: Ledger) -> None:
    session = await ledger.session(
        "ses_1", project="shop", rules=[{"permission": "read", "pattern": f"*{SECRET}*", "action": "allow"}]
    )
    question = make_question(
        "bash", [f"curl {SECRET}"], always=[f"curl {SECRET} *"], metadata={"note": SECRET}, tool_name="bash",
        tool_input={"command": f"curl {SECRET}"},
    )  # fmt: skip
    asking = {
        "always": question.always,
        "metadata": question.metadata,
        "tool_name": "bash",
        "tool_input": question.call.input,
    }
    await session.submit("bash", question.call.patterns, request_id="r1", **asking)
    await session.reply("r1", "always", actor="ann")
    await session.submit("bash", [f"wget {SECRET}"], request_id="r2")
    await session.reply("r2", "reject", message=f"never {SECRET}", actor="ann")
    await session.submit("bash", [f"ftp {SECRET}"], request_id="r3", tool_name="bash", tool_input={"command": SECRET})
    await session.reply("r3", "once", updated_input={"command": f"safe {SECRET}"}, actor="ann")
    await session.note_tool_finished("r1", ran=question, output=f"200 {SECRET}", title=SECRET)
    await session.close(reason=f"done with {SECRET}")
    written = [*await entries_of(ledger, SESSION), *await entries_of(ledger, PROJECT)]
    payloads = b"\n".join(one.payload for one in written)
    contents = b"\n".join(one.content or b"" for one in written)
    assert SECRET.encode() not in payloads
    assert contents.count(SECRET.encode()) > 10
    plain = [
        question.digest,
        request_digest(question, None),
        *(input_digest({"command": text}) for text in (SECRET, f"safe {SECRET}", f"curl {SECRET}")),
        *digests_of(SECRET, f"curl {SECRET}", f"curl {SECRET} *", f"never {SECRET}", f"wget {SECRET}"),
    ]
    assert [one for one in plain if one.encode() in payloads] == []


async def test_a_request_is_attached_to_by_its_content_whatever_process_asks(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    first = await (await ledger.session("ses_1")).submit("bash", ["git push"], request_id="r1")
    other = await (await open_ledger()).attach("ses_1")
    again = await other.submit("bash", ["git push"], request_id="r1")
    assert (again.request.digest, again.version) == (first.request.digest, first.version)
    with pytest.raises(DifferentRequestError):
        await other.submit("bash", ["git pull"], request_id="r1")


async def test_the_same_question_twice_has_two_digests(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    shown = {(await session.submit("bash", ["git push"], request_id=one)).request.digest for one in ("r1", "r2")}
    assert len(shown) == 2
    plain = in_folder(make_question("bash", ["git push"]), (await session.state()).cwd).digest
    assert plain not in shown


async def test_what_ran_is_compared_with_what_was_asked_although_both_digests_are_keyed(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    for request_id, ran in (("r1", "git push"), ("r2", "git push --force")):
        await session.submit("bash", ["git push"], request_id=request_id)
        await session.reply(request_id, "once", actor="ann")
        await session.note_tool_finished(request_id, ran=make_question("bash", [ran]))
    events = [one.event async for one in read_events(ledger.store, SESSION)]
    assert [event.as_asked for event in events if hasattr(event, "as_asked")] == [True, False]


async def test_the_log_shows_no_salt(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", cwd="/srv")
    await session.submit("bash", ["git push"], request_id="r1")
    rows = [one.as_json() async for one in session.events(0, follow_on=False)]
    assert all("salt" not in row["event"].get("detail", {}) for row in rows)
    assert rows[1]["event"]["detail"]["patterns"] == ("git push",)

"""Answer links: one request, one person, one time; looking never answers."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from ledger import Ledger
from ledger.stores.secrets import link_key
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served
from tests.gateway.strange import STRANGE
from workers.runtime.answer_links import AnswerLink, AnswerLinks, BadLinkError, LinkExpiredError

LINK = AnswerLink("ses_1", "r1", "0" * 64, "ann", 1_000)


def test_a_link_reads_back_as_it_was_signed() -> None:
    links = AnswerLinks(b"secret")
    assert links.read(links.sign(LINK), 999) == LINK


def test_a_link_ends_at_its_time() -> None:
    links = AnswerLinks(b"secret")
    with pytest.raises(LinkExpiredError):
        links.read(links.sign(LINK), 1_000)


@pytest.mark.parametrize("text", ["", "x", "a.b", "é.ü", "A" * 100_000, AnswerLinks(b"other").sign(LINK)])
def test_what_this_ledger_did_not_sign_is_no_link(text: str) -> None:
    with pytest.raises(BadLinkError):
        AnswerLinks(b"secret").read(text, 0)


@pytest.mark.parametrize("at", range(0, 80, 7))
def test_no_character_of_a_link_can_be_changed(at: int) -> None:
    text = AnswerLinks(b"secret").sign(LINK)
    other = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
    with pytest.raises(BadLinkError):
        AnswerLinks(b"secret").read(other, 0)


async def link_for(ledger: Ledger, request_id: str = "r1", name: str = "ann", *, seconds: int = 3600) -> str:
    pending = {one.request.request_id: one.request for one in await ledger.pending()}
    link = AnswerLink("s1", request_id, pending[request_id].digest, name, ledger.store.clock.now_ms() + seconds * 1000)
    return "/answer/" + AnswerLinks(await link_key(ledger.store)).sign(link)


async def sent(caller: Caller, path: str, headers: dict[str, str] | None = None, **form: str) -> httpx.Response:
    return await caller.http.post(path, data=form, headers=headers)


@pytest.fixture
async def anybody(gateway: Served, agent: Caller) -> Caller:
    """A browser that nobody signed in; `r1` waits in session `s1`, and ann and bob may answer."""
    for name in ("ann", "bob"):
        await gateway.ledger.tokens.create(name, "approver")
    await agent.put("/v1/sessions/s1", {"project": "shop"})
    await agent.ask("s1", "git push\x1b[8m --force\u202e\n# <b>", always=["git push *"], request_id="r1")
    return gateway.caller_with(None)


def headline(answer: httpx.Response) -> str:
    found = re.search(r"<h1>(.*?)</h1>", answer.text)
    assert found is not None
    return found[1]


async def test_the_page_shows_all_of_what_would_run_and_answers_nothing(
    anybody: Caller, agent: Caller, ledger: Ledger
) -> None:
    path = await link_for(ledger)
    for _ in range(3):
        shown = await anybody.get(path)
        assert shown.status_code == 200
    marked = re.sub(r"<mark[^>]*>(.*?)</mark>", r"⟨\1⟩", re.sub(r"</?span[^>]*>", "", shown.text))
    assert "<pre>git push⟨\\x1b⟩[8m --force⟨\\u202e⟩\n# &lt;b&gt;</pre>" in marked
    assert "U+001B control character, U+202E RIGHT-TO-LEFT OVERRIDE." in shown.text
    assert re.findall(r'name="reply" value="(\w+)"', shown.text) == ["once", "reject"]
    assert "<script" not in shown.text
    assert shown.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert shown.headers["cache-control"] == "no-store"
    assert (await agent.get("/v1/sessions/s1/asks/r1")).status_code == 202


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"command": "ls", "description": "look"}, ["<i>“look”</i>", "<pre>ls</pre>"]),
        ({"command": "ls && rm x", "timeout": 5}, ['<span class="row">rm x</span>', "<b>timeout</b> <code>5</code>"]),
        ({"path": "a.py", "new": "one\ntwo"}, ["<b>path</b> <code>a.py</code>", "<b>new</b></p><pre>one\ntwo</pre>"]),
        (
            {"file_path": "a.py", "old_string": "x\ny", "new_string": "x\nz"},
            ['<span class="same"> x</span>', '<span class="gone">-y</span>', '<span class="came">+z</span>'],
        ),
        ({"list": [{"deep": "<b>"}] * 9}, ["&quot;deep&quot;: &quot;&lt;b&gt;&quot;"]),
    ],
)
async def test_every_member_of_the_input_is_shown(
    anybody: Caller, agent: Caller, ledger: Ledger, given: Any, shown: list[str]
) -> None:
    body = {"permission": "edit", "patterns": ["ls"], "input": given, "tool_name": "Tool", "request_id": "r2"}
    await agent.post("/v1/sessions/s1/asks", body)
    page = (await anybody.get(await link_for(ledger, "r2"))).text
    assert [one for one in shown if one not in page] == []


@pytest.mark.parametrize("given", STRANGE)
async def test_whatever_an_agent_sends_is_shown_and_can_be_answered(
    anybody: Caller, agent: Caller, ledger: Ledger, given: Any
) -> None:
    body = {"permission": "p", "patterns": ["p"], "input": given, "metadata": given, "tool_name": "Tool"}
    await agent.post("/v1/sessions/s1/asks", {**body, "request_id": "r2"})
    page = await anybody.get(await link_for(ledger, "r2"))
    assert page.status_code == 200
    assert 'value="reject"' in page.text


@pytest.mark.parametrize(
    ("pattern", "marked"),
    [
        ("curl p\u0430ypal.example", ["\u0430"]),
        ("echo привет", []),
        ("echo \\u202e", []),
        ("ls\u200b\u3164", ["\\u200b", "\\u3164"]),
    ],
)
async def test_letters_that_only_look_like_others_are_marked(
    anybody: Caller, agent: Caller, ledger: Ledger, pattern: str, marked: list[str]
) -> None:
    await agent.ask("s1", pattern, request_id="r2")
    page = (await anybody.get(await link_for(ledger, "r2"))).text
    assert re.findall(r"<mark[^>]*>(.*?)</mark>", page) == marked
    assert ("Look closely." in page) == bool(marked)


async def test_a_question_with_choices_leads_to_the_inbox_and_can_be_refused(
    anybody: Caller, agent: Caller, ledger: Ledger
) -> None:
    asked = [{"question": "Which?", "options": [{"label": "EUR", "description": "as now"}]}]
    body = {"permission": "ask", "patterns": ["ask"], "input": {"questions": asked}, "tool_name": "AskUserQuestion"}
    await agent.post("/v1/sessions/s1/asks", {**body, "request_id": "r2"})
    page = (await anybody.get(await link_for(ledger, "r2"))).text
    for text in ("EUR", "as now"):
        assert f"</b> {text}</p>" in page
    assert re.findall(r'name="reply" value="(\w+)"', page) == ["reject"]
    assert '<a href="/">Choose in the inbox</a>' in page


async def test_an_answer_counts_as_the_person_of_the_link(anybody: Caller, ledger: Ledger) -> None:
    path = await link_for(ledger)
    answer = await sent(anybody, path, reply="once")
    assert (answer.status_code, headline(answer)) == (200, "Allowed by you (once)")
    events = [one async for one in (await ledger.session("s1")).events(follow_on=False)]
    last = events[-1].as_json()
    token = (await ledger.tokens.person("ann")).token_for("s1", "shop")
    assert token is not None
    actor = {"kind": "person", "name": "ann", "via": "link", "token_id": token.token_id}
    assert (last["type"], last["actor"]) == ("replied", actor)


async def test_a_rejection_carries_what_the_person_wrote(anybody: Caller, agent: Caller, ledger: Ledger) -> None:
    answer = await sent(anybody, await link_for(ledger), reply="reject", message=" use a branch ")
    assert headline(answer) == "Rejected with instructions by you"
    row = (await agent.get("/v1/sessions/s1/asks/r1")).json()
    assert (row["outcome"], row["by"]) == ("corrected", "ann")
    assert row["message"].endswith("use a branch")


async def test_whoever_is_second_is_told_who_was_first(anybody: Caller, ann: Caller, ledger: Ledger) -> None:
    path = await link_for(ledger, name="bob")
    await ann.post("/v1/sessions/s1/asks/r1/reply", {"reply": "once"})
    again = await sent(anybody, path, reply="reject")
    assert (again.status_code, headline(again)) == (409, "Allowed by ann (once)")
    same = await sent(anybody, path, reply="once")
    assert (same.status_code, headline(same)) == (200, "Allowed by ann (once)")
    assert headline(await anybody.get(path)) == "Allowed by ann (once)"


async def test_an_expired_request_and_an_expired_link_say_so(anybody: Caller, ledger: Ledger, clock: TestClock) -> None:
    path, brief = await link_for(ledger, seconds=30 * 86_400), await link_for(ledger)
    clock.advance("2h")
    old = await sent(anybody, brief, reply="once")
    assert (old.status_code, "This link has expired" in old.text) == (410, True)
    clock.advance("7d")
    late = await sent(anybody, path, reply="once")
    assert (late.status_code, headline(late)) == (410, "Expired: nobody answered in time")


async def test_a_link_is_good_for_the_request_as_it_was_shown_only(anybody: Caller, ledger: Ledger) -> None:
    links = AnswerLinks(await link_key(ledger.store))
    other = links.sign(AnswerLink("s1", "r1", "0" * 64, "ann", ledger.store.clock.now_ms() + 1000))
    answer = await sent(anybody, f"/answer/{other}", reply="once")
    assert answer.status_code == 409
    assert [one.request.request_id for one in await ledger.pending()] == ["r1"]


@pytest.mark.parametrize(
    ("form", "headers", "status"),
    [
        ({"reply": "perhaps"}, {}, 422),
        ({}, {}, 422),
        ({"reply": "once", "as": "root"}, {}, 422),
        ({"reply": "once"}, {"Origin": "https://evil.example"}, 403),
        ({"reply": "once"}, {"Origin": "null"}, 403),
        ({"reply": "once"}, {"Sec-Fetch-Site": "cross-site"}, 403),
        ({"reply": "reject", "message": "x" * 20_000}, {}, 422),
    ],
)
async def test_a_wrong_form_changes_nothing(
    anybody: Caller, ledger: Ledger, form: dict[str, str], headers: dict[str, str], status: int
) -> None:
    answer = await sent(anybody, await link_for(ledger), headers, **form)
    assert answer.status_code == status
    assert [one.request.request_id for one in await ledger.pending()] == ["r1"]


async def test_no_link_tells_nothing(anybody: Caller) -> None:
    answer = await anybody.get("/answer/nonsense")
    assert (answer.status_code, headline(answer)) == (404, "This cannot be answered here")

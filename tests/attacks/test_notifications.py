"""Attacks on notifications: an agent writes nearly all their text, and tries to add a line, a link or formatting."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any, Final

import msgspec
import pytest

from ledger import Ledger
from ledger.stores.secrets import link_key
from tests.support.waiting import wait_until_async
from tests.workers.notifier.listening import Listening, listening, notifying, settings_for
from workers.notifier.settings import NotifierSettings
from workers.notifier.text import BODY_CHARS_MAX, neutral
from workers.runtime.answer_links import AnswerLinks

PUBLIC_URL: Final = "https://permits.example.com"
FORGED: Final = f"ls\n\nAnswer:\n{PUBLIC_URL}/answer/forged"
FORMATS: Final = ("text", "markdown", "html")


@pytest.fixture
async def phone() -> AsyncIterator[Listening]:
    async with listening() as one:
        yield one


def patient(url: str) -> NotifierSettings:
    """Settings with long time-outs for a busy machine: a retry would wait for the test's clock."""
    return msgspec.structs.replace(settings_for(("ann", url)), timeout_seconds=60.0)


async def told(
    ledger: Ledger,
    phone: Listening,
    form: str = "text",
    *,
    permission: str = "bash",
    patterns: tuple[str, ...] = ("x",),
    **more: Any,
) -> dict[str, Any]:
    """Return the message that a real service gets for one request."""
    session = await ledger.session("ses_1", project="shop", cwd=more.pop("folder", None), agent=more.pop("agent", None))
    async with notifying(ledger, patient(f"{phone.url}?format={form}")):
        await session.submit(permission, patterns, request_id="r1", **more)
        await wait_until_async(lambda: len(phone.messages) == 1, "the message")
    return phone.messages[0]


def lines_of(message: dict[str, Any], form: str) -> list[str]:
    """Return the lines as a person sees them."""
    body: str = message["message"]
    if form == "html":
        body = unescape(re.sub(r"<[^>]*>", "", body))
    if form == "markdown":
        body = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", body).replace(">\n", "\n")
    return [line for line in body.splitlines() if line]


@pytest.mark.parametrize("form", FORMATS)
async def test_a_false_link_above_the_real_one(ledger: Ledger, phone: Listening, form: str) -> None:
    message = await told(ledger, phone, form, patterns=(FORGED,))
    shown = lines_of(message, form)
    last = shown[-1].strip("<>")
    assert last.startswith(f"{PUBLIC_URL}/answer/")
    assert shown[-2] == "Answer:"
    assert message["message"].count(f"{PUBLIC_URL}/answer/") == (2 if form == "html" else 1)
    assert [one for one in shown[:-1] if "://" in one] == []
    [quoted] = [one for one in shown if "forged" in one]
    assert quoted.startswith("> ")
    key = await link_key(ledger.store)
    link = AnswerLinks(key).read(last.rpartition("/")[2], ledger.store.clock.now_ms())
    assert (link.session, link.request_id, link.name) == ("ses_1", "r1", "ann")


@pytest.mark.parametrize("form", FORMATS)
async def test_a_line_of_ones_own_by_any_member(ledger: Ledger, phone: Listening, form: str) -> None:
    said = "x\nAnswer:\r\u2028evil\x85line\x1b[2J\u202eoops"
    message = await told(
        ledger,
        phone,
        form,
        permission="edit",
        patterns=(said,),
        tool_name="Tool " + said.splitlines()[0],
        tool_input={"file_path": said, "new_string": said, said: said},
        metadata={said: said},
        folder="/srv/" + said,
        agent="evil https://evil.example",
    )
    shown = lines_of(message, form)
    assert [one for one in shown if "evil" in one and not one.startswith("> ")] == []
    assert [one for one in shown if one == "Answer:"] == ["Answer:"]
    assert re.findall("[\r\u2028\x85\x1b\u202e]", message["title"] + message["message"]) == []


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/a",
        "http://127.0.0.1:8420/a",
        "evil.sh/answer",
        "evil\u3002example",
        "www.evil.co.uk",
        "mailto:ann@evil.example",
        "[Answer](https://evil.example)",
        "<https://evil.example|Answer>",
        "evil.com.json",
        "tg://resolve?domain=evil",
    ],
)
async def test_an_address_that_a_client_makes_a_link_of(address: str) -> None:
    shown = neutral(f"curl {address} now", 1000)
    assert re.search(r"\w://|\w\.\w|\w@\w|mailto:|\u3002", shown) is None
    assert "evil" in shown or "127[.]0[.]0[.]1" in shown


@pytest.mark.parametrize(
    "harmless", ["git push origin main", "cat package.json > out.txt", "v1.2.3", "a . b", "..", "x: y"]
)
def test_what_is_no_address_is_shown_as_it_is(harmless: str) -> None:
    assert neutral(harmless, 1000) == harmless


@pytest.mark.parametrize("form", ["markdown", "html"])
@pytest.mark.parametrize(
    "markup",
    [
        "[Answer](https://evil.example/a)",
        "<a href='https://evil.example'>Answer</a>",
        "<img src=x onerror=y>",
        "# Allowed",
        "```\nx\n```",
    ],
)
async def test_markup_of_the_service(ledger: Ledger, phone: Listening, form: str, markup: str) -> None:
    message = await told(ledger, phone, form, patterns=(markup,))
    body: str = message["message"]
    if form == "html":
        assert set(re.findall(r"<(\w+)", body)) <= {"br", "code", "a"}
        assert re.findall(r'<a href="([^"]*)"', body) == [lines_of(message, form)[-1]]
    else:
        assert re.findall(r"(?<!\\)[\[\]#`*_]", body.rpartition("<https")[0]) == []
        assert re.findall(r"(?<!\\)<", body) == ["<"]


async def test_hiding_the_input_behind_a_harmless_pattern(ledger: Ledger, phone: Listening) -> None:
    given = {"command": "ls", "cmd": "rm -rf /srv", "stdin": "y"}
    message = await told(ledger, phone, patterns=("ls",), tool_name="bash", tool_input=given)
    for part in ("> command: ls", "rm -rf /srv", "stdin: y"):
        assert part in message["message"]


async def test_letters_that_look_like_others(ledger: Ledger, phone: Listening) -> None:
    message = await told(ledger, phone, patterns=("curl p\u0430ypal",))
    assert r"> command: curl p\u0430ypal" in message["message"]
    assert (
        "Look closely, characters are invisible or look like others: U+0430 CYRILLIC SMALL LETTER A"
        in message["message"]
    )


async def test_pushing_the_end_of_a_command_out_of_sight(ledger: Ledger, phone: Listening) -> None:
    message = await told(ledger, phone, patterns=("true " * 5000 + "&& rm -rf /srv",))
    [line] = [one for one in message["message"].splitlines() if one.startswith("> command")]
    assert line.endswith("&& rm -rf /srv")
    assert re.search(r"… \d+ more characters …", line)


async def test_pushing_the_link_out_of_the_message(ledger: Ledger, phone: Listening) -> None:
    given = {f"member_{number}": "y\u202e" * 400 for number in range(100)}
    message = await told(ledger, phone, tool_name="Tool", tool_input=given)
    assert len(message["message"]) <= BODY_CHARS_MAX
    assert message["message"].splitlines()[-1].startswith(PUBLIC_URL)
    assert re.search(r"… \d+ more parts, \d+ more characters: look at all of it", message["message"])


async def test_a_name_that_passes_for_the_token(ledger: Ledger, phone: Listening) -> None:
    message = await told(ledger, phone, actor="laptop", agent="the administrator")
    shown = message["message"].splitlines()
    assert "> calls itself: the administrator" in shown
    assert [one for one in shown if one.startswith("Asked by")] == ["Asked by the token `laptop` 0s ago, 7d left"]


async def test_a_title_with_words_of_ones_own(ledger: Ledger, phone: Listening) -> None:
    message = await told(ledger, phone, permission="Answered: nothing to do", patterns=("x",))
    assert message["title"] == "A request waits for your answer"


async def test_a_link_of_one_request_beside_another_of_many(ledger: Ledger, phone: Listening) -> None:
    """With several requests the links are at the end, each under its number, without an agent's text between them."""
    session = await ledger.session("ses_1")
    for name in ("r1", "r2"):
        await session.submit("bash", [FORGED], request_id=name)
    async with notifying(ledger, patient(phone.url)):
        await wait_until_async(lambda: len(phone.messages) == 1, "the message")
    shown = phone.messages[0]["message"].splitlines()
    heads = [one for one in shown if one.startswith("Answer request")]
    assert heads == ["Answer request 1:", "Answer request 2:"]
    assert [one.startswith(PUBLIC_URL) for one in shown[shown.index(heads[0]) :]] == [False, True, False, True]


async def test_a_link_for_a_person_whose_access_has_ended(ledger: Ledger, phone: Listening) -> None:
    token = await ledger.tokens.create("ann", "approver")
    await ledger.tokens.revoke(token.token.token_id)
    message = await told(ledger, phone)
    assert "/answer/" not in message["message"]
    assert message["message"].splitlines()[-1].startswith("Asked by the token")


async def test_a_person_without_a_token_is_named_to_whoever_runs_the_notifier(
    ledger: Ledger, phone: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    assert "/answer/" in (await told(ledger, phone))["message"]
    said = "notifier: `ann` never had a token, so gateways with tokens refuse the links"
    assert [one.getMessage().startswith(said) for one in caplog.records if "never had" in one.getMessage()] == [True]

"""Cards of calls that run files or hold secrets, and of a request that came back, in a real browser."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from playwright.async_api import expect

from ledger import ReopenedError, Session
from ledger.client.claims import operands_here
from ledger.core.policy import Call
from tests.gateway.inbox.visitors import Inbox, Visitor
from workers.presentation.answer_page import question_page

TOKEN = "ghp_" + "Ab3dE6gH9j" * 3 + "kLmNoP"
CHANGED = "deploy.sh changed after it was approved"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    script = tmp_path.resolve() / "deploy.sh"
    script.write_text("echo one\n")
    return script


def swap(script: Path) -> None:
    script.write_text("rm -rf /srv\n")


def digest_of(script: Path) -> str:
    return hashlib.sha256(script.read_bytes()).hexdigest()[:8]


async def asked_to_run(session: Session, script: Path) -> None:
    """Ask as a program on this machine does: the files that the call executes are hashed."""
    tool_input, folder = {"command": "./deploy.sh prod"}, str(script.parent)
    operands = await operands_here(Call("bash", (), "bash", tool_input, folder), None)
    await session.submit_tool("bash", tool_input, request_id="r1", cwd=folder, operands=operands)


async def shown_again(inbox: Inbox, ann: Visitor, script: Path) -> Session:
    """Have a call approved, change its script, and claim it: the request is back in round 2."""
    session = await inbox.session(cwd=str(script.parent))
    await asked_to_run(session, script)
    await ann.press("./deploy.sh prod", "Allow once")
    await expect(ann.card("./deploy.sh prod")).to_contain_text("Allowed")
    swap(script)
    with pytest.raises(ReopenedError, match=CHANGED):
        await session.claim("r1", runner="worker")
    return session


async def test_a_card_names_the_files_that_the_call_executes_with_their_hashes(inbox: Inbox, script: Path) -> None:
    session = await inbox.session(cwd=str(script.parent))
    await asked_to_run(session, script)
    card = (await inbox.visit("ann")).card("./deploy.sh prod")
    operands = card.locator(".members")
    await expect(operands).to_contain_text("deploy.sh")
    await expect(operands).to_contain_text(f"SHA-256 {digest_of(script)}")


async def test_a_card_shows_a_mask_in_place_of_a_secret_and_the_page_never_has_it(inbox: Inbox) -> None:
    session = await inbox.session()
    command = f"curl -H 'Authorization: token {TOKEN}' https://api.example.com"
    await session.submit_tool("bash", {"command": command}, request_id="r1")
    ann = await inbox.visit("ann")
    card = ann.card("curl -H")
    await expect(card.locator(".command")).to_contain_text("{secret:github:")
    assert TOKEN not in await ann.page.content()
    await ann.press("curl -H", "Allow once")
    await expect(card).to_contain_text("Allowed")
    assert TOKEN not in await ann.page.content()


async def test_a_changed_script_brings_the_card_back_with_its_reason_and_the_new_hash(
    inbox: Inbox, script: Path
) -> None:
    ann = await inbox.visit("ann")
    session = await shown_again(inbox, ann, script)
    card = ann.card(CHANGED)
    await expect(card).to_contain_text("./deploy.sh prod")
    await expect(card.locator(".members")).to_contain_text(digest_of(script))
    (row,) = await session.pending()
    page = question_page(await session.state(), row.request, "ann", row.request.asked_ms, ("once", "reject"))
    assert f"<dt>pending again</dt><dd>{CHANGED}</dd>" in page, "as the page of an answer link says it"
    await expect(ann.row("./deploy.sh prod")).not_to_contain_text("Allowed")
    await ann.press(CHANGED, "Allow once")
    await expect(ann.card(CHANGED)).to_contain_text("Allowed")
    assert (await session.claim("r1", runner="worker")).round == 2


async def test_an_answer_to_a_card_of_the_earlier_round_does_not_count(inbox: Inbox, script: Path) -> None:
    """Bob's page shows the first card still: the digest that it sends is that of the first round."""
    session = await inbox.session(cwd=str(script.parent))
    bob = await inbox.visit("bob")
    ann = await inbox.visit("ann")
    await asked_to_run(session, script)
    await expect(bob.card("./deploy.sh prod")).to_be_visible()
    (row,) = await session.pending()
    await ann.press("./deploy.sh prod", "Allow once")
    await expect(ann.card("./deploy.sh prod")).to_contain_text("Allowed")
    swap(script)
    with pytest.raises(ReopenedError):
        await session.claim("r1", runner="worker")
    answer = await bob.page.evaluate(
        """async (digest) => {
          const { call } = await import("/inbox/js/api.js");
          const body = { reply: "once", digest };
          try { return await call("POST", "/v1/sessions/ses_1/asks/r1/reply", { body }); }
          catch (error) { return error.code ?? String(error); }
        }""",
        row.request.digest,
    )
    assert answer == "DIGEST_MISMATCH"

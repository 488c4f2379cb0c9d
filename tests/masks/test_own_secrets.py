"""The secrets that the ledger itself makes, one of each by the function that makes it: none reaches the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger import Ledger
from ledger.masks.finder import find
from ledger.masks.masking import may_need_masks
from ledger.stores.port import StreamKey
from workers.gateway.signing_in import sign_in_link
from workers.runtime.answer_links import AnswerLink, AnswerLinks
from workers.runtime.server_user import write_server_user

LINK = AnswerLink("ses_1", "per_1", "d" * 64, "ann", 1)


async def own_secrets(ledger: Ledger, folder: Path) -> dict[str, tuple[str, str]]:
    """Return each secret with the text in which it is handed out."""
    tokens = ledger.tokens
    bearer, browser = await tokens.create("ann", "approver"), await tokens.create("ann", "approver", use="browser")
    again = await tokens.create("ci", "agent", token_id="tok_" + "0f" * 13, secret="s" * 43)
    link = await sign_in_link(tokens, "https://ledger.example", "ann")
    short = AnswerLinks(b"k" * 32).sign(LINK)
    long = AnswerLinks(b"k" * 32).sign(msgspec.structs.replace(LINK, session="ses_" + "a" * 200))
    write_server_user("redis://server:6379/0", folder / "url", folder / "acl")
    url = (folder / "url").read_text().strip()
    assert browser.proof is not None
    return {
        "token": (bearer.text, bearer.text),
        "token of an idempotent call": (again.text, f'{{"token": "{again.text}"}}'),
        "cookie": (browser.text, f"curl -b permission_ledger={browser.text} http://127.0.0.1:8420/v1/me"),
        "proof": (browser.proof, browser.proof),
        "sign-in link": (link.partition("code=")[2], link),
        "answer link": (short, f"https://ledger.example/answer/{short}"),
        "compressed answer link": (long, f"https://ledger.example/answer/{long}"),
        "password of the server": (url.partition("://")[2].partition(":")[2].partition("@")[0], url),
    }


@pytest.fixture
async def made(tmp_path: Path) -> Any:
    async with Ledger.connect("memory://") as ledger:
        yield ledger, await own_secrets(ledger, tmp_path)


async def test_every_secret_that_the_ledger_makes_has_a_shape(made: Any) -> None:
    for name, (secret, text) in made[1].items():
        assert may_need_masks({"command": text}), name
        covered = {place for start, end, _ in find(text) for place in range(start, end)}
        start = text.index(secret)
        assert covered.issuperset(range(start, start + len(secret))), name


async def test_no_secret_that_the_ledger_makes_is_stored_with_a_call(made: Any) -> None:
    ledger, secrets = made
    session = await ledger.session("ses_1", rules=[{"permission": "*", "pattern": "*", "action": "ask"}])
    for number, (_, text) in enumerate(secrets.values()):
        await session.submit(
            "bash", [f"echo {text}"], request_id=f"r{number}", tool_name="bash", tool_input={"command": f"echo {text}"}
        )
    entries = (await ledger.store.open(StreamKey("session", "ses_1"))).entries
    stored = b"".join(entry.payload + (entry.content or b"") for entry in entries).decode()
    assert not [name for name, (secret, _) in secrets.items() if secret in stored]

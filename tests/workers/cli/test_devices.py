"""`device`, as typed in a shell."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode

from ledger import Ledger
from ledger.core.events import Actor
from tests.support.command_line import CommandLine


async def subscribe(url: str, person: str, name: str) -> str:
    """Subscribe a device as its person's browser does; return its token's id."""
    async with Ledger.connect(url) as ledger:
        made = await ledger.tokens.create(person, "approver", use="browser")
        keys = {"p256dh": "B" * 87, "auth": urlsafe_b64encode(bytes(16)).rstrip(b"=").decode()}
        actor = Actor("person", person, "inbox", made.token.token_id)
        endpoint = f"https://fcm.googleapis.com/{person}/{name}"
        await ledger.notifications.subscribe(
            person, name, endpoint=endpoint, token_id=made.token.token_id, actor=actor, **keys
        )
        return made.token.token_id


def test_devices_are_listed_without_their_addresses_and_removed(ledger: CommandLine) -> None:
    assert ledger("device", "list", code=0).err == "no device gets push messages\n"
    for person in ("ann", "bob"):
        token = asyncio.run(subscribe(ledger.url, person, "phone"))
    (row,) = ledger("device", "list", "--person", "bob", "--json", code=0).rows
    assert (row["person"], row["name"], row["used_at"], row["in_force"]) == ("bob", "phone", None, True)
    assert "fcm" not in ledger("device", "list", "--json", code=0).out
    ledger("token", "revoke", token, code=0)
    assert "signed out" in ledger("device", "list", "--person", "bob", code=0).out
    removed = ledger("device", "remove", row["device_id"], "--reason", "lost", code=0)
    assert removed.out == "removed the device `phone` of bob\n"
    assert [one["person"] for one in ledger("device", "list", "--json", code=0).rows] == ["ann"]


def test_an_unknown_device_is_exit_code_9(ledger: CommandLine) -> None:
    assert "there is no device `dev_none` with push messages" in ledger("device", "remove", "dev_none", code=9).err


def test_a_contact_or_a_push_service_that_is_none_ends_serve_at_once(ledger: CommandLine) -> None:
    for words, why in (
        (("--push-contact", "ops"), "the contact `ops` is not an e-mail address"),
        (("--push-contact", "ops@example.com", "--push-service", "https://x"), "is not a host; write it like"),
        (("--push-service", "push.example.com"), "--push-service needs --push-contact"),
    ):
        assert why in ledger("serve", "--listen", "127.0.0.1:0", *words, code=12).err

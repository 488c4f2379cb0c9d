"""Descriptions that a gateway keeps while it follows a stream: those of pending requests only."""

from __future__ import annotations

import pytest

from ledger import Ledger
from ledger.log.tail import read_pages
from ledger.stores.port import StreamKey
from workers.gateway.descriptions import Descriptions
from workers.gateway.events.follower import Follower

KEY = StreamKey("session", "ses_1")


@pytest.mark.parametrize("end", ["answered", "cancelled"])
async def test_descriptions_are_kept_of_requests_that_wait_only(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    kept = Descriptions()
    monkeypatch.setattr("workers.gateway.descriptions._of_this_process", lambda: kept)
    session = await ledger.session(KEY.id)
    for request_id in ("per_1", "per_2"):
        await session.submit("bash", [f"git push {request_id}"], request_id=request_id)
    if end == "answered":
        await session.reply("per_1", "once", actor="ann")
    else:
        await session.cancel("per_1", actor="ann")
    follower, sizes = Follower(KEY), [0]
    async for page in read_pages(ledger.store, KEY):
        for entry in page:
            follower.take(entry)
            sizes.append(kept.size)
    asked_one, asked_two, settled_one = sizes[-3:]
    assert 0 < asked_one < asked_two
    assert settled_one == asked_two - asked_one

"""The gateway reads sealed sessions as others, and brings one back for what is new in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ledger import Ledger
from ledger.core.times import DAY_MS
from ledger.log.archive.archive import archive_of
from ledger.log.archive.sealing import Sealing, SealRule
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.gateway.callers import Caller
from tests.support.store_calls import seals
from workers.upkeep.archiving import bringing_up, old_or_closed

PATHS: Final = ("", "/timeline", "/outline", "/asks/a", "?at=2")
"""Below the session; besides them the page of its request is read."""
S1: Final = StreamKey("session", "s1")


async def test_every_page_of_a_sealed_session_is_as_before_and_an_ask_brings_it_back(
    ledger: Ledger, admin_caller: Caller, ann: Caller, clock: TestClock, tmp_path: Path
) -> None:
    await admin_caller.put("/v1/sessions/s1", {"rules": [{"permission": "bash", "pattern": "*", "action": "ask"}]})
    await admin_caller.ask("s1", request_id="a")
    await ann.post("/v1/sessions/s1/asks/a/reply", {"reply": "once"})
    clock.advance(31 * DAY_MS)
    sealing = Sealing(ledger.store, ledger.streams, archive_of(ledger.store), SealRule(), bringing_up(ledger))
    await archive_of(ledger.store).set_url(str(tmp_path))
    before = [await _read(ann, path) for path in PATHS]
    (result,) = [one async for one in sealing.seal(old_or_closed(ledger, SealRule()))]
    assert result.kept is None
    assert [await _read(ann, path) for path in PATHS] == before
    assert {status for status, _ in before} == {200}
    assert (await seals(ledger.store, [S1]))[0] is not None
    await admin_caller.ask("s1", "make", request_id="b")
    assert await seals(ledger.store, [S1]) == [None]
    assert [one.request.request_id for one in await ledger.pending("s1")] == ["b"]


async def _read(caller: Caller, path: str) -> tuple[int, str]:
    answer = await caller.get(f"/v1/sessions/s1{path}")
    one = await caller.get("/v1/requests/a")
    assert [row["session"] for row in one.json()["requests"]] == ["s1"]
    return answer.status_code, answer.text + one.text

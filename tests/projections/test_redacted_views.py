"""After a redaction no view holds the content, whoever projects it and however far the views had come."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Any

import pytest

from ledger import Ledger
from ledger.log.redactions import Pattern, StreamPlan
from ledger.stores.port import StreamKey
from projections.engine import Engine
from tests.projections.looking import RULES, data_of, differences, project_all, rebuild_all
from tests.support.backends import view_names
from tests.support.store_calls import view

SES_1 = StreamKey("session", "ses_1")
SECRET = "correct-horse-battery"


async def filled(ledger: Ledger) -> StreamPlan:
    """Fill a session whose requests, answers and grants repeat a secret; return the redaction of all of it."""
    session = await ledger.session("ses_1", rules=RULES, project="shop", cwd="/w", home="/h")
    await session.submit("bash", [f"curl -u ann:{SECRET} x"], always=[f"curl -u ann:{SECRET} *"], request_id="per_1")
    await session.submit("bash", [f"curl -u ann:{SECRET} y"], always=[f"curl *{SECRET} y"], request_id="per_2")
    await session.submit("bash", [f"echo {SECRET}"], request_id="per_3")
    await session.submit("bash", ["git push"], request_id="per_4")
    await session.reply("per_1", "always", actor="ann")
    await session.reply("per_2", "session", actor="ann")
    for number in range(30):
        await session.submit("read", [f"file {number} {SECRET if number % 7 == 0 else ''}"])
    return await session_plan(ledger)


async def session_plan(ledger: Ledger) -> StreamPlan:
    return next(plan for plan in await plans(ledger) if plan.key == SES_1)


async def plans(ledger: Ledger) -> list[StreamPlan]:
    return [plan async for plan in ledger.redactions.search(Pattern(SECRET), since_ms=0)]


async def held_anywhere(ledger: Ledger) -> list[str]:
    """Return the views with the secret, snapshots included."""
    found = []
    for partition, name in await view_names(ledger.store):
        for field, value in (await view(ledger.store, name, partition)).items():
            if SECRET in field or SECRET.encode() in _unpacked(value):
                found.append(f"{name} {field}")
    return found


def _unpacked(value: bytes) -> bytes:
    """Return a value, and of a block of packed requests its content."""
    with suppress(zlib.error):
        return zlib.decompress(value)
    return value


@pytest.mark.parametrize("projected", ["before", "after", "by another projector"])
async def test_no_view_and_no_snapshot_holds_what_was_redacted(soon: None, ledger: Ledger, projected: str) -> None:
    await filled(ledger)
    engine = Engine(ledger.store)
    if projected != "after":
        await project_all(ledger, engine)
        assert await held_anywhere(ledger)
    for plan in await plans(ledger):
        await ledger.redactions.redact(plan, reason="a password", actor="ann")
    await project_all(ledger, engine if projected == "before" else Engine(ledger.store))
    assert await held_anywhere(ledger) == []
    assert await differences(ledger.store) == []
    live = await data_of(ledger.store)
    await rebuild_all(ledger.store)
    assert await data_of(ledger.store) == live


async def test_what_was_projected_from_pages_read_before_the_redaction_is_written_anew(
    soon: None, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A projector that read a page, then was slow, still writes its content: the redaction comes after it."""
    plan = await filled(ledger)
    slow = Engine(ledger.store)
    project_all = ledger.store.project
    redacted: list[int] = []

    async def slowly(*args: Any) -> bool:
        if not redacted:
            redacted.extend(await ledger.redactions.redact(plan, reason="a password", actor="ann"))
        return await project_all(*args)

    monkeypatch.setattr(ledger.store, "project", slowly)
    await slow.catch_up(SES_1)
    assert redacted
    assert await held_anywhere(ledger)
    await Engine(ledger.store).catch_up(SES_1)
    assert [one for one in await held_anywhere(ledger) if "shop" not in one] == []


async def test_a_crash_before_the_views_are_whole_again_is_made_up_for(
    soon: None, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await filled(ledger)
    await project_all(ledger)
    await ledger.redactions.redact(plan, reason="a password", actor="ann")
    project, left = ledger.store.project, [3]

    async def dies(*args: Any) -> bool:
        left[0] -= 1
        if left[0] == 0:
            raise ConnectionError
        return await project(*args)

    with monkeypatch.context() as patch:
        patch.setattr(ledger.store, "project", dies)
        with pytest.raises(ConnectionError):
            await Engine(ledger.store).catch_up(SES_1)
    await Engine(ledger.store).catch_up(SES_1)
    assert [one for one in await held_anywhere(ledger) if "shop" not in one] == []


async def test_counts_of_a_redacted_session_stay(soon: None, ledger: Ledger) -> None:
    plan = await filled(ledger)
    await project_all(ledger)
    partition = SES_1.partition(ledger.store.partition_count)
    before = {name: await view(ledger.store, name, partition) for name in ("counts", "outcomes")}
    await ledger.redactions.redact(plan, reason="a password", actor="ann")
    await project_all(ledger)
    after = {name: await view(ledger.store, name, partition) for name in before}
    redactions = int(after["counts"]["events"]) - int(before["counts"]["events"])
    assert after == {**before, "counts": {**before["counts"], "events": after["counts"]["events"]}}
    assert redactions == 1, "the event that took the content out"

"""Durations of requests and delays of deadlines, added up over all sessions."""

from __future__ import annotations

from ledger import Ledger
from ledger.testing import TestClock
from projections import queries
from projections.counts import DURATION_BUCKETS_MS, LATENESS_BUCKETS_MS, bucket_of
from tests.projections.looking import RULES, differences, project_all


def filled(histogram: queries.Histogram) -> tuple[dict[float | None, int], float]:
    """The buckets that are not empty, and the sum."""
    return {bound: count for bound, count in histogram.buckets if count}, histogram.sum_seconds


def test_a_bound_belongs_to_its_own_bucket() -> None:
    assert [bucket_of(ms, DURATION_BUCKETS_MS) for ms in (-5, 0, 10, 11, 604_800_000, 604_800_001)] == [
        *("10", "10", "10", "100"),
        *("604800000", "inf"),
    ]
    assert sorted(DURATION_BUCKETS_MS) == list(DURATION_BUCKETS_MS)
    assert sorted(LATENESS_BUCKETS_MS) == list(LATENESS_BUCKETS_MS)


async def test_each_request_counts_once_under_its_decision(ledger: Ledger, clock: TestClock) -> None:
    one, two = await ledger.session("ses_1", rules=RULES), await ledger.session("ses_2", cascade_reject="none")
    await one.submit("read", ["a.py"], request_id="r1")
    for session in (one, two):
        await session.submit("bash", ["git push"], request_id="r2")
    clock.advance("20s")
    await one.reply("r2", "once", actor="ann")
    await one.reply("r2", "once", actor="ann")
    clock.advance("20s")
    await two.reply("r2", "reject", actor="ann")
    await project_all(ledger)
    found = {name: filled(one) for name, one in (await queries.totals(ledger.store)).histograms.items()}
    assert found == {
        "auto_allow": ({0.01: 1}, 0.0),
        "auto_deny": ({}, 0.0),
        "user_allow": ({30.0: 1}, 20.0),
        "user_deny": ({60.0: 1}, 40.0),
        "timeout": ({}, 0.0),
        "cancelled": ({}, 0.0),
        "lateness": ({}, 0.0),
    }
    assert await differences(ledger.store) == []


async def test_lateness_is_counted_from_the_deadline(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["git push"], request_id="r1")
    clock.advance("7d")
    clock.advance("2s")
    await session.close()
    await project_all(ledger)
    histograms = (await queries.totals(ledger.store)).histograms
    assert filled(histograms["lateness"]) == ({2.5: 1}, 2.0)
    assert filled(histograms["timeout"]) == ({None: 1}, 604_802.0)


async def test_the_devices_of_people_count_as_one_service(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["git push"], request_id="r1")
    for device in ("webpush-dev_1", "webpush-dev_2"):
        await session.note_notification("r1", device, "sent", person="ann", step=0, message_id=f"msg_{device}")
    await project_all(ledger)
    assert (await queries.totals(ledger.store)).notifications == {("webpush", "sent"): 2}


async def test_notifications_count_by_service_and_result(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["git push"], request_id="r1")
    for person in ("ann", "bob"):
        await session.note_notification("r1", "ntfy", "sent", person=person, step=0, message_id=f"msg_{person}")
    await session.note_notification("r1", "slack", "failed", target="bob")
    await project_all(ledger)
    assert (await queries.totals(ledger.store)).notifications == {("ntfy", "sent"): 2, ("slack", "failed"): 1}
    assert (await queries.totals(ledger.store)).pending == 1


async def test_a_message_counts_once_however_many_requests_it_tells_of(ledger: Ledger, clock: TestClock) -> None:
    for name in ("ses_1", "ses_2"):
        session = await ledger.session(name)
        for request_id in ("r1", "r2"):
            await session.submit("bash", ["git push"], request_id=request_id)
            await session.note_notification(request_id, "ntfy", "sent", person="ann", step=0, message_id="msg_1")
    first_ms = clock.now_ms()
    clock.advance("1d")
    await session.note_notification("r1", "ntfy", "sent", person="ann", step=1, message_id="msg_2")
    await session.note_notification("r1", "ntfy", "failed", person="ann", step=1, message_id="msg_3")
    await project_all(ledger)
    now_ms = clock.now_ms()
    first, second = queries.SentMessage("ntfy", first_ms), queries.SentMessage("ntfy", now_ms)
    assert await queries.messages_to(ledger.store, "ann", ["ntfy", "slack"], now_ms) == {
        "msg_1": first,
        "msg_2": second,
    }
    assert await queries.messages_to(ledger.store, "ann", ["slack"], now_ms) == {}
    clock.advance("1d")
    assert await queries.messages_to(ledger.store, "ann", ["ntfy"], clock.now_ms()) == {"msg_2": second}
    assert await differences(ledger.store) == []

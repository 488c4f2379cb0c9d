"""The metrics that Prometheus reads."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ledger import Ledger, Timeouts
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served, in_process
from tests.projections.looking import differences, project_all
from tests.support.backends import as_redis
from tests.support.servers import RealServer
from workers.gateway.metrics import PEOPLE_COUNT, PersonLabels, labelled


async def scraped(caller: Caller) -> dict[tuple[str, str], float]:
    answer = await caller.get("/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.fixture
async def other_gateway(server: RealServer, clock: TestClock) -> AsyncIterator[Served]:
    """A second one on the same ledger, with a connection of its own."""
    async with Ledger.connect(server.url, clock=clock) as beside, in_process(beside) as one:
        yield one


async def test_each_ask_counts_once_whichever_gateway_is_scraped(
    gateway: Served, other_gateway: Served, agent: Caller, ann: Caller, ledger: Ledger
) -> None:
    auditor = await gateway.caller("auditor", "prometheus")
    await agent.put("/v1/sessions/s1", {"project": "shop"})
    for request_id in ("r1", "r2"):
        await agent.ask("s1", request_id, request_id=request_id)
    for _ in range(2):
        await ann.post("/v1/sessions/s1/asks/r1/reply", {"reply": "once"})
    behind = await scraped(auditor)
    assert behind["permission_ledger_decisions_total", "decision=user_allow"] == 1, "counted without a projector, too"
    assert behind["permission_ledger_projector_lag_events", ""] > 0, "and it is told that none keeps up"

    await project_all(ledger)
    found = await scraped(auditor)
    wanted = {
        ("permission_ledger_decisions_total", "decision=user_allow"): 1,
        ("permission_ledger_request_duration_seconds_count", "decision=user_allow"): 1,
        ("permission_ledger_request_duration_seconds_bucket", "decision=user_allow,le=+Inf"): 1,
        ("permission_ledger_deadline_lateness_seconds_count", ""): 0,
        ("permission_ledger_pending", ""): 1,
        ("permission_ledger_stream_clients", ""): 0,
        ("permission_ledger_in_doubt_total", ""): 0,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert ("permission_ledger_append_conflicts_total", "") in found

    there = await scraped(await other_gateway.caller("auditor", "prometheus-2"))
    assert {name: there[name] for name in wanted} == wanted


async def test_only_who_sees_everything_reads_the_metrics(gateway: Served, ann: Caller, agent: Caller) -> None:
    bound = await gateway.caller("auditor", "prometheus", projects=["shop"])
    statuses = [(await caller.get("/metrics")).status_code for caller in (ann, agent, bound, gateway.caller_with(None))]
    assert statuses == [403, 403, 403, 401]


async def test_an_append_that_another_process_was_before_is_counted(
    gateway: Served, agent: Caller, ledger: Ledger, server: RealServer, clock: TestClock
) -> None:
    auditor = await gateway.caller("auditor", "prometheus")
    await agent.put("/v1/sessions/s1")
    async with Ledger.connect(server.url, clock=clock) as other:
        await (await other.session("s1")).submit("bash", ["ls"], request_id="r1")
    before = await scraped(auditor)
    assert (await agent.ask("s1", request_id="r2")).status_code == 202
    after = await scraped(auditor)
    conflicts = ("permission_ledger_append_conflicts_total", "")
    assert after[conflicts] - before[conflicts] == 1


async def test_answers_count_by_person_and_hour_and_only_those_that_a_person_gave(
    gateway: Served, agent: Caller, ann: Caller, ledger: Ledger, clock: TestClock
) -> None:
    auditor = await gateway.caller("auditor", "prometheus")
    bob = await gateway.caller("approver", "bob")
    await agent.put("/v1/sessions/s1", {"project": "shop"})
    for request_id in ("r1", "r2", "r3"):
        await agent.ask("s1", request_id, request_id=request_id)
    hour = clock.now_ms() // 3_600_000 % 24
    await ann.post("/v1/sessions/s1/asks/r1/reply", {"reply": "once"})
    await bob.post("/v1/sessions/s1/asks/r2/reply", {"reply": "reject"})
    await project_all(ledger)
    found = await scraped(auditor)
    name = "permission_ledger_answers_total"
    assert {labels: value for (metric, labels), value in found.items() if metric == name} == {
        "kind=person,outcome=allowed,person=ann": 1,
        "kind=person,outcome=rejected,person=bob": 1,
    }
    hours = {
        labels: value for (metric, labels), value in found.items() if metric == "permission_ledger_answer_hours_total"
    }
    assert len(hours) == 24
    assert hours.pop(f"hour={hour}") == 2
    assert set(hours.values()) == {0}
    assert await differences(ledger.store) == []


async def test_a_clock_that_was_set_back_is_measured(gateway: Served, agent: Caller) -> None:
    auditor = await gateway.caller("auditor", "prometheus")
    await agent.put("/v1/sessions/s1")
    set_back = ("permission_ledger_clock_set_back_seconds", "")
    assert (await scraped(auditor))[set_back] == 0
    store = as_redis(gateway.ledger.store)
    feed = store.keys.feed(StreamKey("session", "s1").partition(store.partition_count))
    # As a feed is in an hour that the clock repeats.
    await store.command("XADD", feed, f"{await store.now_ms() + 3_600_000}-0", "s", "session:s1", "v", 1)
    assert 3500 < (await scraped(auditor))[set_back] <= 3600


async def test_the_age_is_that_of_the_oldest_request_and_not_of_the_nearest_deadline(
    gateway: Served, agent: Caller, ann: Caller, ledger: Ledger, clock: TestClock
) -> None:
    auditor = await gateway.caller("auditor", "prometheus")
    age = ("permission_ledger_oldest_pending_seconds", "")
    assert (await scraped(auditor))[age] == 0
    long, short = Timeouts(unattended=86_400, cap=None), Timeouts(unattended=3600, cap=None)
    await (await ledger.session("late", timeouts=long)).submit("bash", ["ls"], request_id="old")
    clock.advance("90s")
    await (await ledger.session("soon", timeouts=short)).submit("bash", ["ls"], request_id="young")
    await project_all(ledger)
    assert (await scraped(auditor))[age] == 90
    await ledger.reply("old", "once", actor="ann")
    await project_all(ledger)
    assert (await scraped(auditor))[age] == 0


def test_at_most_fifty_people_have_a_label_and_a_label_stays() -> None:
    names = PersonLabels()
    many = {("person", f"p{number:03}", "allowed"): number + 1 for number in range(80)}
    found = labelled(many, names)
    assert len(found) == PEOPLE_COUNT + 1
    assert found["person", "p079", "allowed"] == 80
    assert found["person", "other", "allowed"] == sum(range(1, 31))
    later = labelled({**many, ("person", "new", "allowed"): 10_000}, names)
    assert {key for key in later if key[1] != "other"} == {key for key in found if key[1] != "other"}
    assert later["person", "other", "allowed"] == sum(range(1, 31)) + 10_000


def test_names_can_be_left_out() -> None:
    answers = {("person", "ann", "allowed"): 2, ("person", "bob", "allowed"): 3, ("local", "ann@host", "rejected"): 1}
    assert labelled(answers, None) == {("person", "", "allowed"): 5, ("local", "", "rejected"): 1}

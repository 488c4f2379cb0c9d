"""Alarms ring in order, and a dropped one takes no room."""

from __future__ import annotations

import asyncio
import random

import pytest

from ledger import Ledger
from ledger.log.streams import Alarm, Alarms
from ledger.stores.port import StreamKey
from tests.support.askers import ASK
from tests.support.waiting import wait_until_async

KEY = StreamKey("session", "ses_1")


def rung(alarms: Alarms) -> list[Alarm]:
    found = []
    while (nearest := alarms.nearest()) is not None:
        found.append(nearest)
        alarms.drop(nearest)
    return found


def test_alarms_ring_by_time_and_those_of_one_time_in_the_order_of_their_setting() -> None:
    alarms = Alarms()
    late, early, second = alarms.add(20, KEY), alarms.add(10, KEY), alarms.add(10, KEY)
    assert rung(alarms) == [early, second, late]
    assert (len(alarms), len(alarms._heap)) == (0, 0)


def test_dropped_alarms_never_ring_and_are_swept_out() -> None:
    alarms, chance = Alarms(), random.Random(16)
    kept = []
    for number in range(10_000):
        alarm = alarms.add(chance.randrange(1000), KEY)
        if number % 100:
            alarms.drop(alarm)
            alarms.drop(alarm)
        else:
            kept.append(alarm)
        assert len(alarms) == len(kept)
        assert len(alarms._heap) <= 2 * len(kept) + 130
    assert [one.at_ms for one in rung(alarms)] == sorted(one.at_ms for one in kept)


@pytest.mark.slow
async def test_a_wait_that_ended_leaves_no_alarm_behind_for_a_deadline_far_away() -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await ledger.session("ses_1", rules=ASK)
        alarms = ledger.streams.alarms
        for number in range(300):
            asking = asyncio.create_task(session.ask("bash", ["make"], request_id=f"r{number}"))
            await wait_until_async(lambda: len(alarms) == 1, "the asker to wait")
            await session.reply(f"r{number}", "once")
            await asking
            assert len(alarms) == 0
        assert len(alarms._heap) <= 65

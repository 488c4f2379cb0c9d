"""The cost of each step of a request's way, which has a ceiling.

A count does not depend on the machine or its load. Whoever raises a ceiling says in the same commit what a user gets
for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

from tests.costs.steps import Cost
from tests.support.rows import none_of
from tests.support.servers import RealServer

CEILINGS: Final = {
    "allowed_ask": Cost(171, 137, commands=7, trips=1, sent=1025, received=40),
    "allowed_ask_with_claim": Cost(198, 165, commands=8, trips=1, sent=1365, received=40),
    "pending_ask": Cost(180, 150, commands=8, trips=1, sent=1135, received=40),
    "reply": Cost(179, 116, commands=7, trips=1, sent=570, received=40),
    "whole_trip": Cost(450, 320, commands=14, trips=2, sent=1700, received=420),
    "http_answer": Cost(705, 575, commands=7, trips=1, sent=630, received=420),
    "http_pending": Cost(845, 680, commands=50, trips=4, sent=2660, received=630),
    "expiry": Cost(317, 233, commands=16, trips=3, sent=1700, received=120),
}
"""Calls are those of Python 3.11.7, with room for a few more: on a busy machine a wake-up comes a turn of the loop later.

Commands include those of the script; eight partitions, and one waiting row.
"""

OF_OTHER_PYTHONS: Final = 1.1
"""The room for calls on other versions of Python: their libraries differ, and newer ones count comprehensions otherwise."""


@pytest.mark.process
def test_no_step_costs_more_than_its_ceiling(server: RealServer) -> None:
    program = [sys.executable, "-m", "tests.costs.steps", server.url]
    counted = subprocess.run(program, check=True, capture_output=True, text=True, timeout=120)
    costs = {name: Cost(**members) for name, members in json.loads(counted.stdout).items()}
    assert costs.keys() == CEILINGS.keys()
    assert all(cost.commands for cost in costs.values())
    none_of(
        f"{name}: {member} {getattr(cost, member)}, at most {most:g}"
        for name, cost in costs.items()
        for member, most in ceiling_of(name).items()
        if getattr(cost, member) > most
    )


def ceiling_of(name: str) -> dict[str, float]:
    room = 1 if sys.version_info[:3] == (3, 11, 7) else OF_OTHER_PYTHONS
    ceiling = CEILINGS[name]._asdict()
    return {member: most * room if member in ("python", "c") else most for member, most in ceiling.items()}

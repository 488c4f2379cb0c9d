"""Hundreds of runs, each by a seed: crashes, lost answers, wrong clocks, changed rules; every check holds.

A failed run names its seed: `pytest tests/simulation --simulation-seed 4711` repeats it.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.simulation.simulation import Simulation
from tests.support.processes import next_line, python

SEEDS_COUNT: Final = 200
MORE_SEEDS_COUNT: Final = 400
CHUNK_COUNT: Final = 40

TRACES: Final = """
import logging
from tests.simulation.simulation import Simulation
logging.disable()
for seed in range(12):
    simulation = Simulation(seed, failovers=seed % 2 == 1)
    simulation.run()
    print(simulation.trace)
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    given: int | None = metafunc.config.getoption("--simulation-seed")
    chunks = {
        "seeds": range(0, SEEDS_COUNT, CHUNK_COUNT),
        "more_seeds": range(SEEDS_COUNT, SEEDS_COUNT + MORE_SEEDS_COUNT, CHUNK_COUNT * 2),
    }
    for name, starts in chunks.items():
        if name in metafunc.fixturenames:
            some = [range(one, one + starts.step) for one in starts] if given is None else [range(given, given + 1)]
            metafunc.parametrize(name, some, ids=[f"{one.start}-{one[-1]}" for one in some])


@pytest.mark.parametrize("failovers", [False, True], ids=["", "failovers"])
def test_whatever_goes_wrong_the_promises_hold(seeds: range, *, failovers: bool) -> None:
    for seed in seeds[:: 3 if failovers else 1]:
        Simulation(seed, failovers=failovers).run()


@pytest.mark.slow
@pytest.mark.parametrize("failovers", [False, True], ids=["", "failovers"])
def test_whatever_else_goes_wrong_the_promises_hold(more_seeds: range, *, failovers: bool) -> None:
    for seed in more_seeds[:: 3 if failovers else 1]:
        Simulation(seed, failovers=failovers).run()


def test_a_seed_does_the_same_in_every_process() -> None:
    with (
        python(TRACES, environment={"PYTHONHASHSEED": "1"}) as one,
        python(TRACES, environment={"PYTHONHASHSEED": "2"}) as two,
    ):
        assert [next_line(one) for _ in range(12)] == [next_line(two) for _ in range(12)]


@pytest.mark.smoke
def test_different_seeds_are_different_runs() -> None:
    simulations = [Simulation(seed) for seed in range(5)]
    for simulation in simulations:
        simulation.run()
    assert len({simulation.trace for simulation in simulations}) == 5

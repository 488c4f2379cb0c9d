"""Several processes with caches on one stream, late and repeated wake-ups, lost answers: one history for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from ledger.core.errors import InDoubtError, InputError
from ledger.stores.port import StreamKey, WakeUp
from ledger.stores.store import Store, append_to
from ledger.testing import TestClock
from tests.support.backends import Backend, log_of
from tests.support.servers import RealServer
from tests.support.tally import Claim, Watched, add, tally

Run = Callable[[Coroutine[Any, Any, Any]], Any]
PROCESSES = st.integers(0, 2)
SEATS = st.sampled_from("ab")


class Processes(RuleBasedStateMachine):
    """Processes on one stream; `names` is the model: the acknowledged names, in the order of the log."""

    def __init__(self, run: Run, stores: list[Store], key: StreamKey) -> None:
        super().__init__()
        self.run = run
        self.key = key
        self.stores = [Watched(store) for store in stores]
        self.streams = [tally(store.as_store, key) for store in self.stores]
        self.names: list[str] = []
        self.numbers = count()

    @rule(process=PROCESSES, events=st.integers(1, 3))
    def add_names(self, process: int, events: int) -> None:
        names = [f"{next(self.numbers)}" for _ in range(events)]
        done = self.run(self.streams[process].submit(add(*names)))
        assert [one.version for one in done.events] == list(range(len(self.names) + 1, len(self.names) + 1 + events))
        self.names += names
        assert list(done.state.names) == self.names

    @rule(process=PROCESSES, seat=SEATS)
    def claim_a_seat(self, process: int, seat: str) -> None:
        """Claim a seat: it is decided once, however stale the claimant's cache."""
        taken = [name for name in self.names if name.startswith(f"{seat}=")]
        try:
            done = self.run(self.streams[process].submit(Claim(seat, f"{process}")))
        except InputError:
            assert taken
            assert taken != [f"{seat}={process}"]
        else:
            assert taken in ([], [f"{seat}={process}"])
            assert len(done.events) == (0 if taken else 1)
            self.names += [] if taken else [f"{seat}={process}"]

    @rule(seat=SEATS)
    def all_claim_a_seat_at_once(self, seat: str) -> None:
        async def claim() -> list[Any]:
            claims = [stream.submit(Claim(seat, f"{who}")) for who, stream in enumerate(self.streams)]
            return await asyncio.gather(*claims, return_exceptions=True)

        taken = any(name.startswith(f"{seat}=") for name in self.names)
        outcomes = self.run(claim())
        winners = [f"{seat}={who}" for who, one in enumerate(outcomes) if not isinstance(one, InputError)]
        assert len(winners) == 1
        self.names += [] if taken else winners
        assert winners[0] in self.names

    @rule(process=PROCESSES)
    def an_answer_is_lost_and_the_append_sent_again(self, process: int) -> None:
        store = self.stores[process]

        async def sent_once_already() -> None:
            await append_to(store._store, store.appends[-1])

        store.before["append"] = sent_once_already
        self.add_names(process, 2)

    @rule(process=PROCESSES)
    def an_append_stays_in_doubt(self, process: int) -> None:
        async def no_answer() -> None:
            raise InDoubtError("no answer came")

        self.run(self.streams[process].refresh())
        self.stores[process].after["append"] = no_answer
        name = f"{next(self.numbers)}"
        try:
            self.run(self.streams[process].submit(add(name)))
        except InDoubtError:
            self.names.append(name)
        else:
            raise AssertionError("the lost answer was not noticed")

    @precondition(lambda self: self.names)
    @rule(process=PROCESSES, data=st.data(), inline=st.booleans())
    def a_wake_up_comes_late_twice_or_not_at_all(self, process: int, data: st.DataObject, *, inline: bool) -> None:
        log = self.run(log_of(self.stores[0].as_store, self.key))
        last = data.draw(st.integers(1, len(log)))
        first = data.draw(st.integers(max(last - 2, 1), last))
        entries = log[first - 1 : last]

        async def wake() -> None:
            self.streams[process].woken(WakeUp(self.key, entries[-1].position, entries if inline else ()))

        self.run(wake())

    @rule(process=PROCESSES)
    def read(self, process: int) -> None:
        state = self.run(self.streams[process].refresh())
        assert list(state.names) == self.names

    def teardown(self) -> None:
        for process in range(len(self.streams)):
            self.read(process)
        fresh = self.run(tally(self.stores[0].as_store, self.key).refresh())
        assert all(stream.state == fresh for stream in self.streams)


def test_whatever_processes_do_all_fold_the_same_history(storage: RealServer | None) -> None:
    with asyncio.Runner() as runner:
        backend = Backend(storage, TestClock())
        stores = [runner.run(backend.open()) for _ in range(3)]
        examples = count()
        try:
            run_state_machine_as_test(
                lambda: Processes(runner.run, stores, StreamKey("session", f"machine_{next(examples)}")),  # type: ignore[arg-type]
                settings=settings(max_examples=60, stateful_step_count=20),
            )
        finally:
            runner.run(backend.close())

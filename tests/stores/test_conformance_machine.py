"""Many writers on one stream, stale, ahead, or sending twice: the log equals a plain list, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count, pairwise
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ledger.core.commitments import after_entry, follows, genesis, within_append
from ledger.stores.port import (
    START,
    Append,
    Appended,
    AppendResult,
    Behind,
    Conflict,
    Entry,
    OutsideWindow,
    Position,
    StreamKey,
)
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import Store
from ledger.testing import TestClock
from tests.support.backends import Backend, answer_to, append_of, log_of
from tests.support.servers import RealServer

WRITERS = st.integers(0, 3)
EVENTS = st.lists(st.binary(max_size=40).filter(lambda payload: b"\n" not in payload), min_size=1, max_size=3)
MILLISECONDS = st.integers(-5, 20)


Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Writer(NamedTuple):
    """The part of the stream that a process has seen, and the append it sent last."""

    seen: tuple[Entry, ...] = ()
    sent: Append | None = None

    @property
    def after(self) -> Position:
        return self.seen[-1].position if self.seen else START


def linked(entry_before: Entry | None, payload: bytes) -> bytes:
    """A payload that bears the link to the entry before it, as an event does."""
    if entry_before is None:
        return genesis("session", "machine").encode() + payload
    return after_entry(*entry_before[:3]).encode() + payload


class Writers(RuleBasedStateMachine):
    """`log` is the model. A store's answers and contents must equal the model's."""

    def __init__(self, run: Run, stores: list[Store], clock: TestClock, key: StreamKey) -> None:
        super().__init__()
        self.run = run
        self.stores = stores
        self.clock = clock
        self.key = key
        self.log: list[Entry] = []
        self.writers = [Writer() for _ in self.stores]

    @rule(writer=WRITERS, events=EVENTS)
    def append(self, writer: int, events: list[bytes]) -> None:
        """Append what this writer decides on its known state, which may be stale."""
        known = self.writers[writer]
        last = known.seen[-1] if known.seen else None
        payloads = [linked(last, events[0]), *events[1:]]
        for index in range(1, len(payloads)):
            link = within_append(known.after.version + index, payloads[index - 1])
            payloads[index] = link.encode() + payloads[index]
        self._send(writer, append_of(*payloads, key=self.key, after=known.after))

    @precondition(lambda self: any(writer.sent for writer in self.writers))
    @rule(writer=WRITERS)
    def send_again(self, writer: int) -> None:
        """The answer was lost: repeat the same append, whatever was appended in between."""
        sent = self.writers[writer].sent
        if sent is not None:
            self._send(writer, sent)

    @rule(writer=WRITERS, versions=st.integers(1, 3), ms=st.integers(0, 2), events=EVENTS)
    def append_ahead(self, writer: int, versions: int, ms: int, events: list[bytes]) -> None:
        """A writer that saw entries which the server has lost."""
        head = self._head
        ahead = Position(head.ms + ms, head.version + versions)
        answer = self._answer(writer, append_of(*events, key=self.key, after=ahead))
        assert answer == Behind(head, self.clock.now_ms())

    @precondition(lambda self: self.log)
    @rule(writer=WRITERS, events=EVENTS, data=st.data())
    def append_after_another_history(self, writer: int, events: list[bytes], data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.log))
        elsewhere = Position(entry.ms - 1, entry.version)
        answer = self._answer(writer, append_of(*events, key=self.key, after=elsewhere))
        assert answer == Behind(self._head, self.clock.now_ms())

    @rule(writer=WRITERS, events=EVENTS, early=MILLISECONDS, late=MILLISECONDS)
    def append_in_a_window(self, writer: int, events: list[bytes], early: int, late: int) -> None:
        now_ms = self.clock.now_ms()
        window = (now_ms + early, now_ms + late)
        ms = max(now_ms, self._head.ms)
        self._catch_up(writer)
        if window[0] <= ms <= window[1]:
            last = self.log[-1] if self.log else None
            self._send(writer, append_of(linked(last, events[0]), key=self.key, after=self._head, window=window))
        else:
            answer = self._answer(writer, append_of(*events, key=self.key, after=self._head, window=window))
            assert answer == OutsideWindow(ms, now_ms)

    @rule(writer=WRITERS)
    def read(self, writer: int) -> None:
        self._catch_up(writer)

    @rule(ms=st.integers(-50, 1_000))
    def move_the_clock(self, ms: int) -> None:
        self.clock.set(self.clock.now_ms() + ms)

    @rule(writer=WRITERS)
    def forget_the_scripts(self, writer: int) -> None:
        store = self.stores[writer]
        if isinstance(store, RedisStore):
            self.run(store.command("SCRIPT", "FLUSH"))

    # --- the model ----------------------------------------------------------------------------------------------------

    @property
    def _head(self) -> Position:
        return self.log[-1].position if self.log else START

    def _answer(self, writer: int, append: Append) -> AppendResult:
        answer: AppendResult = self.run(answer_to(self.stores[writer], append))
        return answer

    def _send(self, writer: int, append: Append) -> None:
        head, now_ms = self._head, self.clock.now_ms()
        answer = self._answer(writer, append)
        missed = tuple(self.log[append.after.version :])
        if append.after == head:
            ms = max(now_ms, head.ms)
            assert answer == Appended(ms, now_ms)
            self.log += [
                Entry(ms, version, *fields) for version, fields in enumerate(append.payloads, head.version + 1)
            ]
            missed = tuple(self.log[head.version :])
        else:
            assert answer == Conflict(missed, head, now_ms)
        # A writer that is sent its own events in a conflict was acknowledged late; both ways it knows the log now.
        self.writers[writer] = Writer(tuple(self.log[: append.after.version]) + missed, append)

    def _catch_up(self, writer: int) -> None:
        known = self.writers[writer]
        page = self.run(self.stores[writer].read(self.key, known.after, 1000))
        assert page == tuple(self.log[known.after.version :])
        self.writers[writer] = known._replace(seen=known.seen + page)

    @invariant()
    def the_log_is_the_model(self) -> None:
        held = self.run(log_of(self.stores[0], self.key))
        assert held == tuple(self.log)
        assert [entry.version for entry in held] == list(range(1, len(held) + 1))
        assert all(one.ms <= two.ms for one, two in pairwise(held))

    @invariant()
    def the_chain_holds(self) -> None:
        before: Entry | None = None
        for entry in self.log:
            link = entry.payload[:64].decode()
            if before is None:
                assert link == genesis("session", "machine")
            else:
                assert follows(
                    link,
                    ms=entry.ms,
                    before_ms=before.ms,
                    before_version=before.version,
                    before_payload=before.payload,
                )
            before = entry


def test_whatever_writers_do_the_log_is_what_a_list_would_be(storage: RealServer | None) -> None:
    with asyncio.Runner() as runner:
        clock = TestClock()
        backend = Backend(storage, clock)
        stores = [runner.run(backend.open()) for _ in range(4)]
        examples = count()
        try:
            run_state_machine_as_test(
                lambda: Writers(runner.run, stores, clock, StreamKey("session", f"machine_{next(examples)}")),  # type: ignore[arg-type]
                settings=settings(max_examples=100, stateful_step_count=25),
            )
        finally:
            runner.run(backend.close())

"""The simulation detects mistakes: with one planted in the core or in the server, some seed soon fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

import pytest
from msgspec.structs import replace

from ledger import Timeouts
from ledger import project as project_state
from ledger.client import claims as client_claims
from ledger.client.calls import Calls
from ledger.log import stream
from ledger.log.stream import Stream
from ledger.log.streams import Streams
from ledger.project import ProjectState, TakeUse
from ledger.session import asks, claims, freezing, releases, replies
from ledger.session.claims import ClaimJudgement
from ledger.stores.memory import MemoryStore
from ledger.stores.port import START, Append, Appended, Entry, FreezeFlag
from tests.simulation import actors, simulation
from tests.simulation.simulation import Simulation

SEEDS_COUNT: Final = 150
LONG: Final = Timeouts(attended=90, unattended=90, cap=120)
"""Seconds, longer than a sweep and all slack, so that only a wake-up can be in time."""


def first_failure(*, failovers: bool = False) -> str:
    """Return the error of the first simulation that fails."""
    for seed in range(SEEDS_COUNT):
        try:
            Simulation(seed, failovers=failovers).run()
        except AssertionError as error:
            return f"{error}: {error.__cause__!r}"
    raise AssertionError(f"{SEEDS_COUNT} simulations saw nothing")


def only_wake_ups_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn sweeps off and put deadlines, at which waiters look by themselves, far away."""

    async def never(self: Streams) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(actors, "TIMEOUTS", LONG)
    monkeypatch.setattr(Streams, "_sweep", never)


def test_a_server_that_compares_versions_instead_of_ids_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = MemoryStore.append

    def append(self: MemoryStore, append: Append) -> Any:
        entries = self._server.streams.get(append.key, [])
        head = entries[-1].position if entries else START
        same_version = head.version == append.after.version
        return compared(self, replace(append, after=head) if same_version else append)

    monkeypatch.setattr(MemoryStore, "append", append)
    assert "does not follow the entry before it" in first_failure(failovers=True)


def test_a_writer_that_does_not_look_for_its_own_events_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_bears", lambda *_: False)
    assert "a fact is noted once" in first_failure()


def test_wake_ups_that_are_lost_with_nobody_looking_by_himself_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    only_wake_ups_tell(monkeypatch)
    monkeypatch.setattr(Streams, "gap", lambda *_: None)
    assert "was told too late" in first_failure()


def test_a_gap_that_is_passed_over_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def absorb(self: Stream[Any], entries: tuple[Entry, ...]) -> bool:
        known = [entry for entry in entries if entry.version <= self.position.version + 1]
        self._absorb(known)
        return True

    only_wake_ups_tell(monkeypatch)
    monkeypatch.setattr(Stream, "_absorb_quietly", absorb)
    caught = first_failure()
    # The wake-up of an answer was lost, or that of a grant's revoke.
    assert "was told too late" in caught or "by a grant that had been revoked" in caught


def test_refusals_on_stale_state_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only job reads the log; a command that makes no event is answered from the cache."""
    folded, prepared = Stream._ensure_folded, Stream._prepare
    commanded: set[Stream[Any]] = set()

    async def prepare(self: Stream[Any], turn: Any, result: Any) -> bool:
        (commanded.discard if any(job.command is None for job in turn.jobs) else commanded.add)(self)
        return await prepared(self, turn, result)

    async def ensure_folded(self: Stream[Any]) -> bool:
        return await folded(self) or self in commanded

    monkeypatch.setattr(Stream, "_prepare", prepare)
    monkeypatch.setattr(Stream, "_ensure_folded", ensure_folded)
    assert "but it was" in first_failure()


def test_an_allow_by_a_grant_of_the_project_that_is_not_looked_at_again_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_look(self: Calls, *_: Any) -> Any:
        return self._stream.state

    monkeypatch.setattr(Calls, "_by_grants_of_now", no_look)
    assert "by a grant that had been revoked" in first_failure()


def test_a_yes_that_is_not_judged_by_the_rules_of_now_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "denied_now", lambda *_: None)
    assert "a yes counts by the rules of now" in first_failure()


def test_a_claim_without_a_second_look_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_look(state: Any, settled: Any, *_: Any) -> ClaimJudgement:
        return ClaimJudgement(evaluation=settled.request.evaluation)

    monkeypatch.setattr(claims, "judge_claim", no_look)
    assert "of now" in first_failure()


def test_a_second_claim_of_one_call_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "is_repeated", lambda *_: False)
    monkeypatch.setattr(client_claims, "is_repeated", lambda *_: False)
    caught = first_failure()
    assert "one claim at a time" in caught or "no second run" in caught


def test_uses_that_are_counted_in_a_view_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The view has not seen the last uses yet."""
    taken = project_state._take

    def take(state: ProjectState, command: TakeUse, now_ms: int) -> Any:
        grant = state.grants.get(command.grant_id)
        seen = (
            state
            if grant is None
            else replace(state, grants=state.grants.insert(command.grant_id, replace(grant, taken=())))
        )
        return taken(seen, command, now_ms)

    monkeypatch.setattr(project_state, "_take", take)
    assert "more calls than uses" in first_failure()


def test_a_use_that_is_taken_after_the_allow_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(used: Any, *_: Any) -> tuple[str, ...]:
        return tuple(grant.grant_id for grant in used if grant.uses is not None)

    for module in (asks, claims, releases, freezing):
        monkeypatch.setattr(module, "uses_of", named)
    caught = first_failure()
    assert "by a use that was not taken" in caught or "judged by what stood" in caught


def _outside(field: str) -> Callable[..., Any]:
    checked = MemoryStore.append

    def append(self: MemoryStore, append: Append) -> Any:
        return checked(self, replace(append, **{field: None}))

    return append


def test_a_server_that_takes_an_allow_after_the_deadline_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only a process far behind the server's clock, or a slow call, replies too late unknowingly.
    monkeypatch.setattr(simulation, "SKEW_MS", 8_000)
    monkeypatch.setattr(MemoryStore, "append", _outside("not_after_ms"))
    assert "no allow after the deadline" in first_failure()


def test_a_server_that_takes_an_expiry_before_the_deadline_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "append", _outside("not_before_ms"))
    assert "no expiry before the deadline" in first_failure()


def test_an_answer_that_is_told_before_it_is_written_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that acknowledges without writing."""
    written = MemoryStore.append
    count = iter(range(1, 1_000_000))

    def append(self: MemoryStore, append: Append) -> Any:
        if next(count) % 20 == 0 and append.after != START:
            return Appended(max(self.clock.now_ms(), append.after.ms), self.clock.now_ms())
        return written(self, append)

    monkeypatch.setattr(MemoryStore, "append", append)
    assert first_failure()


def test_a_flag_that_is_read_from_a_replica_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replica has the flag of before; an append that allows something is checked against that."""
    set_on_primary, checked = MemoryStore.set_flags, MemoryStore._frozen
    replicas: WeakKeyDictionary[Any, dict[int, FreezeFlag]] = WeakKeyDictionary()

    async def set_flags(self: MemoryStore, flag: FreezeFlag, server: str | None = None) -> Any:
        replicas[self._server] = dict(self._server.freeze_flags)
        return await set_on_primary(self, flag, server)

    def frozen(self: MemoryStore, append: Append, now_ms: int) -> Any:
        primary, self._server.freeze_flags = self._server.freeze_flags, replicas.get(self._server, {})
        try:
            return checked(self, append, now_ms)
        finally:
            self._server.freeze_flags = primary

    monkeypatch.setattr(MemoryStore, "set_flags", set_flags)
    monkeypatch.setattr(MemoryStore, "_frozen", frozen)
    assert "was written after an acknowledged freeze" in first_failure()


def test_a_flag_that_was_lost_in_a_failover_and_is_believed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = MemoryStore._frozen

    def frozen(self: MemoryStore, append: Append, now_ms: int) -> Any:
        self._server.verified_by[append.key.partition(self.partition_count)] = self._server.identity
        return checked(self, append, now_ms)

    monkeypatch.setattr(MemoryStore, "_frozen", frozen)
    assert "was written after an acknowledged freeze" in first_failure(failovers=True)


def test_an_append_that_does_not_say_that_it_allows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "any_allowing", lambda _: False)
    assert "was written after an acknowledged freeze" in first_failure()

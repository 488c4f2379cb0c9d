"""One run by one seed: its actors, its faults, and the check that everything was correct."""

from __future__ import annotations

import random
from typing import Any, Final

from ledger.core.events import RulesStored
from ledger.core.freezes import any_allowing
from ledger.core.grants import Recorded
from ledger.log.folds import ProjectFold, SessionFold
from ledger.policy import PolicySource
from ledger.session.state import next_due_ms
from ledger.stores.memory import MemoryStore
from ledger.stores.port import StreamKey
from tests.simulation import actors as cast_of
from tests.simulation.oracle import Oracle, check_all
from tests.simulation.scheduler import Scheduler, run
from tests.simulation.store import Faults
from tests.simulation.uses import Uses
from tests.simulation.world import Actor, Process, World, task_factory
from tests.support.decoding import decoded

SESSIONS: Final = ("ses_0", "ses_1")
PROCESSES_COUNT: Final = 3
TROUBLE_SECONDS: Final = 40
"""Seconds with faults; afterwards all actors have as long as they need to end, within reason."""

END_SECONDS: Final = 400
SKEW_MS: Final = 1500
RULES_CHANGE_EVERY: Final = 4
"""One seed in this many changes rules. The choice draws no random number, so the runs of other seeds stay the same."""

CLAIMS_EVERY: Final = 3
"""One seed in this many has claimers, in the same way."""
USES_EVERY: Final = 3
"""One seed in this many has grants with a limit of uses, in the same way."""

FREEZE_EVERY: Final = 3
"""One seed in this many freezes; the choice draws no random number either."""


class Simulation:
    """A run determined by `seed`. With `failovers` the server loses acknowledged entries at times, its only fault."""

    def __init__(self, seed: int, *, failovers: bool = False) -> None:
        self.seed = seed
        self._failovers = failovers
        self._scheduler = Scheduler(seed)
        self.world = self._world(self._scheduler.chance)
        self.world.lost = self._hints_are_lost_too
        self._diary = cast_of.Diary(self.world)

    @property
    def trace(self) -> str:
        return self._scheduler.trace

    @property
    def steps(self) -> int:
        return self._scheduler.steps

    def run(self) -> None:
        """Run the simulation. Raises AssertionError, with the seed, when a check fails."""
        try:
            run(self._scheduler, self._main, task_factory)
            self._audit()
        except Exception as error:
            more = " with failovers" if self._failovers else ""
            raise AssertionError(
                f"simulation {self.seed}{more} went wrong; see it again with --simulation-seed {self.seed}"
            ) from error

    # --- who and what -----------------------------------------------------------------------------------------------

    def _world(self, chance: random.Random) -> World:
        """Make the world. Each seed has its own faults, some hardly any, so that one fault does not hide another."""

        def some(most: float) -> float:
            return most * chance.random() if chance.random() < 0.5 else 0

        faults = Faults(
            unreachable=some(0.05),
            answer_lost=some(0.2),
            in_doubt=some(0.06),
            wake_up_lost=some(0.5),
            wake_up_again=some(0.3),
            wake_up_by_id=some(0.6),
            gap=some(0.1),
        )
        failover = 0.02 if self._failovers else 0
        return World(self._scheduler, faults, crash=some(0.01), failover=failover)

    def _cast(self) -> list[Actor]:
        chance, diary = self._scheduler.chance, self._diary
        cast: list[Actor] = [
            *(cast_of.Asker(diary, f"asker{number}", SESSIONS[number % 2], 3) for number in range(4)),
            *(cast_of.Approver(diary, f"approver{number}", 5) for number in range(3)),
            cast_of.Granter(diary, "granter", 4),
            cast_of.Client(diary, "client", 1),
            cast_of.ExpiryWorker(diary, "expiry", 1),
        ]
        if chance.random() < 0.3:
            cast.append(cast_of.Closer(diary, "closer", 1))
        if self.seed % FREEZE_EVERY == 1:
            cast.append(cast_of.Freezer(diary, "freezer", 3))
        if self.seed % USES_EVERY == 2:
            cast.append(cast_of.Rationer(diary, "rationer", 2))
        if self.seed % RULES_CHANGE_EVERY == 0:
            cast.append(cast_of.Lawmaker(diary, "lawmaker", 4))
        if self.seed % CLAIMS_EVERY == 1:
            cast += [cast_of.Claimer(diary, f"claimer{number}", 8) for number in range(3)]
        return cast

    async def _main(self) -> None:
        chance, world = self._scheduler.chance, self.world
        parts: list[list[Actor]] = [[] for _ in range(PROCESSES_COUNT)]
        cast = self._cast()
        for actor in cast:
            chance.choice(parts).append(actor)
        world.processes = [
            Process(world, f"p{number}", chance.randint(-SKEW_MS, SKEW_MS), part) for number, part in enumerate(parts)
        ]
        for process in world.processes:
            process.start()

        def left() -> list[str]:
            return [actor.name for actor in cast if not (actor.is_done or actor.is_daemon)]

        await world.until(lambda: world.scheduler.now > TROUBLE_SECONDS, TROUBLE_SECONDS + 10, lambda: "trouble")
        world.calm()
        await world.until(lambda: not left() and all(process.ledger for process in world.processes), END_SECONDS,
            lambda: f"not done: {left()}")  # fmt: skip
        await world.until(lambda: not self._waiting(), 120, lambda: f"still waiting: {self._waiting()}")
        await self._compare_folds()
        for process in world.processes:
            await process.stop()

    def _waiting(self) -> list[tuple[str, str]]:
        return [(name, request_id) for name in SESSIONS for request_id in self._replayed(name).pending]

    # --- what must hold ---------------------------------------------------------------------------------------------

    def log(self, key: StreamKey) -> list[Recorded]:
        """Return the decoded log, with every link of the chain checked."""
        return decoded(key, self.world.server.streams.get(key, []))

    def _replayed(self, session: str) -> Any:
        key = StreamKey("session", session)
        fold = SessionFold(MemoryStore(self.world.server))
        state = fold.initial(key)
        for recorded in self.log(key):
            state = fold.evolve(state, recorded)
        return state

    def _hints_are_lost_too(self, key: StreamKey) -> None:
        """Lose the deadline hints of a lost stream: the index lies on the same server and is as old as the stream."""
        if key.kind == "session":
            due_ms = next_due_ms(self._replayed(key.id))
            self.world.server.due.pop(key.id, None)
            if due_ms is not None:
                self.world.server.due[key.id] = due_ms

    async def _compare_folds(self) -> None:
        """Check that every process's fold, grown by its appends and by wake-ups, equals a replay."""
        # Once beforehand: a process that detects lost entries records the loss.
        for _ in self.world.processes:
            await self._live_folds()
        for name, (shared, sessions) in (await self._live_folds()).items():
            assert shared == self._replayed_project(), f"{name}: fold(live) is fold(replay)"
            for session in SESSIONS:
                assert sessions[session] == self._replayed(session), f"{name} {session}: fold(live) is fold(replay)"

    async def _live_folds(self) -> dict[str, tuple[Any, dict[str, Any]]]:
        folds: dict[str, tuple[Any, dict[str, Any]]] = {}
        for process in self.world.processes:
            assert process.ledger
            streams = process.ledger.streams
            sessions = {name: await streams.session(name).refresh() for name in SESSIONS}
            folds[process.name] = (await streams.project(cast_of.PROJECT).refresh(), sessions)
        return folds

    def _replayed_project(self) -> Any:
        key = StreamKey("project", cast_of.PROJECT)
        state = ProjectFold().initial(key)
        for recorded in self.log(key):
            state = ProjectFold().evolve(state, recorded)
        return state

    def _audit(self) -> None:
        self._check_freezes()
        project = self.log(StreamKey("project", cast_of.PROJECT))
        uses = Uses(project)
        if self._failovers:
            # Lost entries had been reported to callers: only the logs themselves can be checked.
            return
        logs = {name: self.log(StreamKey("session", name)) for name in SESSIONS}
        for name, records in logs.items():
            uses.check_taken(name, records)
        oracles = {name: Oracle(name, records, project, self._policy) for name, records in logs.items()}
        check_all(self._diary.told, self._diary.noted, self._diary.claims, oracles)

    def _policy(self, policy_digest: str) -> PolicySource:
        (stored,) = self.log(StreamKey("policy", policy_digest))
        assert isinstance(stored.event, RulesStored)
        assert stored.event.detail
        return stored.event.detail.policy

    def _check_freezes(self) -> None:
        """Check that nothing was allowed, or told allowed, from the acknowledgement of a freeze to the begin of its end."""
        keys = [StreamKey("project", cast_of.PROJECT), *(StreamKey("session", name) for name in SESSIONS)]
        allowed = [one for key in keys for one in self.log(key) if any_allowing([one.event])]
        for since_ms, until_ms in self.world.frozen:
            for one in allowed:
                is_within = since_ms < one.ms < (one.ms + 1 if until_ms is None else until_ms)
                assert not is_within, f"{one.event} was written after an acknowledged freeze"
            for told in self._diary.told:
                if told.kind in ("ask", "wait") and told.outcome == "allowed" and told.called_ms > since_ms:
                    assert until_ms is not None, f"{told} in a freeze"
                    assert told.server_ms >= until_ms, f"{told} in a freeze"

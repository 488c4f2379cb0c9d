"""A contest for claims: processes that want the same calls at the same time, trouble on the way, and the log's verdict.

The log alone is read for the verdict: each call was claimed once or denied, nothing was claimed by rules that deny it,
nor after an acknowledged freeze. What the processes were told must be what the log says.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from ledger import AlreadyClaimedError, DeniedError, FrozenError, Ledger, Runner, StoreError, claim_id_of
from ledger.access.freeze import FREEZE_ID
from ledger.core.events import Claimed, Frozen, PolicyChanged, Reopened, SessionOpened, Unfrozen
from ledger.core.grants import Recorded
from ledger.log.archive.archive import all_streams
from ledger.log.tail import read_events
from ledger.policy import Verdict
from ledger.stores.port import StreamKey
from tests.races.claimer import command_of, is_risky, runner_of, told_in
from tests.races.contender import id_of, session_of
from tests.support.auditor import Auditor
from tests.support.processes import next_line, python
from tests.support.waiting import pause, wait_until

COUNT_VARIABLE: Final = "PERMISSION_LEDGER_TEST_CLAIMS"
"""The number of contested claims; each claimer's attempt at a request counts."""

CLAIMS_COUNT: Final = int(os.environ.get(COUNT_VARIABLE, "100000"))
CLAIMERS_COUNT: Final = 4
REQUESTS_A_SESSION: Final = 500
ASKED_AT_ONCE_COUNT: Final = 2_000
TRIED_COUNT: Final = 64
"""Claims that the contest itself tries within each freeze."""

LINE_BYTES: Final = 12
"""The least length of a line of a claimer's file."""

PROGRAM: Final = "import sys; from tests.races.claimer import main; main(*sys.argv[1:])"
ALLOWING: Final = [{"permission": "bash", "pattern": "*", "action": "allow"}]
DENYING: Final = [*ALLOWING, {"permission": "bash", "pattern": "rm *", "action": "deny"}]

T = TypeVar("T")

Trouble = Callable[["Contest"], Awaitable[None]]


class Contest:
    """A contest for `claims_count` claims at one deployment, in as many rounds as there are troubles."""

    def __init__(self, ledger: Ledger, url: str, folder: Path, claims_count: int = CLAIMS_COUNT) -> None:
        self.ledger = ledger
        self.requests = range(claims_count // CLAIMERS_COUNT)
        self.sessions_count = max(20, len(self.requests) // REQUESTS_A_SESSION)
        self.round = range(0)
        self._url = url
        self._files = [folder / f"told{number}" for number in range(CLAIMERS_COUNT)]
        self._claimers: list[subprocess.Popen[str]] = []
        self._running = ExitStack()
        self._marks: list[str] = []
        self._killed_count = 0

    async def play(self, troubles: Sequence[Trouble]) -> None:
        """Ask for all calls, and let the claimers claim a part of them in each round, with its trouble in the middle."""
        await self._ask_all()
        with self._running:
            self._claimers = [self._started(number) for number in range(CLAIMERS_COUNT)]
            size = -(-len(self.requests) // len(troubles))
            for number, trouble in enumerate(troubles):
                self.round = self.requests[number * size : (number + 1) * size]
                enough = sum(map(_size_of, self._files)) + len(self.round) * LINE_BYTES
                for claimer in self._claimers:
                    self._go(claimer)
                await asyncio.to_thread(
                    wait_until, lambda enough=enough: sum(map(_size_of, self._files)) >= enough, "a part of the claims"
                )
                await trouble(self)
                for claimer in self._claimers:
                    assert await asyncio.to_thread(next_line, claimer) == "done"

    async def _ask_all(self) -> None:
        """Ask for every call, which a rule allows."""
        names = [f"ses_{number}" for number in range(self.sessions_count)]
        sessions = {name: await patiently(partial(self.ledger.session, name, rules=ALLOWING)) for name in names}

        async def ask(request: int) -> None:
            session = sessions[session_of(request, self.sessions_count)]
            await patiently(partial(session.submit, "bash", [command_of(request)], request_id=id_of(request)))

        for first in range(0, len(self.requests), ASKED_AT_ONCE_COUNT):
            await asyncio.gather(*map(ask, self.requests[first : first + ASKED_AT_ONCE_COUNT]))

    def _started(self, number: int) -> subprocess.Popen[str]:
        claimer = self._running.enter_context(
            python(PROGRAM, self._url, f"{number}", f"{self.sessions_count}", self._files[number])
        )
        # Otherwise a failed contest would wait for the others, which try for ever.
        self._running.callback(claimer.kill)
        assert next_line(claimer) == "ready"
        return claimer

    def _go(self, claimer: subprocess.Popen[str]) -> None:
        assert claimer.stdin
        claimer.stdin.write(f"{self.round.start} {self.round.stop}\n")
        claimer.stdin.flush()

    # --- troubles ---------------------------------------------------------------------------------------------------

    async def kill_a_claimer(self) -> None:
        """Kill a claimer with signal 9, each time another one, and start it again."""
        number = self._killed_count % CLAIMERS_COUNT
        self._killed_count += 1
        self._claimers[number].kill()
        self._claimers[number].wait()
        self._claimers[number] = await asyncio.to_thread(self._started, number)
        self._go(self._claimers[number])

    async def freeze(self, meanwhile: Trouble | None = None) -> None:
        """Freeze everything, have nothing claimed, and end the freeze."""
        await patiently(partial(self.ledger.freezes.freeze, reason="a drill"))
        # An entry after the acknowledgement: the log tells from when on nothing may be claimed.
        self._marks.append(f"mark_{len(self._marks)}")
        await patiently(partial(self.ledger.session, self._marks[-1]))
        if meanwhile is not None:
            await meanwhile(self)
        tried = [patiently(partial(self._is_refused, one)) for one in self.round[-TRIED_COUNT:]]
        assert all(await asyncio.gather(*tried)), "a freeze refuses every claim"
        await patiently(self.ledger.freezes.unfreeze)

    async def _is_refused(self, request: int) -> bool:
        session = await self.ledger.attach(session_of(request, self.sessions_count))
        try:
            await session.claim(id_of(request), runner=Runner("nobody", id_of(request)))
        except (FrozenError, AlreadyClaimedError, DeniedError):
            return True
        return False

    async def enact(self, rules: list[dict[str, str]]) -> None:
        """Give every session new rules."""
        for number in range(self.sessions_count):
            await patiently(partial(self.ledger.session, f"ses_{number}", rules=rules))

    # --- the verdict ------------------------------------------------------------------------------------------------

    async def check(self, ledger: Ledger, *, loses_unconfirmed: bool = False) -> Counter[str]:
        """Check the log, then what the claimers were told; return the number of calls that each runner won.

        `loses_unconfirmed`: a failover may have lost a claim that was told to nobody but those whom it refused.
        """
        frozen = await self._frozen(ledger)
        assert len(frozen) == len(self._marks)
        winners: dict[int, str | None] = {}
        denying = await self._denying(ledger)
        for number in range(self.sessions_count):
            key = StreamKey("session", f"ses_{number}")
            records = [one async for one in read_events(ledger.store, key)]
            Auditor().read(records)
            winners |= _winners_in(records, frozen, denying)
        assert sorted(winners) == list(self.requests), "every call was claimed or denied"
        for number, file in enumerate(self._files):
            told = told_in(file)
            assert {request for request, _ in told} == set(self.requests), "everybody was told of every call"
            wrong = [one for one in told if winners[one[0]] != one[1]]
            if loses_unconfirmed:
                wrong = [one for one in wrong if one[1] == runner_of(one[0], number)]
            assert wrong == [], "who was told that it may run has the claim, and all are told the same"
        return Counter(winner or "nobody" for winner in winners.values())

    async def _denying(self, ledger: Ledger) -> frozenset[str]:
        """Return the digests of the stored rules that deny something."""
        keys = [key async for key in all_streams(ledger.store) if key.kind == "policy"]
        sources = {key.id: await ledger.streams.rulesets.read(key.id) for key in keys}
        return frozenset(
            one
            for one, source in sources.items()
            if any(rule.action is Verdict.DENY for layer in source.layers for rule in layer.rules)
        )

    async def _frozen(self, ledger: Ledger) -> list[tuple[int, int]]:
        """Return from when to when (server ms) nothing may have been claimed."""
        freezes = [one async for one in read_events(ledger.store, StreamKey("access", FREEZE_ID))]
        ends = [one.ms for one in freezes if isinstance(one.event, Unfrozen)]
        assert len([one for one in freezes if isinstance(one.event, Frozen)]) == len(ends)
        marks = [
            [one.ms async for one in read_events(ledger.store, StreamKey("session", mark))] for mark in self._marks
        ]
        return [(opened[0], end) for opened, end in zip(marks, ends, strict=True)]


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of work, which is tried again while the server is away or in doubt."""
    while True:
        try:
            return await work()
        except StoreError:
            await pause()


def _winners_in(
    records: Sequence[Recorded], frozen: Sequence[tuple[int, int]], denying: frozenset[str]
) -> dict[int, str | None]:
    """Return the runner of each request of a session; None for one that was denied. Fails for an impossible claim."""
    winners: dict[int, str | None] = {}
    denies = False
    for one in records:
        event = one.event
        if isinstance(event, SessionOpened | PolicyChanged):
            denies = event.policy_digest in denying
        elif isinstance(event, Reopened):
            request = int(event.request_id[1:])
            assert denies, "only new rules reopen"
            assert event.verdict is Verdict.DENY
            assert request not in winners, "who may run is not denied"
            winners[request] = None
        elif isinstance(event, Claimed):
            request = int(event.request_id[1:])
            assert request not in winners, "claimed once, and not after a denial"
            assert not (denies and is_risky(request)), "claimed by rules that deny it"
            assert not any(since < one.ms < until for since, until in frozen), "claimed after an acknowledged freeze"
            assert event.runner in {runner_of(request, claimer) for claimer in range(CLAIMERS_COUNT)}
            assert event.claim_id == claim_id_of(Runner(event.runner, event.request_id))
            winners[request] = event.runner
    return winners


def _size_of(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0

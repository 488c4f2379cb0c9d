"""The memory of folds under rules that other sessions have, too."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any, Final
from uuid import uuid4

import pytest

from ledger import Ledger
from ledger.log.fold_cache import fold_bytes
from ledger.policy import Layer, PolicySource, Rule, Verdict, digest
from ledger.policy.stored_rules import RulesState

SESSIONS: Final = 60
FEW, MANY = 2, 200
MORE_BYTES_MAX: Final = 64
"""The most bytes by which a fold under many shared rules may exceed one under few; less than one rule takes."""


def policy_of(count: int) -> PolicySource:
    rules = tuple(Rule("bash", f"program-{number} *", Verdict.ALLOW) for number in range(count))
    return PolicySource(layers=(Layer("session", rules=rules),))


async def read(ledger: Ledger, session_id: str) -> object:
    """Fold a session of two events and read its rules, as its next ask does."""
    stream = ledger.streams.session(session_id)
    return stream, await ledger.streams.rulesets.of(await stream.refresh())


async def bytes_of_a_fold(url: str, prefix: str) -> float:
    """Return what each session takes in a process that has read the first one, and so the rules, before."""
    async with Ledger.connect(url, entry_points=False) as ledger:
        held: list[Any] = [await read(ledger, f"{prefix}_0")]
        gc.collect()
        tracemalloc.start()
        try:
            held += [await read(ledger, f"{prefix}_{number}") for number in range(1, SESSIONS)]
            gc.collect()
            return tracemalloc.get_traced_memory()[0] / (SESSIONS - 1)
        finally:
            tracemalloc.stop()


@pytest.mark.slow
async def test_a_fold_under_many_shared_rules_takes_what_one_under_few_takes() -> None:
    url = f"memory://{uuid4().hex}"
    async with Ledger.connect(url, entry_points=False) as ledger:
        for prefix, count in (("few", FEW), ("many", MANY)):
            for number in range(SESSIONS):
                session = await ledger.session(f"{prefix}_{number}", policy=policy_of(count))
                await session.submit("bash", ["program-1 x"], request_id="r1")
        await bytes_of_a_fold(url, "few")  # what is made once is made now
        few, many = await bytes_of_a_fold(url, "few"), await bytes_of_a_fold(url, "many")
    assert many - few <= MORE_BYTES_MAX, (few, many)


async def test_rules_that_were_read_count_within_the_room_for_folds() -> None:
    async with Ledger.connect(f"memory://{uuid4().hex}", entry_points=False) as ledger:
        policy = policy_of(MANY)
        await ledger.session("ses_1", policy=policy)
        stream = ledger.streams.rules(digest(policy))
        before = ledger.streams._recent.size_bytes
        await ledger.session("ses_2", policy=policy)
        assert ledger.streams._recent.size_bytes - before < fold_bytes(stream.state), "shared, so they count once"
        await ledger.session("ses_3", policy=policy_of(MANY + 1))
        assert ledger.streams._recent.size_bytes - before > fold_bytes(stream.state)
    assert fold_bytes(stream.state) > fold_bytes(RulesState(policy_digest="")) + MANY * MORE_BYTES_MAX

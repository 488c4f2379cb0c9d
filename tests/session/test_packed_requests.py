"""Older settled requests are packed: they take little memory, and every reader and decision has them as before."""

from __future__ import annotations

import gc
import random
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec.structs import replace

from ledger.core.commitments import as_text
from ledger.core.errors import AlreadyAnsweredError, AlreadyClaimedError, DifferentRequestError
from ledger.core.events import (
    Actor,
    Asked,
    AskedDetail,
    Claimed,
    Event,
    ReasonDetail,
    Redacted,
    Reopened,
    Replied,
    ToolFinished,
    Value,
)
from ledger.core.grants import Recorded
from ledger.core.packed_map import BLOCK_COUNT, WHOLE_MAX_COUNT, PackedMap, Packing, from_parts, mark_of
from ledger.core.policy import Evaluation, RuleRef, Verdict
from ledger.core.runners import Runner
from ledger.session.evolve import evolve
from ledger.session.state import SessionState, Settled
from tests.support.commands import asks, cancels, claims, finishes_tool, opens, replies
from tests.support.rows import every
from tests.support.scenario import Scenario, given

AGENT: Final = Actor("agent", "builder")
ANN: Final = Actor("person", "ann")
REQUESTS: Final = 4 * BLOCK_COUNT + WHOLE_MAX_COUNT
SETTLED_BYTES: Final = 250
"""The most that a settled request may take in a long session."""


class Record(Value, kw_only=True, frozen=True):
    """A record of the tests."""

    number: int
    text: Any = None


def small(mark: Callable[[str], int] = mark_of) -> PackedMap[Record]:
    return PackedMap(Packing(Record, lambda one: one.number, 100, whole_max=6, block=4, mark=mark))


def held_in_blocks(records: PackedMap[Any]) -> bytes:
    return b"".join(zlib.decompress(block.data) for block in records.blocks().values())


def stored(records: PackedMap[Any], packing: Packing[Any]) -> PackedMap[Any]:
    """Return the map as it comes back from a store."""
    return from_parts(packing, records.parts(), {number: one.data for number, one in records.blocks().items()})


@every("mark", [mark_of, lambda key: int(key[4:]) % 7])
@every("seed", range(20))
def test_a_packed_map_is_read_as_a_dictionary_is(seed: int, mark: Callable[[str], int]) -> None:
    chance = random.Random(seed)
    packed, plain = small(mark), dict[str, Record]()
    for number in range(200):
        key = f"key {chance.randrange(60)}"
        record = Record(number=number, text=chance.choice([None, "words", ["a", {"b": 1.5}], 2**70, ("no", "list")]))
        match chance.randrange(10):
            case 0 if key in plain:
                packed, _ = packed.remove(key), plain.pop(key)
            case 1:
                changed = {one: replace(held, number=number) for one, held in list(plain.items())[:5]}
                packed = packed.renewed(changed)
                plain.update(changed)
            case _:
                packed = packed.insert(key, record)
                plain[key] = record
        assert packed.get(key) == plain.get(key)
        assert (key in packed, len(packed)) == (key in plain, len(plain))
    assert dict(packed.items()) == plain == {key: packed[key] for key in packed}
    assert sorted(map(repr, packed.values())) == sorted(map(repr, plain.values()))
    assert [one.number for one in packed.newest()] == sorted((one.number for one in plain.values()), reverse=True)
    assert packed == stored(packed, Packing(Record, lambda one: one.number, 100, mark=mark))


def test_a_record_that_would_not_come_back_as_it_is_is_kept_whole() -> None:
    records = small()
    odd = {f"odd {number}": Record(number=number, text=[2**70, (1, 2), "\ud800"][number % 3]) for number in range(30)}
    for key, record in odd.items():
        records = records.insert(key, record)
    for number in range(30, 130):
        records = records.insert(f"even {number}", Record(number=number))
    whole = records.parts().whole
    assert {key: whole[key] for key in odd} == odd
    assert sum(block.reads_count for block in records.blocks().values()) >= 50


def of_forty() -> PackedMap[Record]:
    records = small(mark_of)
    for number in range(40):
        records = records.insert(f"key {number}", Record(number=number))
    return records


def test_a_stored_map_goes_on_as_it_would_have() -> None:
    before = of_forty()
    after = stored(before, Packing(Record, lambda one: one.number, 100, whole_max=6, block=4))
    for number in range(40, 80):
        before, after = (one.insert(f"key {number}", Record(number=number)) for one in (before, after))
    assert after == before
    assert after.parts() == before.parts()


@pytest.mark.parametrize("change", ["missing", "another", "cut index", "odd index"])
def test_a_stored_map_with_other_blocks_is_refused(change: str) -> None:
    records = of_forty()
    parts, blocks = records.parts(), {number: one.data for number, one in records.blocks().items()}
    match change:
        case "missing":
            del blocks[0]
        case "another":
            blocks[0] = blocks[1]
        case "cut index":
            parts = replace(parts, marks=parts.marks[8:], numbers=parts.numbers[4:])
        case _:
            parts = replace(parts, marks=parts.marks[3:])
    with pytest.raises(ValueError):
        from_parts(Packing(Record, lambda one: one.number, 100), parts, blocks)


def test_a_block_leaves_with_the_last_record_that_is_read_from_it() -> None:
    records = of_forty()
    first = min(records.blocks())
    for number in range(40):
        records = records.insert(f"key {number}", Record(number=100 + number))
    assert first not in records.blocks()


def test_the_newest_records_are_read_without_unpacking_the_older_blocks() -> None:
    read: list[bytes] = []

    class Watched(Packing[Record]):
        def unpack(self, block: bytes) -> Any:
            read.append(block)
            return super().unpack(block)

    records = stored(of_forty(), Watched(Record, lambda one: one.number, 100, whole_max=6, block=4))
    newest = records.newest()
    assert [next(newest).number for _ in range(8)] == list(range(39, 31, -1))
    assert len(set(read)) <= 3 < len(records.blocks())


def test_an_unknown_key_is_refused_and_removing_one_leaves_the_other() -> None:
    before = small().insert("a", Record(number=1))
    with pytest.raises(KeyError):
        before.remove("b")
    with pytest.raises(KeyError):
        before["b"]
    after = before.remove("a")
    assert (list(before), list(after), after.get("a"), after.get("a", 7)) == (["a"], [], None, 7)


# --- sessions -------------------------------------------------------------------------------------------------------


def with_many_after(scenario: Scenario) -> Scenario:
    """Let so many other requests be settled that the earlier ones are packed."""
    for number in range(WHOLE_MAX_COUNT):
        scenario.given(asks(f"later_{number}", "ls"), replies(f"later_{number}", "once"))
    return scenario


def is_packed(state: SessionState, request_id: str) -> bool:
    return request_id in state.settled and request_id not in state.settled.parts().whole


def old(*steps: Any) -> Scenario:
    scenario = with_many_after(given(opens(), *steps))
    assert is_packed(scenario.state, "per_1")
    return scenario


ASKED = asks("per_1", "git push", tool_name="bash", tool_input={"command": "git push"})
RUNNER = Runner("hook", "1")


def test_the_same_question_again_attaches_to_a_packed_request() -> None:
    scenario = old(ASKED, replies("per_1", "reject", message="not now"))
    scenario.when(ASKED).then_nothing_happens()
    settled = scenario.state.settled["per_1"]
    assert (settled.outcome, settled.message) == ("corrected", "not now")


def test_another_question_under_the_id_of_a_packed_request_is_refused() -> None:
    old(ASKED, replies("per_1", "once")).when(asks("per_1", "rm -rf /")).then_refused(
        DifferentRequestError, "DIFFERENT_REQUEST"
    )


def test_an_answer_to_a_packed_request_is_the_same_again_or_refused() -> None:
    scenario = old(ASKED, replies("per_1", "once"))
    scenario.when(replies("per_1", "once")).then_nothing_happens()
    scenario.when(replies("per_1", "reject")).then_refused(AlreadyAnsweredError, "ALREADY_ANSWERED")
    scenario.when(cancels("per_1")).then_refused(AlreadyAnsweredError, "ALREADY_ANSWERED")


def test_a_packed_request_is_claimed_once_and_its_run_ends_once() -> None:
    scenario = old(ASKED, replies("per_1", "once"))
    scenario.given(claims(ASKED, RUNNER))
    with_many_after(scenario.given(finishes_tool("per_1")))
    scenario.when(claims(ASKED, Runner("hook", "2"))).then_refused(AlreadyClaimedError, "ALREADY_CLAIMED")
    held = scenario.state.settled["per_1"].claim
    assert held is not None
    assert (held.status, held.runner) == ("finished", "hook")


def test_redacted_content_is_in_no_block() -> None:
    secret = asks("per_1", "curl -u ann:horse", tool_name="bash", tool_input={"command": "curl -u ann:horse"})
    scenario = old(secret, replies("per_1", "reject", message="no horse"))
    assert b"horse" in held_in_blocks(scenario.state.settled)
    scenario.given(Redacted(versions=(2, 3), detail=ReasonDetail("a password")))
    assert b"horse" not in held_in_blocks(scenario.state.settled)
    assert "horse" not in repr(scenario.state)
    assert len(scenario.state.settled) == 1 + WHOLE_MAX_COUNT


def test_redacted_content_of_a_request_that_is_pending_again_is_in_no_block() -> None:
    secret = asks("per_1", "curl -u ann:horse")
    scenario = old(secret, replies("per_1", "once"))
    scenario.given(Reopened(request_id="per_1", verdict=Verdict.ASK, round=2, cause="operand"))
    assert "per_1" in scenario.state.pending
    scenario.given(Redacted(versions=(2,), detail=ReasonDetail("a password")))
    assert b"horse" not in held_in_blocks(scenario.state.settled)
    assert "horse" not in repr(scenario.state)


# --- memory ---------------------------------------------------------------------------------------------------------


def life(number: int) -> list[tuple[Actor, Event]]:
    """Return the events of a request that a person allows and that runs, with ids of 30 characters."""
    chance = random.Random(number)
    request_id, digest = f"per_{chance.randbytes(13).hex()}", chance.randbytes(32).hex()
    command = f"git commit -m 'change {number}'"
    rule = RuleRef("bash git *: ask", "project", "/home/ann/shop/opencode.json", 12)
    asked = Asked(
        request_id=request_id,
        permission="bash",
        verdict=Verdict.ASK,
        digest=digest,
        policy_digest="a" * 64,
        tier="attended",
        duration_ms=300_000,
        unattended_ms=1_800_000,
        tool_name="bash",
        detail=AskedDetail(
            salt=as_text(chance.randbytes(16)),
            patterns=(command,),
            always=("git commit *",),
            metadata={"description": f"commit change {number}"},
            input={"command": command},
            cwd="/home/ann/shop",
            evaluation=Evaluation(Verdict.ASK, rules=(rule,), always=("git commit *",), reason="a rule asks"),
        ),
    )
    replied = Replied(request_id=request_id, reply="once", outcome="allowed", client_id="web")
    claim_id = f"clm_{chance.randbytes(13).hex()}"
    claimed = Claimed(request_id=request_id, claim_id=claim_id, runner="hook", policy_digest="a" * 64)
    ended = ToolFinished(request_id=request_id, claim_id=claim_id, ok=True)
    return [(AGENT, asked), (ANN, replied), (AGENT, claimed), (AGENT, ended)]


def with_lives(state: SessionState, numbers: range) -> SessionState:
    for number in numbers:
        for actor, event in life(number):
            at = Recorded(event, actor, state.last_ms + 40, state.version + 1, f"evt_{state.version + 1}")
            state = evolve(state, at)
    return state


@pytest.mark.slow
def test_a_settled_request_of_a_long_session_takes_at_most_250_bytes() -> None:
    tracemalloc.start()
    try:
        state = with_lives(SessionState(session_id="ses_1", last_ms=1_800_000_000_000), range(REQUESTS))
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        state = with_lives(state, range(REQUESTS, 5 * REQUESTS))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(state.settled) == 5 * REQUESTS
    assert (after - before) / (4 * REQUESTS) <= SETTLED_BYTES


def test_a_long_session_has_every_request_with_its_reasons() -> None:
    state = with_lives(SessionState(session_id="ses_1", last_ms=1_800_000_000_000), range(REQUESTS))
    found: dict[str, Settled] = dict(state.settled.items())
    assert len(found) == REQUESTS
    for number in (0, BLOCK_COUNT, REQUESTS - 1):
        asked = life(number)[0][1]
        assert isinstance(asked, Asked)
        settled = state.settled[asked.request_id]
        assert settled == found[asked.request_id]
        assert (settled.outcome, settled.by, settled.request.digest) == ("allowed", ANN, asked.digest)
        assert settled.request.evaluation is not None
        assert settled.request.evaluation.reason == "a rule asks"
        assert settled.claim is not None
        assert settled.claim.status == "finished"

"""Settled requests are packed: they take little memory, and every reader and decision has them whole."""

from __future__ import annotations

import gc
import random
import tracemalloc
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
from ledger.core.packed_records import WHOLE_MAX_COUNT, PackedRecords, Packing
from ledger.core.policy import Evaluation, RuleRef, Verdict
from ledger.core.questions import Runner
from ledger.session.evolve import evolve
from ledger.session.state import SETTLED_PACKING, SessionState, Settled
from tests.support.commands import asks, cancels, claims, finishes_tool, opens, replies
from tests.support.rows import every
from tests.support.scenario import Scenario, given

AGENT: Final = Actor("agent", "builder")
ANN: Final = Actor("person", "ann")
REQUESTS: Final = 700
SETTLED_BYTES: Final = 450
"""The most that a settled request may take in a long session."""


class Record(Value, kw_only=True, frozen=True):
    """A record of the tests."""

    number: int
    text: Any = None


PACKING: Final = Packing(Record, lambda one: one.number, 100, [Record(number=1, text="words")])
EMPTY: Final = PackedRecords(PACKING)


@every("seed", range(20))
def test_packed_records_are_read_as_a_dictionary_is(seed: int) -> None:
    chance = random.Random(seed)
    packed, plain = EMPTY, dict[str, Record]()
    for number in range(800):
        key = f"key {chance.randrange(400)}"
        record = Record(number=number, text=chance.choice([None, "words", ["a", {"b": 1.5}], 2**70, "\u2028", -0.0]))
        match chance.randrange(10):
            case 0 if key in plain:
                packed, _ = packed.remove(key), plain.pop(key)
            case 1:
                changed = {one: replace(held, number=1000 + number) for one, held in list(plain.items())[:1]}
                packed = packed.replaced(changed)
                plain.update(changed)
            case _:
                packed = packed.insert(key, record)
                plain[key] = record
        assert packed.get(key) == plain.get(key)
        assert (key in packed, len(packed)) == (key in plain, len(plain))
    assert dict(packed.items()) == plain == {key: packed[key] for key in packed}
    assert sorted(map(repr, packed.values())) == sorted(map(repr, plain.values()))
    ages = sorted((one.number for one in plain.values()), reverse=True)
    assert [one.number for one in packed.newest()] == ages
    assert [one.number for one in packed.newest(ages[3])] == ages[4:]
    again = PackedRecords.of(PACKING, packed.packed())
    assert (again, again.packed()) == (packed, packed.packed())


def test_two_maps_of_equal_records_are_equal_however_their_members_are_ordered() -> None:
    one, other = (EMPTY.insert("a", Record(number=1, text=text)) for text in ({"a": 1, "b": 2}, {"b": 2, "a": 1}))
    assert one == other != EMPTY.insert("a", Record(number=2))


def test_the_newest_records_are_read_without_unpacking_the_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    records = EMPTY.replaced({f"key {number}": Record(number=number) for number in range(300)})
    unpacked: list[bytes] = []
    unpack = PACKING.unpack

    def noted(packed: bytes) -> Record:
        unpacked.append(packed)
        return unpack(packed)

    monkeypatch.setattr(PACKING, "unpack", noted)
    newest = records.newest()
    assert [next(newest).number for _ in range(8)] == list(range(299, 291, -1))
    assert len(unpacked) == 0
    ages = [one.number for one in newest]
    assert ages == list(range(291, -1, -1))
    assert len(unpacked) == len(records) - len(records._whole) >= 150


@pytest.mark.parametrize("packed", [b"", b"123456", b"123456 no record", PACKING.pack(Record(number=1))[:-3]])
def test_bytes_that_hold_no_record_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError):
        PACKING.unpack(packed)


def test_an_unknown_key_is_refused_and_removing_one_leaves_the_other() -> None:
    before = EMPTY.insert("a", Record(number=1))
    with pytest.raises(KeyError):
        before.remove("b")
    with pytest.raises(KeyError):
        before["b"]
    after = before.remove("a")
    assert (list(before), list(after), after.get("a"), after.get("a", 7)) == (["a"], [], None, 7)
    assert after.size_bytes == 0


def test_only_the_youngest_records_are_whole() -> None:
    records = EMPTY
    for number in range(1000):
        records = records.insert(f"key {number}", Record(number=number))
        assert WHOLE_MAX_COUNT // 2 <= len(records._whole) <= WHOLE_MAX_COUNT or number < WHOLE_MAX_COUNT
    assert min(one.number for one in dict(records._whole).values()) >= 1000 - WHOLE_MAX_COUNT


# --- sessions -------------------------------------------------------------------------------------------------------


def held_in(state: SessionState) -> str:
    """Return all that is kept of the settled requests."""
    return repr([SETTLED_PACKING.unpack(packed) for packed in state.settled.packed().values()])


def old(*steps: Any) -> Scenario:
    scenario = given(opens(), *steps)
    assert "per_1" in scenario.state.settled
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
    scenario.given(finishes_tool("per_1"))
    scenario.when(claims(ASKED, Runner("hook", "2"))).then_refused(AlreadyClaimedError, "ALREADY_CLAIMED")
    held = scenario.state.settled["per_1"].claim
    assert held is not None
    assert (held.status, held.runner) == ("finished", "hook")


def test_redacted_content_is_in_no_packed_request() -> None:
    secret = asks("per_1", "curl -u ann:horse", tool_name="bash", tool_input={"command": "curl -u ann:horse"})
    scenario = old(secret, replies("per_1", "reject", message="no horse"))
    assert "horse" in held_in(scenario.state)
    scenario.given(Redacted(versions=(2, 3), detail=ReasonDetail("a password")))
    assert "horse" not in held_in(scenario.state)
    assert "horse" not in repr(scenario.state)
    assert len(scenario.state.settled) == 1


def test_redacted_content_of_a_request_that_is_pending_again_is_in_no_packed_request() -> None:
    secret = asks("per_1", "curl -u ann:horse")
    scenario = old(secret, replies("per_1", "once"))
    scenario.given(Reopened(request_id="per_1", verdict=Verdict.ASK, round=2, cause="operand"))
    assert "per_1" in scenario.state.pending
    scenario.given(Redacted(versions=(2,), detail=ReasonDetail("a password")))
    assert "horse" not in held_in(scenario.state)
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
def test_a_settled_request_of_a_long_session_takes_at_most_450_bytes() -> None:
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
    for number in (0, 128, REQUESTS - 1):
        asked = life(number)[0][1]
        assert isinstance(asked, Asked)
        settled = state.settled[asked.request_id]
        assert settled == found[asked.request_id]
        assert (settled.outcome, settled.by, settled.request.digest) == ("allowed", ANN, asked.digest)
        assert settled.request.evaluation is not None
        assert settled.request.evaluation.reason == "a rule asks"
        assert settled.claim is not None
        assert settled.claim.status == "finished"

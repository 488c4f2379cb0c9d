"""The look-ups among pending requests: each tells what a walk over all of them would."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ledger.core.events import Actor, Opinion, Tier, ToolRef
from ledger.core.freezes import FREEZE
from ledger.core.packed_records import SortedKeys
from ledger.core.policy import Verdict
from ledger.session.state import PendingRequests, Request, in_order, is_held

AGENT: Final = Actor("agent", "builder")
times = st.integers(0, 12)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    number = draw(st.integers(1, 6))
    tier: Tier | None = draw(st.sampled_from(["attended", "unattended", None]))
    return Request(
        request_id=f"per_{number}",
        version=number,
        asked_ms=0,
        asker=AGENT,
        permission="bash",
        digest="",
        tier=tier,
        deadline_ms=draw(st.none() | times),
        unattended_ms=draw(st.none() | times),
        cap_at_ms=draw(st.none() | times),
        tool=draw(st.sampled_from([None, ToolRef("msg_1", "call"), ToolRef("msg_2", "call")])),
        opinions=draw(st.sampled_from([(), (Opinion(FREEZE, Verdict.ASK),), (Opinion("plugin", Verdict.ASK),)])),
    )


changes = st.lists(requests() | st.sampled_from([f"per_{number}" for number in range(1, 7)]), max_size=30)


def gains(request: Request, now_ms: int) -> bool:
    if request.tier != "unattended" or request.deadline_ms is None or request.unattended_ms is None:
        return False
    again_ms = now_ms + request.unattended_ms
    return request.deadline_ms < (again_ms if request.cap_at_ms is None else min(again_ms, request.cap_at_ms))


@given(changes, times)
def test_every_look_up_finds_what_a_walk_over_all_requests_finds(made: list[Request | str], now_ms: int) -> None:
    pending, plain = PendingRequests(), dict[str, Request]()
    for change in made:
        if isinstance(change, Request):
            pending = pending.insert(change.request_id, change)
            plain[change.request_id] = change
        else:
            pending = pending.discard(change)
            plain.pop(change, None)
    walked = in_order(plain.values())
    assert in_order(pending.values()) == walked
    assert dict(pending.items()) == plain
    assert pending == PendingRequests.of(plain.values())
    dated = [one for one in walked if one.deadline_ms is not None]
    assert pending.first_due() == min(dated, key=lambda one: one.deadline_ms or 0, default=None)
    assert pending.due(now_ms) == [one for one in dated if one.deadline_ms is not None and one.deadline_ms <= now_ms]
    assert pending.gains_time(now_ms) == any(gains(one, now_ms) for one in walked)
    assert pending.held() == [one for one in walked if is_held(one)]
    for message_id in ("msg_1", "msg_2", "msg_3"):
        of_message = [one for one in walked if one.tool is not None and one.tool.message_id == message_id]
        assert pending.of_message(message_id) == of_message


def test_a_request_that_is_not_pending_changes_nothing_when_it_goes() -> None:
    pending = PendingRequests()
    assert pending.discard("per_1") is pending


keys = st.tuples(st.integers(0, 9), st.integers(0, 9))


@given(st.lists(st.tuples(st.booleans(), keys)), keys)
def test_keys_stay_in_order_whatever_is_added_and_taken_out(
    made: list[tuple[bool, tuple[int, int]]], least: tuple[int, int]
) -> None:
    found: SortedKeys[tuple[int, int]] = SortedKeys()
    plain = set[tuple[int, int]]()
    for adds, key in made:
        before = list(found)
        after = found.add(key) if adds else found.discard(key)
        assert list(found) == before, "a change leaves the set that it was made from"
        found = after
        plain = plain | {key} if adds else plain - {key}
    assert list(found) == sorted(plain)
    assert found.first() == min(plain, default=None)
    assert list(found.since(least)) == [key for key in sorted(plain) if key >= least]
    rebuilt: SortedKeys[tuple[int, int]] = SortedKeys()
    for key in sorted(plain):
        rebuilt = rebuilt.add(key)
    assert rebuilt == found, "the shape depends on the keys alone"

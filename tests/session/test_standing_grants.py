"""The grants in force, found by an index: the same as a walk over all grants tells, at any time and for any call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ledger.core.events import Actor, Granted, GrantedDetail, Revoked
from ledger.core.grants import (
    Grants,
    Recorded,
    StandingGrant,
    TakenUse,
    Taker,
    add_granted,
    add_uses,
    in_force,
    mark_imported,
    mark_redacted,
    mark_revoked,
)
from ledger.core.standing import Standing, kept, named

ANN: Final = Actor("user", "ann")
DAY_MS: Final = 24 * 60 * 60 * 1000
IDS: Final = tuple(f"grn_{number}" for number in range(8))
TEXTS: Final = ("git push", "git pull", "npm test")
TAKERS: Final = (None, Taker("ses_1", "per_1"), Taker("ses_1", "per_2", ("", "claim")), Taker("ses_2", "per_1"))

ids = st.sampled_from(IDS)
spans = st.sampled_from([0, 1, 5, DAY_MS, 3 * DAY_MS])
steps = st.one_of(
    st.tuples(
        st.just("grant"),
        ids,
        st.sampled_from([*TEXTS, "git *", "*", "npm*"]),
        st.none() | spans,
        st.none() | st.integers(1, 2),
    ),
    st.tuples(st.just("revoke"), ids),
    st.tuples(st.just("use"), ids, st.sampled_from([one for one in TAKERS if one is not None])),
    st.tuples(st.just("redact"), st.integers(1, 20)),
    st.tuples(st.just("import")),
    st.tuples(st.just("wait"), spans),
)


def history(made: Sequence[tuple[object, ...]]) -> tuple[Grants, int]:
    """Return the grants after these steps, and the time of the last one."""
    grants, now_ms = Grants(), 0
    for version, step in enumerate(made, 1):
        match step:
            case ("grant", str(grant_id), str(pattern), lifetime_ms, uses):
                assert lifetime_ms is None or isinstance(lifetime_ms, int)
                assert uses is None or isinstance(uses, int)
                event = Granted(
                    grant_id=grant_id,
                    permission="bash",
                    scope="session",
                    expires_in_ms=lifetime_ms,
                    uses=uses,
                    detail=GrantedDetail(pattern),
                )
                grants = add_granted(grants, Recorded(event, ANN, now_ms, version, "evt"), event, "session")
            case ("revoke", str(grant_id)):
                revoked = Revoked(grant_id=grant_id)
                grants = mark_revoked(grants, Recorded(revoked, ANN, now_ms, version, "evt"), revoked)
            case ("use", str(grant_id), Taker() as taker):
                use = TakenUse(taker.session, taker.request_id, taker.claim_ids[-1], now_ms)
                grants = add_uses(grants, (grant_id,), use)
            case ("redact", int(gone)):
                grants = mark_redacted(grants, frozenset({gone}))
            case ("import",):
                grants = mark_imported(grants)
            case ("wait", int(span)):
                now_ms += span
            case _:
                raise AssertionError(step)
    return grants, now_ms


def walked(grants: Grants, now_ms: int, taker: Taker | None) -> list[StandingGrant]:
    counting = [grant for grant in grants.values() if grant.counts(now_ms, taker)]
    return sorted(counting, key=lambda grant: (grant.version, grant.grant_id))


@given(st.lists(steps, max_size=25), st.lists(steps, max_size=10), st.sampled_from(TAKERS), spans)
def test_standing_grants_are_those_of_a_walk(
    own_steps: list[tuple[object, ...]], shared_steps: list[tuple[object, ...]], taker: Taker | None, later_ms: int
) -> None:
    own, own_ms = history(own_steps)
    shared, shared_ms = history(shared_steps)
    now_ms = max(own_ms, shared_ms) + later_ms
    every = walked(own, now_ms, taker) + walked(shared, now_ms, taker)
    standing = Standing((own, shared), now_ms, taker)
    assert list(standing) == every
    assert list(in_force(own, now_ms, taker)) == walked(own, now_ms, taker)
    assert standing.named(IDS[:4]) == [one for one in every if one.grant_id in IDS[:4]]
    assert named(every, IDS[:4]) == standing.named(IDS[:4])
    free = standing.where(lambda grant: grant.uses is None)
    assert list(free) == list(kept(every, lambda grant: grant.uses is None))
    assert standing.has_limited or list(free) == every
    for text in TEXTS:
        found = standing.about((text,))
        matching = [one for one in every if one.pattern in (text, "git *", "*", "npm*")]
        if text.startswith("npm"):
            matching = [one for one in matching if one.pattern != "git *"]
        else:
            matching = [one for one in matching if one.pattern != "npm*"]
        assert [one for one in found if one in matching] == matching, "all that match are found, in order"
        # By identity: a grant of the session may be equal to one of the project.
        in_found = {id(one) for one in found}
        assert [one for one in every if id(one) in in_found] == found, "only what is in force is found"
        assert free.about((text,)) == [one for one in found if one.uses is None]


@given(st.lists(steps, max_size=25), spans, spans)
def test_an_expiry_between_two_times_is_found_without_a_walk(
    made: list[tuple[object, ...]], after_ms: int, span_ms: int
) -> None:
    grants, _ = history(made)
    until_ms = after_ms + span_ms
    expected = any(one.expires_ms is not None and after_ms < one.expires_ms <= until_ms for one in grants.values())
    assert grants.expires_between(after_ms, until_ms) == expected


@given(st.lists(steps, max_size=25))
def test_grants_made_of_a_snapshot_find_the_same(made: list[tuple[object, ...]]) -> None:
    grants, now_ms = history(made)
    again = Grants.of(grants.values())
    assert again == grants
    assert again.has_limited == grants.has_limited
    for taker in TAKERS:
        for text in TEXTS:
            wanted = [one for one in grants.about((text,), now_ms, taker) if one.pattern == text]
            assert [one for one in again.about((text,), now_ms, taker) if one.pattern == text] == wanted


def test_grants_that_expired_days_ago_are_no_longer_tried() -> None:
    steps = [
        step for number in range(8) for step in (("grant", f"grn_{number}", "git push", 5, None), ("wait", 3 * DAY_MS))
    ]
    grants, _ = history(steps)
    tried = list(grants._index.about(("git push",)))
    assert len(tried) == 2, "the newest under each of both words"
    assert set(grants) == set(IDS), "they stay known"

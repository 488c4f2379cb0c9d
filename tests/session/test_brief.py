"""Payloads leave out what the session says already, and every reader has the whole event all the same."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ledger.core import codec
from ledger.core.events import Actor, Asked, AskedDetail, Claimed, Event, Settings
from ledger.core.policy import Evaluation, Part, RuleRef, Verdict
from ledger.session.brief import fill_in, shortened
from ledger.session.state import SessionState
from tests.support.rows import every
from tests.support.salts import SALT

DIGEST: Final = "ab" * 32
POLICY: Final = "cd" * 32
STATE: Final = SessionState(session_id="ses_1", policy_digest=POLICY, settings=Settings())
ASK, ALLOW = RuleRef("bash * ask"), RuleRef("bash git * allow")
PARTS: Final = (Part("npm test", Verdict.ASK, (ASK,)), Part("git show", Verdict.ALLOW, (ALLOW,)))
PENDING: Final = Asked(
    request_id="r1",
    permission="bash",
    verdict=Verdict.ASK,
    digest=DIGEST,
    policy_digest=POLICY,
    tier="unattended",
    duration_ms=Settings().unattended_ms,
    unattended_ms=Settings().unattended_ms,
    cap_ms=Settings().cap_ms,
    project_version=0,
    detail=AskedDetail(salt=SALT, patterns=("npm test",), evaluation=Evaluation(Verdict.ASK, PARTS, (ASK,))),
)
PLAIN: Final = Evaluation(Verdict.ASK, (Part("npm test", Verdict.ASK, (ASK,)),), (ASK,))
PLAINLY_ASKED: Final = replace(PENDING, detail=AskedDetail(salt=SALT, patterns=("npm test",), evaluation=PLAIN))
CLAIMED: Final = Claimed(request_id="r1", claim_id="clm_1", runner="w", policy_digest=POLICY)

REPEATED: Final = (b"policy_digest", b"duration_ms", b"unattended_ms", b"cap_ms", b"project_version", DIGEST.encode())


def written(event: Event, state: SessionState = STATE) -> codec.EntryFields:
    return codec.encode(
        shortened(event, state), event_id="evt_1", prev="0" * 64, actor=Actor("agent", "claude"), salt=SALT
    )


def read(fields: codec.EntryFields, state: SessionState | None = STATE) -> Any:
    event: Any = codec.decode(*fields).event
    fill_in(event, state)
    return event


def test_what_the_session_says_is_in_no_payload_and_in_every_event() -> None:
    payload, content = written(PENDING)
    assert [name for name in REPEATED if name in payload] == []
    assert content is not None
    assert content.count(b"bash * ask") == 1
    assert read((payload, content)) == PENDING
    assert b"policy_digest" not in written(CLAIMED)[0]
    assert read(written(CLAIMED)) == CLAIMED


@every(
    "event",
    [
        replace(PENDING, policy_digest="ef" * 32),
        replace(PENDING, policy_digest=""),
        replace(PENDING, tier="attended"),
        replace(PENDING, tier="attended", duration_ms=Settings().attended_ms),
        replace(PENDING, duration_ms=None),
        replace(PENDING, cap_ms=None, unattended_ms=5),
        replace(PENDING, project_version=None),
        replace(PENDING, project_version=7),
        replace(PENDING, digest="of an older version"),
        replace(PENDING, detail=None),
        replace(PENDING, detail=AskedDetail(salt=SALT, evaluation=Evaluation(Verdict.ASK, PARTS))),
        replace(PENDING, detail=AskedDetail(salt=SALT, evaluation=Evaluation(Verdict.ASK, PARTS, (ALLOW, ASK)))),
        replace(PENDING, detail=AskedDetail(salt=SALT, evaluation=Evaluation(Verdict.ASK, reason="no rule"))),
        replace(PENDING, detail=AskedDetail(salt=SALT, patterns=("a",), evaluation=PLAIN)),
        replace(PENDING, detail=AskedDetail(salt=SALT, patterns=("npm test", "a"), evaluation=PLAIN)),
        replace(PENDING, detail=AskedDetail(salt=SALT, patterns=("npm test",), evaluation=replace(PLAIN, reason="no"))),
        replace(PENDING, verdict=Verdict.DENY, detail=PLAINLY_ASKED.detail),
        Asked(request_id="r1", permission="bash", verdict=Verdict.DENY, digest=DIGEST, policy_digest=POLICY),
        replace(CLAIMED, policy_digest="ef" * 32),
        replace(CLAIMED, policy_digest=""),
        replace(CLAIMED, project_version=0),
    ],
)
@every(
    "state",
    [STATE, SessionState(session_id="ses_1"), replace(STATE, settings=Settings(unattended_ms=None, cap_ms=None))],
)
def test_every_event_is_read_as_it_was_decided(event: Event, state: SessionState) -> None:
    assert read(written(event, state), state) == event


def test_an_evaluation_that_says_no_more_than_its_rules_is_written_as_these() -> None:
    fields = written(PLAINLY_ASKED)
    assert fields[1] is not None
    assert (fields[1].count(b"npm test"), b"evaluation" in fields[1]) == (1, False)
    assert read(fields) == PLAINLY_ASKED
    assert read(fields, None).detail == PLAINLY_ASKED.detail


def test_without_the_state_an_event_says_that_it_is_not_whole() -> None:
    found = read(written(PENDING), None)
    assert (found.brief, found.policy_digest, found.cap_ms) == (True, "", None)
    assert (found.digest, found.project_version, found.detail.evaluation.rules) == (DIGEST, 0, (ASK,))


def test_without_its_content_an_event_still_has_its_deadline() -> None:
    payload, _ = written(PENDING)
    found = read((payload, None))
    assert found == replace(PENDING, detail=None)

"""Every event has one sentence, which all readers show, and none grows beyond a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

import pytest

from ledger.core.codec import NewerEvent
from ledger.core.event_shapes import MessageDetail, Notification
from ledger.core.events import (
    Actor,
    Agreed,
    Asked,
    AskedDetail,
    Cancelled,
    Cause,
    Claimed,
    ClaimReleased,
    ClientConnected,
    ClientDisconnected,
    DeadlineMoved,
    EndUnknown,
    Event,
    Expired,
    Frozen,
    GrantBounds,
    Granted,
    GrantedDetail,
    HoldLifted,
    HoldPlaced,
    Imported,
    LinkKeyReplaced,
    LockPassed,
    LockRequested,
    LockTaken,
    LogRegressed,
    NotificationsChosen,
    Opinion,
    PasskeyRegistered,
    PasskeyRemoved,
    PasskeyUsed,
    PolicyChanged,
    Presence,
    PushEnded,
    PushSubscribed,
    PushUsed,
    ReasonDetail,
    Redacted,
    Reopened,
    ReopenedDetail,
    Replied,
    RepliedDetail,
    Revoked,
    RulesStored,
    ServicesNamed,
    SessionClosed,
    SessionOpened,
    TokenCreated,
    TokenRedeemed,
    TokenRevoked,
    ToolFinished,
    Unfrozen,
    UseTaken,
)
from ledger.core.grants import Recorded
from ledger.core.policy import Evaluation, RuleRef, Verdict
from ledger.log.history import LoggedEvent, logged
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from ledger.session.would_run import LINE_CHARS
from ledger.stores.port import StreamKey
from projections.sentences import line_of, sentence_of
from tests.support.rows import every
from workers.cli.log import event_line
from workers.demo.show import Story
from workers.presentation.timeline import TimelineFold

AGENT: Final = Actor("agent", "claude")
KEY: Final = StreamKey("session", "ses_1")
NOTHING: Final = SessionState(session_id="ses_1")
EVERY_MS: Final = 60_000
WHY: Final = ReasonDetail(reason="too wide")


def _asked(
    request_id: str, verdict: Verdict, evaluation: Evaluation | None = None, *, grants: tuple[str, ...] = ()
) -> Asked:
    return Asked(
        request_id=request_id,
        permission="bash",
        verdict=verdict,
        digest="",
        policy_digest="",
        tier="attended" if verdict is Verdict.ASK else None,
        duration_ms=EVERY_MS if verdict is Verdict.ASK else None,
        grants=grants,
        detail=AskedDetail(patterns=("make",), cwd="/srv", evaluation=evaluation),
    )


BEFORE: Final[tuple[Event, ...]] = (
    SessionOpened(policy_digest="d1"),
    ClientConnected(client_id="phone", name="ann"),
    _asked("r1", Verdict.ASK),
    Granted(grant_id="grn_1", permission="bash", scope="session", detail=GrantedDetail("git *")),
)
"""The events before each one of the table."""

BY_RULE: Final = Evaluation(Verdict.DENY, rules=(RuleRef("bash rm * deny"), RuleRef("bash * ask")))
BY_DEFAULT: Final = Evaluation(Verdict.ASK, reason="no rule matches, and the default is ask")

SENTENCES: Final[list[tuple[Event, str]]] = [
    (SessionOpened(policy_digest="d"), "claude opened the session"),
    (
        SessionOpened(project="shop", agent="build", policy_digest="d", policy_source="opencode.json"),
        "claude opened the session in project shop for build, with the rules of `opencode.json`",
    ),
    (PolicyChanged(policy_digest="d1"), "claude changed the settings of the session"),
    (
        PolicyChanged(policy_digest="0123456789abcdef", policy_source="x.json"),
        "claude changed the rules of the session to those of `x.json`, digest 0123456789ab",
    ),
    (_asked("r2", Verdict.ALLOW), "claude asked for bash `make` in `/srv`: allowed"),
    (
        _asked("r2", Verdict.ALLOW, grants=("grn_1",)),
        "claude asked for bash `make` in `/srv`: allowed by claude's grant of bash `git *`",
    ),
    (
        _asked("r2", Verdict.ALLOW, grants=("grn_9",)),
        "claude asked for bash `make` in `/srv`: allowed by a grant of the project",
    ),
    (
        _asked("r2", Verdict.DENY, BY_RULE),
        "claude asked for bash `make` in `/srv`: denied by rule `bash rm * deny`, `bash * ask`",
    ),
    (
        _asked("r2", Verdict.ASK, BY_DEFAULT),
        (
            "claude asked for bash `make` in `/srv`: needs an answer (no rule matches, and the default is ask), "
            "waits for 60s (attended)"
        ),
    ),
    (
        _asked("r2", Verdict.ASK, Evaluation(Verdict.ASK, rules=(RuleRef("bash * ask"),))),
        "claude asked for bash `make` in `/srv`: needs an answer (rule `bash * ask`), waits for 60s (attended)",
    ),
    (
        Reopened(request_id="r1", verdict=Verdict.ASK),
        "the project's grants changed: bash `make` is no longer allowed, waits without a deadline",
    ),
    (
        Reopened(request_id="r1", verdict=Verdict.DENY),
        "the project's grants changed: bash `make` is no longer allowed, denied",
    ),
    (
        Reopened(
            request_id="r1",
            verdict=Verdict.ASK,
            duration_ms=EVERY_MS,
            round=2,
            cause="age",
            detail=ReopenedDetail(BY_DEFAULT, reason="it was allowed more than 60 seconds ago"),
        ),
        "bash `make` is no longer allowed: it was allowed more than 60 seconds ago; waits for 60s in round 2",
    ),
    (
        Reopened(
            request_id="r1",
            verdict=Verdict.DENY,
            cause="rules",
            detail=ReopenedDetail(BY_RULE, reason="the current rules deny it (`bash rm * deny`)"),
        ),
        "bash `make` is no longer allowed: the current rules deny it (`bash rm * deny`); denied",
    ),
    (
        Claimed(request_id="r1", claim_id="clm_1", runner="worker-2", policy_digest=""),
        "worker-2 claimed bash `make` and may run it",
    ),
    (
        ClaimReleased(request_id="r1", claim_id="clm_1", detail=WHY),
        "claude released the claim of bash `make`, which may be claimed again: too wide",
    ),
    (
        EndUnknown(request_id="r1", claim_id="clm_1", cause="claim_timeout"),
        "bash `make` may have run: its time to run passed without a recorded end",
    ),
    (
        EndUnknown(request_id="r1", claim_id="clm_1", cause="session_closed"),
        "bash `make` may have run: the session was closed without a recorded end",
    ),
    (
        EndUnknown(request_id="r1", claim_id="clm_1", cause="agent_ended"),
        "bash `make` may have run: the agent ended without a recorded end",
    ),
    (Agreed(request_id="r1", digest="d", needed=3), "claude approved bash `make`, 1 of 3 people"),
    (
        Agreed(request_id="r1", digest="d", detail=MessageDetail("looks right")),
        "claude approved bash `make`, 1 of 2 people: looks right",
    ),
    (Replied(request_id="r1", reply="once", outcome="allowed"), "claude allowed bash `make` (once)"),
    (
        Replied(request_id="r1", reply="once", outcome="allowed", approvers=("ann", "bob", "claude")),
        "ann, bob and claude allowed bash `make` (once)",
    ),
    (
        Replied(request_id="r1", reply="once", outcome="allowed", told="editor"),
        "claude (told, not seen: answered at editor) allowed bash `make` (once)",
    ),
    (
        Replied(
            request_id="r1",
            reply="always",
            outcome="allowed",
            scope="project",
            detail=RepliedDetail(patterns=("make *",)),
        ),
        "claude allowed bash `make` (always), remembered for the project: `make *`",
    ),
    (
        Replied(request_id="r1", reply="always", outcome="allowed", cause=Cause("cascade", request_id="r0")),
        "claude allowed bash `make` (always, following r0)",
    ),
    (
        Replied(request_id="r1", reply="once", outcome="denied"),
        "claude allowed bash `make` (once), but the current rules deny it",
    ),
    (
        Replied(request_id="r1", reply="always", outcome="allowed", cause=Cause("grant", grant_id="grn_1")),
        "a grant now allows bash `make`",
    ),
    (
        Replied(request_id="r1", reply="always", outcome="denied", cause=Cause("grant", grant_id="grn_1")),
        "a grant now allows bash `make`, but the current rules deny it",
    ),
    (Replied(request_id="r1", reply="reject", outcome="rejected"), "claude rejected bash `make`"),
    (
        Replied(request_id="r1", reply="reject", outcome="corrected", detail=RepliedDetail(message="use tox")),
        "claude rejected bash `make`: use tox",
    ),
    (
        Granted(
            grant_id="grn_2",
            permission="edit",
            scope="project",
            expires_in_ms=2 * EVERY_MS,
            detail=GrantedDetail("src/*", "refactoring"),
        ),
        "claude granted edit `src/*` to the project for 2m: refactoring",
    ),
    (
        Granted(
            grant_id="grn_3",
            permission="edit",
            scope="project",
            expires_in_ms=2 * EVERY_MS,
            uses=5,
            wider=True,
            detail=GrantedDetail("src/*"),
        ),
        "claude granted edit `src/*` to the project for 2m, for 5 calls, wider than offered",
    ),
    (
        UseTaken(grant_id="grn_3", session="ses_2", request_id="r9"),
        "request r9 of session ses_2 took a use of grn_3",
    ),
    (
        Replied(
            request_id="r1",
            reply="always",
            outcome="allowed",
            scope="project",
            grants=("grn_4",),
            bounds=GrantBounds(EVERY_MS, 1),
            detail=RepliedDetail(None, ("git *",)),
        ),
        "claude allowed bash `make` (always), remembered for the project for 60s, for 1 call: `git *`",
    ),
    (Revoked(grant_id="grn_1", detail=WHY), "claude revoked the grant of bash `git *`: too wide"),
    (Revoked(grant_id="grn_9"), "claude revoked the grant of grn_9"),
    (
        DeadlineMoved(request_id="r1", tier="attended", duration_ms=286_001, reason="typing"),
        "claude extended bash `make` by writing on it: it waits for 287s more",
    ),
    (
        DeadlineMoved(request_id="r1", tier="attended", duration_ms=286_000, reason="open_card"),
        "claude extended bash `make` by reading it: it waits for 286s more",
    ),
    (
        DeadlineMoved(request_id="r1", tier="attended", duration_ms=360_000, reason="by_hand"),
        "claude extended bash `make`: it waits for 6m more",
    ),
    (
        DeadlineMoved(request_id="r1", tier="unattended", duration_ms=7 * 86_400_000, present=()),
        "no client is connected any more: bash `make` waits for 7d (unattended)",
    ),
    (
        DeadlineMoved(request_id="r1", tier="unattended", duration_ms=7 * 86_400_000),
        "no client is known to be connected: bash `make` waits for 7d (unattended)",
    ),
    (
        Expired(
            request_id="r1",
            tier="attended",
            duration_ms=EVERY_MS,
            present=(Presence("desk", "bob"), Presence("phone", "ann"), Presence("tablet", "ann")),
        ),
        "nobody answered bash `make` in 60s: it expired, connected: bob, ann",
    ),
    (
        Expired(request_id="r1", tier="attended", duration_ms=EVERY_MS),
        "nobody answered bash `make` in 60s: it expired",
    ),
    (
        Cancelled(request_id="r1", cause="asker_gave_up", detail=WHY),
        "bash `make` was cancelled: the agent gave up waiting: too wide",
    ),
    (ClientConnected(client_id="desk", name="bob"), "bob connected"),
    (ClientDisconnected(client_id="phone", cause="left"), "ann left"),
    (ClientDisconnected(client_id="phone", cause="lease"), "ann lost connection"),
    (ClientDisconnected(client_id="desk", cause="lease"), "desk lost connection"),
    (LockTaken(client_id="phone"), "claude took the input lock"),
    (
        LockRequested(client_id="phone", duration_ms=5000),
        "claude requested the input lock, which passes in 5s",
    ),
    (LockPassed(holder="phone", to="desk", cause="given"), "the input lock passed from ann to desk"),
    (LockPassed(holder="phone", to=None, cause="disconnect"), "the input lock passed from ann to nobody"),
    (
        Notification(request_id="r1", service="ntfy", result="sent", person="ann", step=0),
        "ann was told of bash `make` by ntfy",
    ),
    (
        Notification(request_id="r1", service="ntfy", result="failed", person="ann", step=0),
        "ann could not be told of bash `make` by ntfy",
    ),
    (
        Notification(request_id="r1", service="ntfy", result="failed", person="ann"),
        "ann could not be told how bash `make` ended by ntfy",
    ),
    (
        Notification(request_id="r1", service="ntfy", result="withdrawn", person="ann"),
        "ann was told how bash `make` ended by ntfy",
    ),
    (
        Notification(request_id="r9", service="ntfy", result="sent"),
        "a notification by ntfy about request r9 was sent",
    ),
    (ToolFinished(request_id="r1"), "bash `make` ran"),
    (ToolFinished(request_id="r1", as_asked=False), "bash `make` ran, but not as asked"),
    (ToolFinished(call_id="call_1", ok=False), "tool call call_1 failed"),
    (LogRegressed(seen_id="9-9", found_id="8-8"), "the server lost events: 9-9 had been read, 8-8 was found"),
    (Imported(versions=4, hash="h"), "claude imported the 4 events before this from a file"),
    (
        Imported(versions=4, hash="h", in_force_count=2),
        "claude imported the 4 events before this from a file, with 2 grants in force",
    ),
    (Redacted(versions=(2,), detail=WHY), "claude redacted the content of version 2: too wide"),
    (
        Redacted(versions=tuple(range(2, 14))),
        "claude redacted the content of versions 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more",
    ),
    (SessionClosed(detail=ReasonDetail("done")), "claude closed the session: done"),
    (
        TokenCreated(token_id="tok_1", name="ci", role="agent", digest="d"),
        "claude created a token for ci, role agent",
    ),
    (TokenRedeemed(token_id="tok_1"), "claude signed in with tok_1"),
    (TokenRevoked(token_id="tok_1", detail=WHY), "claude revoked tok_1: too wide"),
    (LinkKeyReplaced(), "claude ended all answer links"),
    (Frozen(detail=ReasonDetail(reason="a leak")), "claude froze everything: a leak"),
    (Frozen(project="shop"), "claude froze project shop"),
    (Unfrozen(project="shop", detail=ReasonDetail(reason="found")), "claude ended the freeze of project shop: found"),
    (
        HoldPlaced(project="shop", detail=ReasonDetail(reason="case 7")),
        "claude placed a legal hold on project shop: case 7",
    ),
    (RulesStored(dialect="betcode"), "claude stored rules of the dialect betcode"),
    (HoldLifted(session="ses_1"), "claude lifted the legal hold of session ses_1"),
    (
        Replied(request_id="r1", reply="once", outcome="allowed", cause=Cause(kind="unfrozen")),
        "the freeze ended: bash `make` is allowed",
    ),
    (
        PasskeyRegistered(person="ann", credential_id="key_1", public_key="k", rp_id="x"),
        "claude registered a passkey of ann",
    ),
    (PasskeyRemoved(credential_id="key_1"), "claude removed the passkey key_1"),
    (PasskeyUsed(credential_id="key_1", nonce="n", until_ms=0), "claude signed with the passkey key_1"),
    (
        PushSubscribed(device_id="dev_1", person="ann", endpoint="e", p256dh="k", auth="a", token_id="tok_1"),
        "claude enabled push messages for ann on device dev_1",
    ),
    (PushUsed(device_id="dev_1"), "device dev_1 was sent a push message"),
    (
        PushEnded(device_id="dev_1", cause="removed", detail=ReasonDetail(reason="lost")),
        "claude ended push messages on device dev_1: lost",
    ),
    (PushEnded(device_id="dev_1", cause="gone"), "the push service does not know device dev_1 any more"),
    (NotificationsChosen(person="ann"), "claude changed the notifications of ann"),
    (ServicesNamed(services={"ann": ("ntfy",)}), "a notifier named the services of 1 people"),
]


def _recorded(event: Event | NewerEvent, version: int = 1, actor: Actor = AGENT) -> Recorded:
    return Recorded(event, actor, version * 1000, version, f"evt_{version}")


def _history(event: Event) -> list[LoggedEvent]:
    return [logged(KEY, _recorded(one, version)) for version, one in enumerate((*BEFORE, event), 1)]


def _of_timeline(event: Event) -> str:
    state = NOTHING
    for version, one in enumerate(BEFORE, 1):
        state = evolve(state, _recorded(one, version))
    text: str = line_of(_recorded(event, len(BEFORE) + 1), state)["text"]
    return text


def _of_log(event: Event) -> str:
    fold = TimelineFold(KEY.id)
    return [event_line(one, fold.line(one)) for one in _history(event)][-1]


def _of_demo(event: Event) -> str | None:
    story = Story(KEY.id)
    line = [story.tell(one) for one in _history(event)][-1]
    return None if line is None else line.text


READERS: Final[dict[str, Callable[[Event], str | None]]] = {
    "timeline": _of_timeline,
    "log and replay": _of_log,
    "demo": _of_demo,
}


def test_the_table_holds_every_type_of_event() -> None:
    assert {type(event) for event, _ in SENTENCES} == set(get_args(Event))


@every("reader", READERS)
@every(("event", "sentence"), SENTENCES)
def test_every_reader_tells_an_event_in_the_same_sentence(event: Event, sentence: str, reader: str) -> None:
    shown = READERS[reader](event)
    if shown is None:
        assert type(event) in (Granted, LockPassed, LockRequested, LockTaken, ToolFinished), "the demo leaves these out"
    elif reader == "timeline":
        assert shown == sentence
    else:
        assert shown.endswith(sentence.removeprefix("claude "))


def test_a_line_of_the_log_names_the_actor_and_the_object() -> None:
    parts = _of_log(Replied(request_id="r1", reply="once", outcome="allowed")).split("  ")
    assert [part.strip() for part in parts if part.strip()] == [
        "5", "1970-01-01T00:00:05.000Z", "replied", "claude", "r1", "allowed bash `make` (once)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("event", "of"),
    [
        (Granted(grant_id="grn_2", permission="bash", scope="session"), "grn_2"),
        (ClientDisconnected(client_id="phone", cause="left"), "phone"),
        (ToolFinished(call_id="call_1"), "call_1"),
        (SessionClosed(), "-"),
    ],
)
def test_the_object_of_an_event_is_its_request_grant_client_or_call(event: Event, of: str) -> None:
    assert f"  claude  {of}  " in _of_log(event)


def test_a_decider_after_the_rules_is_named() -> None:
    evaluation = Evaluation(Verdict.ASK, rules=(RuleRef("bash * ask"),))
    opinions = (Opinion("scanner", Verdict.DENY, "a secret"), Opinion("other"))
    detail = AskedDetail(patterns=("make",), evaluation=evaluation, opinions=opinions)
    asked = Asked(request_id="r2", permission="bash", verdict=Verdict.DENY, digest="", policy_digest="", detail=detail)
    assert sentence_of(_recorded(asked), NOTHING) == "claude asked for bash `make`: denied by scanner"


def test_a_long_command_is_cut() -> None:
    detail = AskedDetail(patterns=("x" * 70_000,))
    asked = Asked(request_id="r1", permission="bash", verdict=Verdict.ALLOW, digest="", policy_digest="", detail=detail)
    text = sentence_of(_recorded(asked), NOTHING)
    assert text == f"claude asked for bash `{'x' * (LINE_CHARS - 1)}… (69802 more characters): allowed"
    assert sentence_of(_recorded(asked), NOTHING, None) == f"claude asked for bash `{'x' * 70_000}`: allowed"


def test_an_event_of_a_newer_version_is_named_as_such() -> None:
    newer = _recorded(NewerEvent(schema=9, event_type="what"))
    assert sentence_of(newer, NOTHING) == "an event of a newer version of this software"


def test_what_an_agent_or_its_person_wrote_is_revealed_in_a_line() -> None:
    told = Replied(
        request_id="r1", reply="reject", outcome="corrected", detail=RepliedDetail(message="\u202eno\n\x1b[2J")
    )
    assert _of_log(told).endswith(r"rejected bash `make`: \u202eno⏎\x1b[2J")

"""Every event has a sentence, and none grows beyond a line."""

from __future__ import annotations

from typing import get_args

import pytest

from ledger.core.codec import NewerEvent
from ledger.core.events import Actor, Asked, AskedDetail, Event, Notification
from ledger.core.grants import Recorded
from ledger.core.policy import Verdict
from ledger.session.state import SessionState
from projections.sentences import _SENTENCES, QUOTED_CHARS, sentence_of

AGENT = Actor("agent", "claude")
NOTHING = SessionState(session_id="ses_1")


@pytest.mark.parametrize("event", get_args(Event), ids=lambda event: event.__name__)
def test_every_event_has_a_sentence(event: type) -> None:
    assert event in _SENTENCES


def test_a_long_command_is_cut() -> None:
    asked = Asked(
        request_id="r1",
        permission="bash",
        verdict=Verdict.ALLOW,
        digest="",
        policy_digest="",
        detail=AskedDetail(patterns=("x" * 70_000,)),
    )
    text = sentence_of(Recorded(asked, AGENT, 0, 1, "evt_1"), NOTHING)
    assert text == f"claude asked for bash `{'x' * (QUOTED_CHARS - 1)}… (69802 more characters): allowed by the rules"


def test_a_request_is_told_with_its_folder() -> None:
    detail = AskedDetail(patterns=("make",), cwd="/srv/production")
    asked = Asked(request_id="r1", permission="bash", verdict=Verdict.DENY, digest="", policy_digest="", detail=detail)
    text = sentence_of(Recorded(asked, AGENT, 0, 1, "evt_1"), NOTHING)
    assert text == "claude asked for bash `make` in `/srv/production`: denied"


def test_an_event_of_a_newer_version_is_named_as_such() -> None:
    newer = Recorded(NewerEvent(schema=9, event_type="what"), AGENT, 0, 1, "evt_1")
    assert sentence_of(newer, NOTHING) == "an event of a newer version of this software"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            Notification(request_id="r1", service="ntfy", result="sent", person="ann", step=0),
            "ann was told of request r1 by ntfy",
        ),
        (
            Notification(request_id="r1", service="ntfy", result="failed", person="ann", step=0),
            "ann could not be told of request r1 by ntfy",
        ),
        (
            Notification(request_id="r1", service="ntfy", result="failed", person="ann"),
            "ann could not be told how request r1 ended by ntfy",
        ),
        (
            Notification(request_id="r1", service="ntfy", result="withdrawn", person="ann"),
            "ann was told how request r1 ended by ntfy",
        ),
        (
            Notification(request_id="r1", service="ntfy", result="sent"),
            "a notification by ntfy about request r1 was sent",
        ),
    ],
)
def test_a_notification_says_who_was_told_what(event: Notification, said: str) -> None:
    assert sentence_of(Recorded(event, AGENT, 0, 1, "evt_1"), NOTHING) == said

"""The rules that a session names are found whatever else somebody wrote beside their name."""

from __future__ import annotations

import pytest

from ledger.stores.port import Entry, StreamKey
from workers.upkeep.stream_checks import named_rules

KEY = StreamKey("session", "ses_1")
OPENED = b'{"v":1,"event":{"type":"session_opened","policy_digest":"abc"}}'


def named_with(content: bytes | None, payload: bytes = OPENED) -> dict[str, int]:
    return named_rules(KEY, [Entry(1, 1, payload, content)])


@pytest.mark.parametrize(
    "content",
    [None, b'{"cwd":"/srv"}', b'{"policy":{"layers":[]}}', b'{"policy":', b"\xff"],
    ids=["none", "another member", "rules", "no JSON", "no text"],
)
def test_the_session_names_them_whatever_the_content_is(content: bytes | None) -> None:
    assert named_with(content) == {"abc": 1}


def test_another_spelling_of_the_event_names_them_too() -> None:
    spaced = rb'{"v":1, "event": {"type": "session_\u006fpened", "policy_digest": "abc"}}'
    assert named_with(None, spaced) == {"abc": 1}

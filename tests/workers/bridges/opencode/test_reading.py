"""Input from OpenCode, from the command line and from the ledger's rows: read strictly, and never as an allow."""

from __future__ import annotations

from typing import Any

import pytest

from workers.bridges.opencode.bridge import OpencodeOptions, run
from workers.bridges.opencode.effects import METADATA_CHARS_MAX, ask_body
from workers.bridges.opencode.request_tracker import OpencodeVerdict, verdict_of
from workers.bridges.opencode.shapes import RequestAsked, ShapeError, read_event, read_request
from workers.bridges.options import BridgeOptions
from workers.transport.place import BridgeError

REQUEST: dict[str, Any] = {
    "id": "per_1",
    "sessionID": "ses_1",
    "permission": "bash",
    "patterns": ["git push"],
    "metadata": {},
    "always": [],
}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"patterns": "git push"}, "its patterns is not a list of at most 256 texts"),
        ({"patterns": ["x"] * 257}, "its patterns is not a list of at most 256 texts"),
        ({"permission": None}, "its permission is not a text"),
        ({"metadata": []}, "its metadata is not an object"),
        ({"metadata": "x"}, "its metadata is not an object"),
        ({"tool": "x"}, "`tool` is not an object"),
        ({"tool": {"messageID": "msg_1"}}, "`callID` is not an id"),
    ],
)
def test_a_request_of_another_form_is_refused_by_name(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        read_request({**REQUEST, **changed}, None)
    assert (str(caught.value), caught.value.session, caught.value.request_id) == (text, "ses_1", "per_1")


@pytest.mark.parametrize("value", [None, [], {"id": "per_1"}, {"id": "", "sessionID": "ses_1"}, {"id": "x" * 201}])
def test_what_has_no_ids_cannot_even_be_named(value: object) -> None:
    with pytest.raises(ShapeError) as caught:
        read_request(value, None)
    assert (caught.value.session, caught.value.request_id) == (None, None)


def test_events_that_do_not_concern_permissions_are_passed_over() -> None:
    others: list[dict[str, Any]] = [
        {"type": "session.updated", "properties": {}},
        {"type": "message.part.updated", "properties": None},
        {},
    ]
    assert [read_event(one, None) for one in others] == [None, None, None]


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ({"outcome": "allowed", "updated_input": None}, OpencodeVerdict("once")),
        (
            {"outcome": "allowed", "updated_input": {"command": "ls"}},
            OpencodeVerdict(
                "reject", 'a person allowed this with another input; call the tool again with {"command": "ls"}'
            ),
        ),
        (
            {"outcome": "corrected", "feedback": "no", "message": "long", "agent": "continue"},
            OpencodeVerdict("reject", "no"),
        ),
        ({"outcome": "rejected", "message": "The user rejected", "agent": "stop"}, OpencodeVerdict("reject")),
        ({"outcome": "denied", "message": "by rule", "agent": "continue"}, OpencodeVerdict("reject", "by rule")),
        ({"outcome": "expired", "message": None, "agent": None}, OpencodeVerdict("reject", "the request was expired")),
        ({"outcome": None}, OpencodeVerdict("reject", "the request was None")),
        ({}, OpencodeVerdict("reject", "the request was None")),
    ],
)
def test_only_an_allow_of_the_input_as_asked_is_an_allow(row: dict[str, Any], verdict: OpencodeVerdict) -> None:
    assert verdict_of(row) == verdict


def test_a_diff_too_large_for_the_ledger_is_cut_and_named_by_its_digest() -> None:
    metadata = {"filepath": "a.txt", "diff": "é" * METADATA_CHARS_MAX}
    body = ask_body(RequestAsked("per_1", "ses_1", "edit", ("a.txt",), ("*",), metadata), None, "http://127.0.0.1:4096")
    assert body["metadata"]["filepath"] == "a.txt"
    assert (
        body["metadata"]["diff"]
        .partition("\n")[2]
        .startswith(f"… cut: {METADATA_CHARS_MAX} characters in all, SHA-256 ")
    )


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (OpencodeOptions(url="ftp://x"), "`ftp://x` is not the address of an opencode server"),
        (OpencodeOptions(url="unix:/x"), "`unix:/x` is not the address of an opencode server"),
        (OpencodeOptions(listen="4097"), "`4097` is not an address to listen on"),
        (OpencodeOptions(program=("opencode", "serve")), "name the port that opencode listens on"),
    ],
)
def test_what_is_wrong_with_the_words_is_told_before_anything_starts(wanted: OpencodeOptions, text: str) -> None:
    with pytest.raises(BridgeError, match=text):
        run(wanted, BridgeOptions(dialect="opencode"))

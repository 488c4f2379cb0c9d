"""The digest of a call: one function for the ledger, which has its own encoder, and for bridges and hooks."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Final

import pytest

from ledger.core.call_digests import call_digest
from ledger.core.codec import canonical_json
from tests.support.processes import ROOT
from workers.bridges.askers import digest_of

CALL: Final[dict[str, Any]] = {
    "permission": None,
    "patterns": None,
    "tool_name": "Bash",
    "tool_input": {"command": "printf 'ä\t\x1f\u2028'", "timeout": 1.5},
    "cwd": "/srv/scratch",
    "metadata": {"server": "staging"},
}
BODY: Final[dict[str, Any]] = {
    "request_id": "r1",
    "tool_name": CALL["tool_name"],
    "input": CALL["tool_input"],
    "cwd": CALL["cwd"],
    "metadata": CALL["metadata"],
    "claim": {"name": "x", "call": "r1"},
    "waits": "5ms",
}


@pytest.mark.parametrize(
    "other",
    [
        {"permission": "network"},
        {"patterns": ["*"]},
        {"tool_name": "Shell"},
        {"tool_input": {"command": "ls"}},
        {"cwd": "/srv/production"},
        {"cwd": None},
        {"metadata": {"server": "production"}},
    ],
    ids=str,
)
def test_what_decides_the_effect_of_a_call_is_in_its_digest(other: dict[str, Any]) -> None:
    assert call_digest(**CALL) != call_digest(**{**CALL, **other})


def test_both_encoders_write_the_same_bytes() -> None:
    assert call_digest(**CALL) == call_digest(**CALL, encode=canonical_json)


def test_the_body_of_an_ask_has_the_digest_of_its_call_however_it_is_asked() -> None:
    metadata = {"hook_event_name": "PreToolUse", "permission_mode": "plan", **CALL["metadata"]}
    again = {**BODY, "request_id": "r2", "waits": "9ms", "claim": {"name": "x", "call": "r2"}, "metadata": metadata}
    assert {digest_of(BODY), digest_of(again)} == {call_digest(**CALL)}


def test_a_call_that_names_no_folder_is_in_that_of_its_process() -> None:
    bare = {name: value for name, value in BODY.items() if name != "cwd"}
    assert digest_of(bare, "/srv/scratch") == digest_of(BODY) == digest_of(BODY, "/srv/production")
    assert digest_of(bare, "/srv/production") != digest_of(BODY)


def test_a_text_without_utf_8_has_a_digest() -> None:
    assert len(call_digest(**{**CALL, "tool_input": {"command": "\ud800"}})) == 64


def test_a_hook_imports_it_without_the_rest_of_the_ledger() -> None:
    program = "import sys, ledger.core.call_digests; print(*(one for one in sys.modules if one.startswith('ledger')))"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["ledger", "ledger.core", "ledger.core.call_digests"]

"""codelia.md, section 8: the result of a confirm request as a reply of the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.errors import InputError
from ledger.core.requests import parse_confirm_result


@pytest.mark.parametrize(
    ("result", "reply", "feedback"),
    [
        ({"ok": True}, "once", None),
        ({"ok": True, "remember": False}, "once", None),
        ({"ok": True, "remember": True}, "always", None),
        ({"ok": True, "remember": True, "reason": "harmless"}, "always", "harmless"),
        ({"ok": False}, "reject", None),
        ({"ok": False, "reason": "use pnpm"}, "reject", "use pnpm"),
        ({"ok": False, "remember": True}, "reject", None),
    ],
)
def test_an_answer_of_codelia_is_a_reply_with_its_feedback(
    result: dict[str, Any], reply: str, feedback: str | None
) -> None:
    assert parse_confirm_result(result) == (reply, feedback)


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"ok": 1},
        {"ok": "yes"},
        {"ok": None},
        {"ok": True, "remember": 1},
        {"ok": True, "remember": None},
        {"ok": False, "reason": 5},
        {"ok": True, "always": True},
    ],
    ids=str,
)
def test_what_is_no_answer_of_codelia_decides_nothing(result: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="a confirm result is"):
        parse_confirm_result(result)

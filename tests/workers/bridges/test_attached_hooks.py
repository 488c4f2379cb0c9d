"""A hook that waits on the request of a dead one runs the call by a claim of its own only."""

from __future__ import annotations

from typing import Any

import pytest

from workers.bridges.hooks.question import HookedCall
from workers.bridges.hooks.settings import HookSettings

RUNNER = {"name": "claude-code ses_1", "call": "r2"}


@pytest.mark.parametrize("attached", [True, False])
def test_only_a_claim_that_the_hook_asked_for_is_its_own(attached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    exchanged: list[tuple[str, Any]] = []

    def call(method: str, path: str, body: Any, *_: Any, **__: Any) -> dict[str, Any]:
        exchanged.append((path, body))
        return {"claim_id": "its own"}

    settings = HookSettings("claude")
    monkeypatch.setattr(settings.process, "call", call)
    hooked = HookedCall("ses_1", {"request_id": "r2", "operands": "ask", "claim": RUNNER}, {}, settings)
    hooked._attached = attached
    row = hooked._claimed({"request_id": "r1", "outcome": "allowed", "claim": {"claim_id": "with the ask"}})
    assert row["claim"]["claim_id"] == ("its own" if attached else "with the ask")
    wanted = [("/v1/sessions/ses_1/asks/r1/claim", {"runner": RUNNER, "operands": "ask"})]
    assert exchanged == (wanted if attached else [])

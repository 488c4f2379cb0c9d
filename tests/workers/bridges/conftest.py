from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from ledger import Ledger
from ledger.core.events import Actor, Asked
from ledger.log.archive.archive import all_streams
from ledger.log.tail import read_events
from tests.support.gateways import RunningGateway, ann, gateway, killable_gateway, no_gateway

__all__ = ["ann", "gateway", "killable_gateway", "no_gateway"]


TELL_THEIR_FOLDER: Final = ("test_bridge_claude", "test_hook_claude", "test_hooks_of_others")
"""Modules whose clients say in which folder they work."""


@pytest.fixture(autouse=True)
def every_ask_names_its_token_and_its_folder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a bridge or hook asked without its access token, or lost the folder of a call."""
    if "gateway" not in request.fixturenames:
        yield
        return
    running: RunningGateway = request.getfixturevalue("gateway")
    yield
    asked = running.with_ledger(_asked)
    assert [one for one, actor, _ in asked if actor.token_id is None] == []
    if request.module.__name__.endswith(TELL_THEIR_FOLDER):
        assert [one for one, _, folder in asked if folder is None] == []


async def _asked(ledger: Ledger) -> list[tuple[str, Actor, str | None]]:
    """The requests of all agents: id, actor and folder."""
    return [
        (event.request_id, recorded.actor, None if event.detail is None else event.detail.cwd)
        async for key in all_streams(ledger.store)
        if key.kind == "session"
        async for recorded in read_events(ledger.store, key)
        if isinstance(event := recorded.event, Asked) and recorded.actor.kind == "agent"
    ]

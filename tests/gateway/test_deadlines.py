"""The gateway's deadlines are those of sessions that state none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, Timeouts
from tests.gateway.callers import Caller, Served, served
from workers.gateway.settings import GatewaySettings


@pytest.fixture
async def gateway(ledger: Ledger, sockets: Path) -> AsyncIterator[Served]:
    settings = GatewaySettings(timeouts=Timeouts(attended=120, unattended=3600))
    async with served(ledger, sockets / "timed.sock", settings) as one:
        yield one


@pytest.fixture
async def worker(gateway: Served) -> Caller:
    return await gateway.caller("agent", "worker")


async def deadlines(gateway: Served, session: str = "ses_1") -> tuple[int | None, int | None, int | None]:
    settings = (await (await gateway.ledger.attach(session)).state()).settings
    return settings.attended_ms, settings.unattended_ms, settings.cap_ms


CAP_MS = 30 * 86_400_000


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (120_000, 3_600_000, CAP_MS)),
        ({"timeouts": {}}, (120_000, 3_600_000, CAP_MS)),
        ({"timeouts": {"unattended": "5m"}}, (120_000, 300_000, CAP_MS)),
        ({"timeouts": {"attended": "none", "cap": "1d"}}, (None, 3_600_000, 86_400_000)),
    ],
)
async def test_what_a_new_session_does_not_state_is_the_gateways(
    gateway: Served, worker: Caller, body: dict[str, Any], expected: tuple[int | None, ...]
) -> None:
    assert (await worker.put("/v1/sessions/ses_1", body)).status_code == 201
    assert await deadlines(gateway) == expected


async def test_what_is_left_out_later_stays_as_it_is(gateway: Served) -> None:
    own = await gateway.caller("agent", "own", brings_rules=True)
    await own.put("/v1/sessions/ses_1", {"timeouts": {"attended": "5s", "unattended": "10s"}})
    await own.put("/v1/sessions/ses_1")
    assert await deadlines(gateway) == (5000, 10_000, CAP_MS)
    await own.put("/v1/sessions/ses_1", {"timeouts": {"unattended": "20s"}})
    assert await deadlines(gateway) == (5000, 20_000, CAP_MS)


async def test_an_agent_that_brings_no_rules_changes_no_deadline_of_a_session_that_is_open(
    gateway: Served, worker: Caller
) -> None:
    stated = {"timeouts": {"unattended": "10s"}}
    assert (await worker.put("/v1/sessions/ses_1", stated)).status_code == 201
    assert (await worker.put("/v1/sessions/ses_1", stated)).status_code == 200, "a bridge that comes back says it again"
    refused = await worker.put("/v1/sessions/ses_1", {"timeouts": {"unattended": "none"}})
    assert (refused.status_code, refused.json()["code"]) == (403, "RULES_NOT_YOURS")
    assert await deadlines(gateway) == (120_000, 10_000, CAP_MS)

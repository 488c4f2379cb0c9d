"""The gateway's deadlines are those of sessions that state none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger import Ledger, Timeouts
from ledger.core.timeouts import RunLimits
from tests.gateway.callers import Caller, Served, in_process
from workers.gateway.settings import GatewaySettings


@pytest.fixture
async def gateway(ledger: Ledger) -> AsyncIterator[Served]:
    settings = GatewaySettings(timeouts=Timeouts(attended=120, unattended=3600))
    async with in_process(ledger, settings) as one:
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


async def run_limits(gateway: Served, session: str = "ses_1") -> tuple[int | None, int, str]:
    settings = (await (await gateway.ledger.attach(session)).state()).settings
    return settings.approval_lifetime_ms, settings.claim_timeout_ms, settings.when_frozen


HOUR_MS = 3_600_000


async def test_the_life_of_approvals_and_the_end_of_claims_are_settings_of_a_session(
    gateway: Served, worker: Caller
) -> None:
    await worker.put("/v1/sessions/ses_0")
    assert await run_limits(gateway, "ses_0") == (None, HOUR_MS, "wait")
    stated = {"approval_lifetime": "10m", "claim_timeout": "5m", "when_frozen": "deny"}
    assert (await worker.put("/v1/sessions/ses_1", stated)).status_code == 201
    assert await run_limits(gateway) == (600_000, 300_000, "deny")
    assert (await worker.put("/v1/sessions/ses_1", stated)).status_code == 200, "a bridge that comes back says it again"
    for other in ({"approval_lifetime": "none"}, {"claim_timeout": "1d"}, {"when_frozen": "wait"}):
        refused = await worker.put("/v1/sessions/ses_1", other)
        assert (refused.status_code, refused.json()["code"]) == (403, "RULES_NOT_YOURS")
    assert await run_limits(gateway) == (600_000, 300_000, "deny")


async def test_who_brings_rules_changes_the_limits_of_runs_and_lifts_that_of_approvals(gateway: Served) -> None:
    own = await gateway.caller("agent", "own", brings_rules=True)
    await own.put("/v1/sessions/ses_1", {"approval_lifetime": "10m"})
    await own.put("/v1/sessions/ses_1", {"claim_timeout": "5m"})
    assert await run_limits(gateway) == (600_000, 300_000, "wait")
    await own.put("/v1/sessions/ses_1", {"approval_lifetime": "none"})
    assert await run_limits(gateway) == (None, 300_000, "wait")


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"approval_lifetime": "0s"}, "approval_lifetime of 0 ms is out of range"),
        ({"approval_lifetime": "soon"}, "approval_lifetime `soon` is not a duration"),
        ({"claim_timeout": "none"}, "claim_timeout cannot be `none`"),
        ({"claim_timeout": "99999d"}, "is out of range"),
        ({"claim_timeout": 5}, "claim_timeout"),
        ({"when_frozen": "allow"}, "when_frozen"),
    ],
)
async def test_limits_out_of_bounds_are_refused_by_their_names(
    worker: Caller, stated: dict[str, Any], words: str
) -> None:
    refused = await worker.put("/v1/sessions/ses_1", stated)
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")
    assert words in refused.text


async def test_an_agent_that_brings_no_rules_states_no_longer_life_of_approvals_than_the_gateway(
    ledger: Ledger,
) -> None:
    settings = GatewaySettings(limits=RunLimits(approval_lifetime=600, claim_timeout=60))
    async with in_process(ledger, settings) as gateway:
        worker = await gateway.caller("agent", "worker")
        for longer in ("none", "11m"):
            refused = await worker.put("/v1/sessions/ses_1", {"approval_lifetime": longer})
            assert (refused.status_code, refused.json()["code"]) == (403, "RULES_NOT_YOURS")
            assert "serve --approval-lifetime 10m" in refused.text
        assert (await worker.put("/v1/sessions/ses_1")).status_code == 201
        assert await run_limits(gateway) == (600_000, 60_000, "wait")
        assert (await worker.put("/v1/sessions/ses_2", {"approval_lifetime": "5m"})).status_code == 201
        assert await run_limits(gateway, "ses_2") == (300_000, 60_000, "wait")

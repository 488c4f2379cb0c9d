"""An agent that was told "allowed" before a freeze, and asks again to be told so in it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.gateway.callers import Caller, Served

ALLOW: Final = [{"permission": "bash", "pattern": "*", "action": "allow"}]
ASK: Final = "/v1/sessions/ses_1/asks/r1"
RUNNER: Final = {"name": "worker", "call": "c1"}


@pytest.fixture
async def worker(gateway: Served) -> Caller:
    """An agent whose call `r1` was allowed before the freeze."""
    worker = await gateway.caller("agent", "worker", brings_rules=True)
    await worker.put("/v1/sessions/ses_1", {"project": "shop", "rules": ALLOW})
    assert (await ask(worker)).json()["outcome"] == "allowed"
    return worker


async def ask(worker: Caller, path: str = "/v1/sessions/ses_1/asks", **more: Any) -> Any:
    body = {"permission": "bash", "patterns": ["git push"], "request_id": "r1", **more}
    return await worker.post(path, body)


async def test_no_route_of_an_asker_says_allowed(worker: Caller, ann: Caller, admin_caller: Caller) -> None:
    assert (await ann.post("/v1/freeze", {"reason": "a leak"})).is_success
    told = {
        "asked again": await ask(worker),
        "asked with a claim": await ask(worker, claim=RUNNER),
        "asked and waited": await ask(worker, "/v1/sessions/ses_1/asks?wait=1"),
        "read": await worker.get(ASK),
        "read and waited": await worker.get(f"{ASK}?wait=1"),
        "claimed": await worker.post(f"{ASK}/claim", {"runner": RUNNER}),
    }
    said = {name: (one.status_code, one.json()["code"], one.json().get("outcome")) for name, one in told.items()}
    assert said == dict.fromkeys(told, (423, "FROZEN", None))
    assert (await admin_caller.delete("/v1/freeze")).is_success
    assert (await ask(worker)).json()["outcome"] == "allowed"


async def test_people_read_what_was_decided_and_the_end_of_the_run_is_recorded(worker: Caller, ann: Caller) -> None:
    assert (await ask(worker, claim=RUNNER)).is_success
    assert (await ann.post("/v1/freeze", {"reason": "a leak", "project": "shop"})).is_success
    assert (await ann.get(ASK)).json()["outcome"] == "allowed"
    assert "allowed" in (await ann.get("/v1/sessions/ses_1/timeline")).text
    ended = await worker.post(f"{ASK}/finish", {"runner": RUNNER, "ok": True})
    assert ended.status_code == 200, ended.text

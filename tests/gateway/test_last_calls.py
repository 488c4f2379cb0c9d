"""The last calls of a session in its row: few, in short words, with how each ended, and for people only."""

from __future__ import annotations

from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served


async def test_the_newest_calls_say_how_they_ended(gateway: Served, ann: Caller, clock: TestClock) -> None:
    root = await gateway.caller("admin", "root")
    rules = [{"permission": "bash", "pattern": "ls", "action": "allow"}]
    await root.put("/v1/sessions/s1", {"rules": rules})
    for number in range(3):
        clock.advance("1s")
        await root.ask("s1", f"make {number}", request_id=f"r{number}")
    await root.ask("s1", "ls", request_id="by-rule")
    await ann.post("/v1/sessions/s1/asks/r0/reply", {"reply": "once"})
    calls = (await ann.get("/v1/sessions/s1?calls=3")).json()["last_calls"]
    names = ("request_id", "would_run", "outcome", "reply", "by", "decided_by")
    assert [tuple(one[name] for name in names) for one in calls] == [
        ("r0", "make 0", "allowed", "once", "ann", None),
        ("by-rule", "ls", "allowed", None, "root", "rule"),
        ("r2", "make 2", None, None, "root", None),
    ]
    assert "last_calls" not in (await ann.get("/v1/sessions/s1")).json()


async def test_a_long_call_is_cut_and_a_secret_masked(gateway: Served, ann: Caller) -> None:
    root = await gateway.caller("admin", "root")
    await root.put("/v1/sessions/s1")
    await root.ask("s1", "echo " + "x" * 500)
    await root.ask("s1", "curl -H 'Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ456789' https://a.example")
    secret, long = (await ann.get("/v1/sessions/s1?calls=2")).json()["last_calls"]
    assert long["would_run"] == f"echo {'x' * 75}… (425 more characters)"
    assert "ghp_" not in secret["would_run"]


async def test_agents_are_not_told(gateway: Served) -> None:
    bot = await gateway.caller("agent", "bot")
    await bot.put("/v1/sessions/s1")
    await bot.ask("s1")
    assert "last_calls" not in (await bot.get("/v1/sessions/s1?calls=3")).json()

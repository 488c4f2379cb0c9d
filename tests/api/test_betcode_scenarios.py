"""The scenarios of `betcode.md`, one by one, through the API on every store, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from ledger import ClientConnection, Ledger, LedgerError, Result, Session
from ledger.testing import TestClock
from tests.api.actors import ask_and_wait
from tests.support.waiting import wait_until_async

Row: TypeAlias = dict[str, Any]

DATA: Final[Row] = json.loads((Path(__file__).parents[1] / "data" / "betcode-scenarios.json").read_text())
SCENARIOS: Final[list[Row]] = DATA["scenarios"]
SCENARIO_COUNT: Final = 24
RENEWAL_S: Final = 10


def test_all_scenarios_of_the_spec_are_here() -> None:
    ids = [scenario["id"] for scenario in SCENARIOS]
    assert (len(ids), len(set(ids))) == (SCENARIO_COUNT, SCENARIO_COUNT)
    assert Counter(scenario["feature"] for scenario in SCENARIOS) == {
        "rule matching": 10,
        "timeouts": 7,
        "reconnection": 4,
        "undefined behavior": 3,
    }


def decisions(log: list[Row]) -> Counter[str]:
    """Return how each ask was decided, counted from the log as the metric counts it."""
    labels = {"allow": "auto_allow", "deny": "auto_deny", "allowed": "user_allow"}
    counted: Counter[str] = Counter()
    for event in log:
        match event["type"]:
            case "asked" if event["verdict"] != "ask":
                counted[labels[event["verdict"]]] += 1
            case "replied":
                counted[labels.get(event["outcome"], "user_deny")] += 1
            case "expired":
                counted["timeout"] += 1
            case "cancelled":
                counted["cancelled"] += 1
            case _:
                pass
    return counted


class Daemon:
    """A scenario's session: the agent that asks, and the people's clients."""

    def __init__(self, session: Session, ledger: Ledger, clock: TestClock) -> None:
        self.session = session
        self.ledger = ledger
        self.clock = clock
        self.began_ms = clock.now_ms()
        self.clients: dict[str, ClientConnection] = {}
        self.asking: dict[str, asyncio.Task[Result]] = {}
        self.shown_again: list[str] = []
        self.answers: list[Any] = []

    async def connect(self, client: str) -> None:
        self.clients[client] = await self.session.connect(client, actor=f"person at {client}")
        replayed = self.clients[client].replayed
        assert all(one.is_replay for one in replayed)
        self.shown_again = [one.request.request_id for one in replayed]

    async def until(self, at_s: float) -> None:
        """Let time pass, with every present client renewing its lease as often as a real one."""
        end_ms = self.began_ms + round(at_s * 1000)
        while self.clients and self.clock.now_ms() + RENEWAL_S * 1000 < end_ms:
            self.clock.advance(RENEWAL_S * 1000)
            for client in self.clients.values():
                await client.renew()
        self.clock.set(end_ms)

    async def live_through(self, step: Row) -> None:
        if "at_s" in step:
            await self.until(step["at_s"])
        match step["do"]:
            case "ask":
                await self._ask(step)
            case "malformed_ask":
                await self._answered(self.session.ask("", ["*"], request_id="not an id"))
            case "connect":
                await self.connect(step["client"])
            case "disconnect":
                await self.clients.pop(step["client"]).disconnect()
            case "reply":
                await self._answered(self.clients[step["client"]].reply(step["request"], step["word"]))
            case "two_replies":
                replies = zip(step["clients"], step["words"], strict=True)
                await asyncio.gather(
                    *(self._answered(self.clients[client].reply(step["request"], word)) for client, word in replies)
                )
            case "wait":
                pass
            case other:
                raise AssertionError(other)

    async def _ask(self, step: Row) -> None:
        arguments = {
            "always": step.get("always", ()),
            "request_id": step["request"],
            "tool_name": step["tool"],
            "tool_input": step.get("input"),
        }
        asked = await self.session.submit(step["tool"], step["patterns"], **arguments)
        if asked.outcome is None:
            patterns = step["patterns"]
            self.asking[step["request"]] = await ask_and_wait(
                self.session,
                step["request"],
                *patterns,
                permission=step["tool"],
                **{name: value for name, value in arguments.items() if name != "request_id"},
            )

    async def _answered(self, call: Any) -> None:
        try:
            self.answers.append((await call).outcome)
        except LedgerError as error:
            self.answers.append({"code": error.code, "message": error.text})

    async def log(self) -> list[Row]:
        return [event.as_json()["event"] async for event in self.session.events(follow_on=False)]

    # --- expectations -----------------------------------------------------------------------------------------------

    async def check(self, expected: Row, differs: Row, caplog: pytest.LogCaptureFixture) -> None:
        match expected["that"]:
            case "told":
                await self._check_told(expected, differs)
            case "not_told":
                assert not self.asking[expected["request"]].done()
            case "shown":
                await self._check_shown(expected)
            case "pending":
                await self._check_pending(expected)
            case "to_be_pushed":
                # Nobody was present when it was asked, so the notifier sends a message.
                [request] = [(await self.session.result(one)).request for one in expected["requests"]]
                assert (request.tier, request.present) == ("unattended", ())
            case "timeouts":
                assert [event["type"] for event in await self.log()].count("expired") == expected["count"]
            case "decisions":
                assert decisions(await self.log()) == expected["counted"]
            case "granted":
                names = ("scope", "permission", "pattern", "action")
                granted = [one.as_json() for one in await self.session.approved()]
                assert [{name: one[name] for name in names} for one in granted] == expected["grants"]
            case "logged":
                assert any(message.startswith(expected["text"]) for message in caplog.messages)
            case "answered":
                assert self._answers_like(expected["results"]) == expected["results"]
            case "first_wins":
                await self._check_first_wins(expected["request"])
            case other:
                raise AssertionError(other)

    def _answers_like(self, expected: list[Any]) -> list[Any]:
        """Return the answers, reduced to the members that the scenario states."""
        assert len(self.answers) == len(expected)
        return [
            {name: got[name] for name in want} if isinstance(want, dict) else got
            for got, want in zip(self.answers, expected, strict=True)
        ]

    async def _check_told(self, expected: Row, differs: Row) -> None:
        request_id = expected["request"]
        if request_id in self.asking:
            await wait_until_async(self.asking[request_id].done, f"the agent to be told of {request_id}")
        result = await self.session.result(request_id)
        assert {"allowed": "allow"}.get(str(result.outcome), "deny") == expected["behavior"]
        error = result.error()
        assert (error is None) == (expected["behavior"] == "allow")
        if "message" in expected:
            assert error is not None
            assert error.text == differs.get("message", {}).get("here", expected["message"])
        if "reason" in expected:
            assert [reason["text"] for reason in result.reasons] == [expected["reason"]]
        if "within_ms" in expected:
            # By the server's clock; the benchmark measures the real duration of a call.
            assert result.at_ms - result.request.asked_ms <= expected["within_ms"]
        if "at_s" in expected:
            assert result.at_ms == self.began_ms + expected["at_s"] * 1000
        if expected.get("once"):
            ends = [event for event in await self.log() if event.get("request_id") == request_id]
            assert [event["type"] for event in ends if event["type"] != "asked"] == [ends[-1]["type"]]

    async def _check_shown(self, expected: Row) -> None:
        if expected.get("replay"):
            assert self.shown_again == expected["requests"]
            return
        asked = [event for event in await self.log() if event["type"] == "asked" and event["verdict"] == "ask"]
        assert [event["request_id"] for event in asked] == expected["requests"]
        if "tool" in expected:
            assert [event["tool_name"] for event in asked] == [expected["tool"]]

    async def _check_pending(self, expected: Row) -> None:
        pending = await self.session.pending()
        assert [one.request.request_id for one in pending] == expected["requests"]
        if "lasts_s" in expected:
            at_ms = [one.request.deadline_ms for one in pending]
            begun_ms = (await self.session.state()).last_ms
            assert at_ms == [begun_ms + expected["lasts_s"] * 1000]

    async def _check_first_wins(self, request_id: str) -> None:
        result = await self.session.result(request_id)
        [told] = [answer for answer in self.answers if isinstance(answer, dict)]
        assert [answer for answer in self.answers if not isinstance(answer, dict)] == [result.outcome]
        assert told == {
            "code": "ALREADY_ANSWERED",
            "message": f"request `{request_id}` was already {result.outcome} by {result.by.name} ({result.reply})",
        }


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario["id"] for scenario in SCENARIOS])
async def test_a_scenario_of_betcode_goes_as_it_says(
    scenario: Row, ledger: Ledger, clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ledger")
    given = scenario["given"]
    session = await ledger.session(
        DATA["session"]["id"],
        cwd=DATA["session"]["working_directory"],
        rules=given.get("as", []),
        answering=given.get("answering", "lock-holder"),
        cascade_reject="none",
    )
    for grant in given.get("grants", ()):
        await session.grant(grant["permission"], grant["pattern"])
    daemon = Daemon(session, ledger, clock)
    for client in given["clients"]:
        await daemon.connect(client)
    for step in scenario["steps"]:
        await daemon.live_through(step)
    for expected in scenario["expect"]:
        await daemon.check(expected, scenario.get("differs", {}), caplog)
    for task in daemon.asking.values():
        task.cancel()
    await asyncio.gather(*daemon.asking.values(), return_exceptions=True)


@pytest.mark.parametrize(
    "scenario", [one for one in SCENARIOS if "differs" in one or "open" in one], ids=lambda s: s["id"]
)
def test_every_difference_says_what_is_done_here(scenario: Row) -> None:
    for difference in scenario.get("differs", {}).values():
        assert set(difference) == {"here", "why"}
    assert set(scenario.get("open", {"spec": [], "here": ""})) == {"spec", "here"}

"""OpenCode's handling of replies, as measured and as documented: through the API on every store."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from ledger import Ledger, Result, Session
from tests.api.actors import OpenLedger, ask_and_wait, outcome_of, raised
from tests.support.waiting import wait_until_async

Row: TypeAlias = dict[str, Any]

DATA: Final[Row] = json.loads((Path(__file__).parents[1] / "data" / "opencode-reply-scenarios.json").read_text())
SCENARIOS: Final[list[Row]] = DATA["scenarios"]
VARIANTS: Final = {
    "current": 9,
    "current_bug": 1,
    "seed_000": 2,
    "seed_001": 1,
    "seed_001_000": 1,
    "seed_001_003": 1,
    "seed_003": 1,
    "upstream_earlier_and_seeds_000_001": 1,
    "v1": 1,
    "v2": 3,
}


def test_no_scenario_and_no_variant_is_dropped() -> None:
    assert len({scenario["id"] for scenario in SCENARIOS}) == len(SCENARIOS)
    assert Counter(scenario["variant"] for scenario in SCENARIOS) == VARIANTS


def test_every_variant_but_the_current_one_follows_an_option_or_says_how_it_differs() -> None:
    follows_by_itself = {"rp-39", "v2-09", "v2-10"}
    unexplained = [
        scenario["id"]
        for scenario in SCENARIOS
        if scenario["variant"] != "current" and not scenario.keys() & {"differs", "settings", "options"}
    ]
    assert set(unexplained) == follows_by_itself


class Program:
    """One ledger as OpenCode's program has it, and its waiting agents."""

    def __init__(self, ledger: Ledger, scenario: Row) -> None:
        self.ledger = ledger
        self.scenario = scenario
        self.agents: dict[str, tuple[Session, str, asyncio.Task[Result] | None]] = {}
        self.projects: dict[str, str] = {}
        self.seen: dict[str, int] = {}

    async def open(self, session_id: str, step: Row) -> Session:
        self.projects.setdefault(session_id, step.get("project", "one"))
        self.seen.setdefault(session_id, 0)
        return await self.ledger.session(
            session_id,
            project=self.projects[session_id],
            rules=step.get("rules"),
            parent=step.get("parent"),
            options=self.scenario.get("options"),
            **self.scenario.get("settings", {}),
        )

    async def ask(self, step: Row) -> None:
        session = await self.open(step["session"], step)
        asked = await session.submit(step["permission"], step["patterns"], always=step["always"], request_id=step["id"])
        waiting = None
        if asked.outcome is None:
            waiting = await ask_and_wait(
                session, step["id"], *step["patterns"], permission=step["permission"], always=step["always"]
            )
        self.agents[step["as"]] = (session, step["id"], waiting)

    async def reply(self, step: Row) -> None:
        more = {name: step[name] for name in ("message",) if name in step}
        replying = self.ledger.reply(step["id"], step["word"], session_id=step.get("session"), **more)
        if "refused" in step:
            assert (await raised(replying)).code == step["refused"]
        else:
            await replying

    async def expect_outcomes(self, expected: dict[str, str | None]) -> None:
        for handle, outcome in expected.items():
            session, request_id, waiting = self.agents[handle]
            assert await outcome_of(session, request_id) == outcome, handle
            if waiting is not None and outcome is not None:
                await wait_until_async(waiting.done, f"agent {handle} to be told")
                assert (waiting.exception() is None) == (outcome == "allowed")

    async def expect_error(self, step: Row) -> None:
        session, request_id, _ = self.agents[step["as"]]
        error = (await session.result(request_id)).error()
        assert error is not None
        assert (error.text, error.agent) == (step["text"], step["agent"])

    async def expect_pending(self, step: Row) -> None:
        pending = [one.request.request_id for one in await self.ledger.pending()]
        project = step.get("project", "one")
        of_project = [one for one in pending if self.projects[(await self.ledger.session_of(one)).id] == project]
        assert sorted(of_project) == sorted(step["ids"])

    async def new_events(self) -> list[list[str | None]]:
        found: list[list[str | None]] = []
        for session_id, after in self.seen.items():
            session = await self.ledger.attach(session_id)
            async for event in session.events(after, follow_on=False):
                self.seen[session_id] = event.version
                body = event.as_json()["event"]
                if event.type in ("asked", "replied"):
                    found.append([event.type, session_id, body["request_id"], body.get("reply")])
        return found

    async def end(self) -> None:
        waiting = [task for _, _, task in self.agents.values() if task is not None]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def act(program: Program, step: Row, open_ledger: OpenLedger) -> None:
    match step["do"]:
        case "ask":
            await program.ask(step)
        case "open":
            await program.open(step["session"], step)
        case "close":
            await (await program.ledger.attach(step["session"])).close()
        case "reply":
            await program.reply(step)
        case "grant_in_project":
            await program.ledger.grant_in_project("one", step["permission"], step["pattern"])
        case "restart":
            program.ledger = await open_ledger()
        case "skip_events":
            await program.new_events()
        case _:
            await expect(program, step)


async def expect(program: Program, step: Row) -> None:
    match step["do"]:
        case "expect_events":
            assert await program.new_events() == step["events"]
        case "expect_outcomes":
            await program.expect_outcomes(step["outcomes"])
        case "expect_error":
            await program.expect_error(step)
        case "expect_pending":
            await program.expect_pending(step)
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario["id"] for scenario in SCENARIOS])
async def test_a_scenario_of_replies_goes_as_it_says(scenario: Row, open_ledger: OpenLedger) -> None:
    program = Program(await open_ledger(), scenario)
    for step in scenario["steps"]:
        await act(program, step, open_ledger)
    await program.end()

"""The examples as programs on the real frameworks: rules decide, a person answers, and the agent gets the result."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import pytest

from ledger import Ledger, Pending
from tests.agents import frameworks
from tests.agents.installing import INSTALL_SECONDS
from tests.support.processes import ROOT, environment_without_settings
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.agents(frameworks.NAME), pytest.mark.timeout(INSTALL_SECONDS)]

EXAMPLES: Final = ("langgraph", "openai-agents", "pydantic-ai")
START_S: Final = 40.0

Run = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def run(server: RealServer) -> Iterator[Run]:
    started: list[subprocess.Popen[str]] = []

    def start(name: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / f"{name.replace('-', '_')}_tools.py")],
            env={
                **environment_without_settings(),
                "PYTHONPATH": f"{ROOT}:{frameworks.installed()}",
                "PERMISSION_LEDGER_URL": server.url,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
async def ledger(server: RealServer) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url) as ledger:
        yield ledger


async def waiting(ledger: Ledger) -> Pending:
    async def one() -> list[Pending]:
        return await ledger.pending()

    [found] = await wait_until_async(one, "a request to be pending", START_S)
    return found


def told(process: subprocess.Popen[str]) -> list[str]:
    out, complaint = process.communicate(timeout=START_S)
    assert process.returncode == 0, complaint
    return [
        line.partition(":")[0] if line.startswith("error: The user has specified") else line
        for line in out.splitlines()
    ]


@pytest.mark.parametrize("name", EXAMPLES)
async def test_rules_decide_and_a_person_allows_the_rest(run: Run, ledger: Ledger, name: str) -> None:
    process = run(name)
    shown = await waiting(ledger)
    assert (shown.session, shown.request.input, shown.request.agent) == (
        f"{name}-example",
        {"command": "git push"},
        name,
    )
    await ledger.reply(shown.request.request_id, "once", actor="ann")
    assert told(process) == ["success: ran git status", "error", "success: ran git push", "done"]
    session = await ledger.attach(shown.session)
    outcomes = sorted(str(one.outcome) for one in (await session.state()).settled.values())
    assert outcomes == ["allowed", "allowed", "denied"]


@pytest.mark.parametrize("name", EXAMPLES)
async def test_what_runs_is_the_input_as_a_person_corrected_it(run: Run, ledger: Ledger, name: str) -> None:
    process = run(name)
    shown = await waiting(ledger)
    corrected: dict[str, Any] = {"command": "git push --dry-run"}
    await ledger.reply(shown.request.request_id, "once", actor="ann", updated_input=corrected)
    assert told(process)[2:] == ["success: ran git push --dry-run", "done"]


@pytest.mark.parametrize("name", EXAMPLES)
async def test_feedback_goes_to_the_model_and_a_bare_rejection_ends_the_run(
    run: Run, ledger: Ledger, name: str
) -> None:
    process = run(name)
    shown = await waiting(ledger)
    await ledger.reply(shown.request.request_id, "reject", actor="ann", message="open a pull request")
    [said, done] = told(process)[2:]
    assert (said.startswith("error: "), said.endswith("feedback: open a pull request"), done) == (True, True, "done")
    again = run(name)
    shown = await waiting(ledger)
    await ledger.reply(shown.request.request_id, "reject", actor="ann")
    assert told(again)[2:] == ["stopped: The user rejected permission to use this specific tool call."]

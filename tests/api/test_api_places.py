"""The folder and home of an agent's machine: logged with its session, used in judging, and never loosening rules."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ledger import Ledger, Session
from ledger.client.machine import DiskFacts
from ledger.core.policy import strictest
from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy
from ledger.policy.check_questions import Checker, with_facts
from ledger.policy.dialects import dialect_named
from ledger.policy.explanation import explain
from ledger.policy.stored_rules import placed
from tests.api.actors import OpenLedger
from tests.policy.test_policy_unknown_places import CONFIGS, WORDS

OPENCODE: Final = {"permission": {"bash": {"cat *": "allow"}}}
KEY: Final = {"command": "cat ~/.ssh/id_rsa"}


async def asked_first(session: Session, request_id: str = "r1") -> tuple[str, tuple[str, ...]]:
    request = (await session.submit_tool("bash", KEY, request_id=request_id)).request
    return request.permission, request.patterns


async def test_a_session_that_does_not_know_its_home_asks_about_what_lies_below_it(ledger: Ledger) -> None:
    session = await ledger.session("s", rules=OPENCODE, cwd="/srv/shop")
    assert await asked_first(session) == ("external_directory", ("~/.ssh/*",))


async def test_the_home_is_recorded_and_another_process_judges_by_it(open_ledger: OpenLedger) -> None:
    await (await open_ledger()).session("s", rules=OPENCODE, cwd="/srv/shop", home="/home/ann")
    session = await (await open_ledger()).attach("s")
    assert (await session.state()).home == "/home/ann"
    assert await asked_first(session) == ("external_directory", ("/home/ann/.ssh/*",))


async def test_attaching_moves_neither_the_folder_nor_the_home(ledger: Ledger) -> None:
    await ledger.session("s", rules=OPENCODE, cwd="/srv/shop", home="/home/ann")
    state = await (await ledger.session("s", cwd="/", home="/srv")).state()
    assert (state.cwd, state.home, state.version) == ("/srv/shop", "/home/ann", 1)


@pytest.mark.parametrize(
    ("cwd", "home"), [("/", "/root"), ("/srv/shop", "/srv/shop"), ("/srv", "/srv/shop"), ("/", "/")]
)
async def test_no_folder_and_no_home_makes_everything_look_inside(ledger: Ledger, cwd: str, home: str) -> None:
    session = await ledger.session("s", rules=OPENCODE, cwd=cwd, home=home)
    permission, _ = await asked_first(session)
    assert permission == "external_directory"


@pytest.mark.slow
@pytest.mark.parametrize("dialect", sorted(CONFIGS))
async def test_explain_and_check_say_what_the_ledger_records(dialect: str) -> None:
    shell, config = dialect_named(dialect).language.shell, CONFIGS[dialect]
    # A verdict is of the rules, and the same on every store.
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        for number, (cwd, home) in enumerate((("/srv/shop", "/home/ann"), ("/srv/shop", None), (None, None))):
            session = await ledger.session(f"s{number}", rules=config, dialect=dialect, cwd=cwd, home=home)
            source = placed(PolicySource(dialect, (Layer("session", config=config),)), cwd=cwd, home=home)
            checker = Checker({"dialect": dialect, "config": config, **source.options}, DiskFacts())
            for index, word in enumerate(WORDS):
                given = {"command": f"cat {word}"}
                call = Call(dialect_named(dialect).shell_permission, (), shell, given)
                explained = explain(compiled(source), call, compiled).judged.verdict
                checked = checker.answer({"tool": shell, "input": given})["verdict"]
                recorded = await recorded_verdict(session, shell, given, f"r{index}")
                assert (explained, checked, recorded) == (recorded, recorded, recorded), (cwd, home, word)


def compiled(source: PolicySource) -> Any:
    return with_facts(compile_policy(source), DiskFacts())


async def recorded_verdict(session: Session, tool: str, given: dict[str, Any], request_id: str) -> Verdict:
    """Return the strictest verdict logged for a call and for its prerequisites; each of those is allowed once."""
    found = []
    while True:
        result = await session.submit_tool(tool, given, request_id=request_id)
        assert result.evaluation is not None
        found.append(result.evaluation.verdict)
        if result.request_id == request_id or result.outcome is not None:
            return strictest(found)
        await session.reply(result.request_id, "once")

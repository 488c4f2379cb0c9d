"""Every recorded evaluation is reached again from the log alone: the folder in which it was made is gone by then."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger import InputError, Ledger, Session
from ledger.core.codec import NewerEvent
from ledger.core.errors import EditDeniedError
from ledger.core.events import Asked, Replied, event_type
from ledger.core.grants import Recorded
from ledger.core.policy import ConsultedFile, Evaluation
from ledger.log.judgements import judge_again
from ledger.log.rulesets import RecordedRules
from ledger.log.tail import read_events
from ledger.policy import DIALECTS, Layer, PolicySource, consulted
from ledger.policy.consulted import ReplayedPolicies
from ledger.policy.errors import PolicyError
from ledger.session.evolve import evolve
from ledger.session.judged_again import JudgedAgain, is_judged, judge_recorded
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.api.actors import before_the_next_append, minutes_later
from tests.api.rule_shapes import config_of, rules
from tests.support.folders import LINES, PATHS, file_calls, make_project, shell_call

DATA: Final = Path(__file__).parents[1] / "data"
RECORDINGS: Final = (DATA / "claude-recorded.jsonl", *sorted((DATA / "agents").rglob("*.jsonl")))

ASKS: Final = {"permission": {"*": "ask", "bash": {"cat *": "allow", "cd *": "allow"}}}


async def judged(ledger: Ledger, session: Session) -> list[JudgedAgain]:
    return [one async for one in judge_again(ledger.store, session.id)]


async def evaluations(session: Session) -> list[Evaluation]:
    events = [one.event async for one in session.events(follow_on=False)]
    details = [one.detail for one in events if isinstance(one, Asked | Replied)]
    return [one.evaluation for one in details if one is not None and one.evaluation is not None]


def not_same(found: list[JudgedAgain]) -> list[JudgedAgain]:
    return [one for one in found if one.result != "same"]


# --- a property over all dialects -------------------------------------------------------------------------------------


@st.composite
def conversations(draw: st.DrawFn) -> dict[str, Any]:
    dialect = draw(st.sampled_from(sorted(DIALECTS)))
    shapes = draw(st.lists(st.sampled_from(rules(dialect)), min_size=1, max_size=8))
    calls = st.sampled_from([
        *(shell_call(dialect, line) for line in LINES),
        *(call for path in PATHS for call in file_calls(dialect, path)),
    ])  # fmt: skip
    return {
        "dialect": dialect,
        "config": config_of(dialect, shapes),
        "profile": draw(st.sampled_from(["hardened", "faithful"])),
        "is_placed": draw(st.booleans()),
        "home": draw(st.sampled_from([None, "home", "project"])),
        "calls": draw(st.lists(calls, min_size=1, max_size=5)),
        "in_folder": draw(st.sampled_from([None, "src", "out"])),
        "replies": draw(st.lists(st.sampled_from(["once", "session", "always", "reject", "edit"]), max_size=5)),
        "project": draw(st.sampled_from([None, "shop"])),
        "new_rules": draw(st.one_of(st.none(), st.lists(st.sampled_from(rules(dialect)), min_size=1, max_size=4))),
        "defaults": draw(st.booleans()) if dialect in ("opencode", "codelia") else False,
    }


@pytest.mark.parametrize("examples", [20, pytest.param(150, marks=pytest.mark.slow)])
def test_every_evaluation_is_the_same_without_the_disk(examples: int) -> None:
    @settings(max_examples=examples)
    @given(conversations())
    def hold(told: dict[str, Any]) -> None:
        asyncio.run(_hold(told))

    hold()


def _real(folder: str) -> Path:
    return Path(folder).resolve()


async def _hold(told: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        base = _real(name) / "base"
        project = make_project(base)
        async with Ledger.connect("memory://", entry_points=False) as ledger:
            session = await _converse(ledger, told, base, project)
            shutil.rmtree(base)
            assert not_same(await judged(ledger, session)) == []


async def _converse(ledger: Ledger, told: dict[str, Any], base: Path, project: Path) -> Session:
    options = {"profile": told["profile"], **({"defaults": True} if told["defaults"] else {})}
    opening: dict[str, Any] = {
        "project": told["project"],
        "cwd": str(project) if told["is_placed"] else None,
        "home": None if told["home"] is None else str(base / told["home"]),
    }
    source = PolicySource(told["dialect"], (Layer("project", config=told["config"]),), options)
    session = await _opened(ledger, source, opening)
    folder = None if told["in_folder"] is None else str(project / told["in_folder"])
    for number, (tool, value) in enumerate(told["calls"]):
        with suppress(InputError):
            await session.submit_tool(tool, value, request_id=f"call_{number}", cwd=folder)
    if told["new_rules"] is not None:
        config = config_of(told["dialect"], told["new_rules"])
        await _opened(ledger, PolicySource(told["dialect"], (Layer("project", config=config),), options), {})
    for reply in told["replies"]:
        waiting = await session.pending()
        if not waiting:
            break
        await _answer(session, waiting[0].request.request_id, reply)
    return session


async def _opened(ledger: Ledger, source: PolicySource, opening: dict[str, Any]) -> Session:
    """Open the session with the rules; those that the hardened profile refuses are left out."""
    try:
        return await ledger.session("ses_1", policy=source, **opening)
    except PolicyError:
        return await ledger.session("ses_1", policy=PolicySource(source.dialect, (), source.options), **opening)


async def _answer(session: Session, request_id: str, reply: Any) -> None:
    with suppress(InputError, EditDeniedError):
        if reply == "edit":
            await session.reply(request_id, "once", updated_input={"command": "cat out/key", "filePath": "out/key"})
        else:
            await session.reply(request_id, reply)


# --- the recordings of real clients -----------------------------------------------------------------------------------


def calls_in(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tool calls of a recording, however its protocol writes them."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            yield from calls_in(json.loads(value))
    elif isinstance(value, list):
        for one in value:
            yield from calls_in(one)
    elif isinstance(value, dict):
        tool = next(
            (value[name] for name in ("tool_name", "tool", "name", "kind") if isinstance(value.get(name), str)), "bash"
        )
        for name in ("input", "rawInput", "arguments", "tool_input"):
            if isinstance(value.get(name), dict) and value[name]:
                yield tool, value[name]
        if isinstance(value.get("command"), str):
            yield "bash", {"command": value["command"]}
        for one in value.values():
            yield from calls_in(one)


def recorded_calls() -> list[tuple[str, dict[str, Any]]]:
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in RECORDINGS:
        for line in path.read_text(encoding="utf-8").splitlines():
            for tool, value in calls_in(json.loads(line)):
                found[json.dumps([tool, value], sort_keys=True)] = (tool, value)
    return list(found.values())


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
async def test_every_call_of_the_recordings_is_the_same_without_the_disk(dialect: str, project: Path) -> None:
    base = project.parent
    calls = recorded_calls()
    assert len(calls) > 50
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await ledger.session("ses_1", dialect=dialect, cwd=str(project), home=str(base / "home"))
        for number, (tool, value) in enumerate(calls):
            named = tool.capitalize() if dialect in ("betcode", "claude") and tool == "bash" else tool
            with suppress(InputError):
                await session.submit_tool(named, value, request_id=f"call_{number}")
        shutil.rmtree(base)
        found = await judged(ledger, session)
    assert not_same(found) == []
    assert len(found) >= len(calls)


# --- single rules -----------------------------------------------------------------------------------------------------


async def opened(ledger: Ledger, folder: Path, rules: Any = ASKS, **more: Any) -> Session:
    home = folder.parent / "home"
    return await ledger.session("ses_1", rules=rules, cwd=str(folder), home=str(home), **more)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path.resolve() / "base")


async def last_detail(session: Session) -> Any:
    return [one.event.detail async for one in session.events(follow_on=False) if isinstance(one.event, Asked)][-1]


async def test_the_folder_the_home_and_each_file_looked_at_are_in_the_request(project: Path) -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project)
        await session.submit("read", [], tool_name="read", tool_input={"filePath": "innocent.txt"})
        detail = await last_detail(session)
    assert (detail.cwd, detail.home) == (str(project), str(project.parent / "home"))
    files = detail.evaluation.facts.files
    assert ConsultedFile(f"{project}/innocent.txt", found=f"{project}/.env") in files
    assert ConsultedFile(f"{project}/.git", "kind", "dir") in files


async def test_a_request_that_rests_on_no_file_says_nothing_of_files() -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await ledger.session("ses_1", rules=ASKS)
        await session.submit("bash", ["git push"])
        [_, asked] = [one.as_json()["event"] async for one in session.events(follow_on=False)]
    assert "facts" not in asked["detail"]["evaluation"]
    assert not {"home", "cwd", "facts"} & asked["detail"].keys()


async def test_a_verdict_of_the_cache_carries_its_facts(project: Path) -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project)
        for _ in range(3):
            await session.submit("bash", [], tool_name="bash", tool_input={"command": "cat innocent.txt"})
        found = {one.facts for one in await evaluations(session)}
        assert None not in found
        assert len(found) == 1
        shutil.rmtree(project)
        assert not_same(await judged(ledger, session)) == []


async def test_agents_and_people_are_not_shown_the_facts(project: Path) -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project)
        result = await session.submit("edit", [], tool_name="edit", tool_input={"filePath": "innocent.txt"})
        assert "facts" not in json.dumps(result.as_json()["evaluation"])
        assert (await session.pending())[0].request.evaluation == result.evaluation


async def test_what_a_reply_judged_again_is_the_same_without_the_disk(project: Path) -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project)
        for request_id in ("a", "b"):
            await session.submit("edit", [], tool_name="edit", tool_input={"filePath": "a.ts"}, request_id=request_id)
        await session.reply("a", "once", updated_input={"filePath": "innocent.txt"})
        await opened(ledger, project, {"permission": {"*": "ask", "edit": "deny"}})
        await session.reply("b", "once")
        shutil.rmtree(project)
        found = await judged(ledger, session)
    assert Counter(one.type for one in found) == {"asked": 2, "replied": 2}
    assert not_same(found) == []


async def test_a_reply_by_a_grant_of_the_project_is_judged_by_the_grants_of_then(project: Path) -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project, project="shop")
        granted = await ledger.grant_in_project("shop", "bash", "make *")
        await session.submit("bash", ["make all"], request_id="a")
        await ledger.revoke(granted.grant.grant_id)
        await session.submit("bash", ["make all"], request_id="b")
        found = await judged(ledger, session)
    assert [(one.recorded, one.result) for one in found] == [("allow", "same"), ("ask", "same")]


@pytest.fixture(params=[8 * 1024, pytest.param(consulted.FILES_BYTES, marks=pytest.mark.slow)])
def files_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The bytes of facts about files that an event holds: a few, and as many as it does."""
    count: int = request.param
    monkeypatch.setattr(consulted, "FILES_BYTES", count)
    return count


def patch_of_many(files_bytes: int, *more: str) -> dict[str, str]:
    """A patch of files whose names take more bytes than an event holds of them."""
    files = [*more, *(f"src/{number}{'x' * 200}.ts" for number in range(files_bytes // 200))]
    changes = "".join(f"*** Update File: {file}\n@@\n-a\n+b\n" for file in files)
    return {"patchText": f"*** Begin Patch\n{changes}*** End Patch\n"}


@pytest.mark.slow
async def test_more_files_than_an_event_holds_are_asked_about_and_judged_the_same(
    project: Path, files_bytes: int
) -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project, {"permission": {"*": "allow"}})
        result = await session.submit_tool("apply_patch", patch_of_many(files_bytes))
        assert result.outcome is None
        assert result.evaluation is not None
        assert "make smaller calls" in (result.evaluation.reason or "")
        facts = (await evaluations(session))[0].facts
        assert facts is not None
        assert (facts.files, facts.too_many) == ((), "allow")
        assert not_same(await judged(ledger, session)) == []


async def test_many_files_do_not_hide_one_that_is_denied(project: Path, files_bytes: int) -> None:
    rules = {"permission": {"*": "allow", "edit": {"*": "allow", "*.env": "deny"}}}
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project, rules)
        result = await session.submit_tool("apply_patch", patch_of_many(files_bytes, "innocent.txt"))
        assert result.outcome == "denied"
        assert not_same(await judged(ledger, session)) == []


async def test_a_link_to_a_name_that_is_no_text_is_judged_and_recorded(project: Path) -> None:
    (project / "odd").symlink_to(b"out/\xff".decode("utf-8", "surrogateescape"))
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project)
        result = await session.submit("edit", [], tool_name="edit", tool_input={"filePath": "odd"})
        assert result.outcome is None
        assert not_same(await judged(ledger, session)) == []


async def test_the_data_folder_is_a_fact_where_a_call_touches_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = project.parent / "state"
    data.mkdir()
    (project / "near").symlink_to(data)
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(data))
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project, {"permission": {"*": "allow"}})
        for path in ("near/x", "a.ts"):
            await session.submit("edit", [], tool_name="edit", tool_input={"filePath": path})
        monkeypatch.delenv("PERMISSION_LEDGER_HOME")
        shutil.rmtree(project.parent)
        denied, allowed = await evaluations(session)
        assert (denied.verdict, allowed.verdict) == ("deny", "allow")
        assert denied.facts is not None
        assert allowed.facts is not None
        assert (denied.facts.own_folders, allowed.facts.own_folders) == ((str(data),), ())
        assert not_same(await judged(ledger, session)) == []


async def test_a_grant_that_expires_while_its_ask_is_written_counts_as_it_did(project: Path) -> None:
    clock = TestClock()
    async with Ledger.connect("memory://", clock=clock, entry_points=False) as ledger:
        session = await opened(ledger, project)
        await session.grant("bash", "make *", expires_in_ms=60_000)

        async def two_minutes_later() -> None:
            minutes_later(clock, 2)

        before_the_next_append(ledger, two_minutes_later)
        result = await session.submit("bash", ["make all", "git push"])
        assert result.outcome is None
        found = await judged(ledger, session)
    assert [(one.recorded, one.result) for one in found] == [("ask", "same")]


@pytest.mark.parametrize(
    ("taken_out", "expected"),
    [
        ((), {"asked": "same", "replied": "same"}),
        (("session_opened",), {"asked": "not_decidable", "replied": "not_decidable"}),
        (("granted",), {"asked": "not_decidable", "replied": "not_decidable"}),
        (("asked",), {"asked": "not_decidable", "replied": "not_decidable"}),
        (("replied",), {"asked": "same"}),
    ],
)
async def test_what_was_redacted_is_not_guessed(
    taken_out: tuple[str, ...], expected: dict[str, str], project: Path
) -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await opened(ledger, project)
        await session.grant("bash", "make *")
        await session.submit_tool("bash", {"command": "make all && git push"}, request_id="a")
        await session.reply("a", "once", updated_input={"command": "make all && git pull"})
        history = [one async for one in read_events(ledger.store, StreamKey("session", "ses_1"))]
        state, found, rules = SessionState(session_id="ses_1"), {}, RecordedRules(ledger.store)
        for one in history:
            recorded = one
            if event_type_of(one) in taken_out:
                recorded = replace(one, event=replace(one.event, detail=None), redacted=True)
            if is_judged(recorded):
                again = judge_recorded(state, recorded, None, ReplayedPolicies(), await rules.of(state))
                found[again.type] = again.result
            state = evolve(state, recorded)
    assert found == expected


def event_type_of(recorded: Recorded) -> str:
    assert not isinstance(recorded.event, NewerEvent)
    return event_type(recorded.event)

"""A grant that the hardened profile would not honour is not offered in silence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger import Ledger, Session

RULES: dict[str, Any] = {"opencode": [], "brutus": [], "betcode": {"permissions": {}}}


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        yield ledger


async def opened(ledger: Ledger, dialect: str = "opencode", **options: Any) -> Session:
    return await ledger.session("s", rules=RULES[dialect], dialect=dialect, options={"cwd": "/repo", **options})


async def offer(session: Session, command: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    request = (await session.submit_tool("bash", {"command": command}, request_id=command.replace(" ", "_"))).request
    return request.always, request.not_honoured


@pytest.mark.parametrize(
    ("command", "always", "left_out"),
    [
        ("python -m pytest", (), ("python -m *",)),
        ("npx foo", (), ("npx *",)),
        ("sudo make", (), ("sudo *",)),
        ("git push origin && sudo make", ("git push *",), ("sudo *",)),
        ("git push origin", ("git push *",), ()),
        ("cat a > b", ("cat a > b",), ()),
    ],
)
async def test_what_would_lift_nothing_is_left_out_of_the_offer_which_says_so(
    ledger: Ledger, command: str, always: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    session = await opened(ledger)
    assert await offer(session, command) == (always, left_out)
    (pending,) = await session.pending()
    assert pending.as_json().get("not_honoured", []) == list(left_out)


async def test_what_is_offered_lifts_the_same_call_when_it_is_granted(ledger: Ledger) -> None:
    session = await opened(ledger)
    await session.submit_tool("bash", {"command": "git push origin"}, request_id="r1")
    assert (await session.reply("r1", "always")).message is None
    assert (await session.submit_tool("bash", {"command": "git push origin"})).allowed


async def test_an_always_that_remembers_nothing_tells_why(ledger: Ledger) -> None:
    session = await opened(ledger)
    pending = await session.submit_tool("bash", {"command": "python -m pytest"}, request_id="r1")
    assert pending.message == "a grant of `python -m *` would lift nothing of this call in profile hardened"
    result = await session.reply("r1", "always")
    assert result.message == f"nothing is remembered: {pending.message}, so always counts as once"
    assert await session.approved() == []


async def test_entries_that_an_agent_brings_stay_and_the_answer_says_what_they_are_worth(ledger: Ledger) -> None:
    session = await opened(ledger)
    await session.submit("bash", ["python -m pytest"], always=["python -m *"], request_id="r1")
    result = await session.reply("r1", "session")
    assert result.message == "a grant of `python -m *` would lift nothing of this call in profile hardened"
    assert [one.grant.pattern for one in await session.approved()] == ["python -m *"]


async def test_the_faithful_profile_honours_what_the_program_does(ledger: Ledger) -> None:
    session = await opened(ledger, profile="faithful")
    assert await offer(session, "python -m pytest") == (("python -m *",), ())


@pytest.mark.parametrize(
    ("dialect", "always", "left_out"), [("brutus", (), ("sudo*",)), ("betcode", (), ("Bash(sudo make)",))]
)
async def test_the_other_dialects_leave_out_what_they_would_not_honour(
    ledger: Ledger, dialect: str, always: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    session = await opened(ledger, dialect)
    tool = "Bash" if dialect == "betcode" else "bash"
    request = (await session.submit_tool(tool, {"command": "sudo make"})).request
    assert (request.always, request.not_honoured) == (always, left_out)


async def test_nothing_is_said_of_other_tools_than_the_shell(ledger: Ledger) -> None:
    session = await opened(ledger)
    request = (await session.submit("edit", ["a"], always=["b/*"])).request
    assert (request.always, request.not_honoured) == (("b/*",), ())

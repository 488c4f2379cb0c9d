"""An `always` covers the call that it was given for, or the request names in advance what will still be asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import Ledger
from ledger.client.session import Session
from ledger.client.tool_requests import tool_requests
from ledger.core.policy import Verdict
from ledger.policy import Call, Grant, PolicySource
from ledger.policy.covers import still_asked
from ledger.policy.dialects import compile_policy
from tests.support.calls import CALLS
from tests.support.rows import every

TABLE = [(dialect, *call) for dialect, calls in CALLS.items() for call in calls]
STANDS = "a grant of `live*` exists already"
PROFILES = ("hardened", "faithful")


async def _session(ledger: Ledger, dialect: str, profile: str) -> Session:
    policy = PolicySource(dialect, (), {"cwd": "/srv/shop", "profile": profile})
    return await ledger.session("ses_1", policy=policy, project="shop")


async def _asked(session: Session, tool: str, given: dict[str, Any], request_id: str) -> Any:
    """The result of the call itself; prerequisites are allowed with a lasting grant."""
    for _ in range(4):
        result = await session.submit_tool(tool, given, request_id=request_id, cwd="/srv/shop")
        if result.request_id == request_id:
            return result
        await session.reply(result.request_id, "always")
    raise AssertionError(result)


@pytest.mark.slow
@every("profile", PROFILES)
@every(("dialect", "tool", "given"), TABLE)
async def test_the_next_such_call_is_allowed_or_the_request_said_that_it_is_asked(
    dialect: str, tool: str, given: dict[str, Any], profile: str
) -> None:
    async with Ledger.connect("memory://") as ledger:
        session = await _session(ledger, dialect, profile)
        first = await _asked(session, tool, given, "r1")
        if first.outcome is not None or not first.request.always:
            return
        await session.reply("r1", "always")
        second = await _asked(session, tool, given, "r2")
        assert (second.outcome == "allowed") is (first.request.still_asked == ())


_WORDS = st.sampled_from(["a", "-l", "'b c'", "*.py", "src/a", "$X", "--all"])
_REDIRECTS = st.sampled_from(["", "", " > f", " >> g", " < in", " 2>&1", " > /dev/null", " > /etc/x", " 2> 'a b'"])
_COMMANDS = st.builds(
    lambda name, words, redirect: " ".join([name, *words]) + redirect,
    st.sampled_from(["ls", "git push", "echo", "make", "npm run dev", "cat", "sort", "cd", "python"]),
    st.lists(_WORDS, max_size=2),
    _REDIRECTS,
)
_LINES = st.builds(
    lambda commands, joints: "".join(f"{one}{joint}" for one, joint in zip(commands, [*joints, ""], strict=False)),
    st.lists(_COMMANDS, min_size=1, max_size=3),
    st.lists(st.sampled_from([" && ", " | ", "; "]), min_size=2, max_size=2),
)


@given(line=_LINES, dialect=st.sampled_from(sorted(CALLS)), profile=st.sampled_from(PROFILES))
def test_what_is_offered_covers_any_line_or_is_said_not_to(line: str, dialect: str, profile: str) -> None:
    policy = compile_policy(PolicySource(dialect, (), {"cwd": "/srv/shop", "profile": profile}))
    tool = "Bash" if dialect in ("betcode", "claude") else "bash"
    own = tool_requests(policy, tool, {"command": line}, request_id="r1", cwd="/srv/shop")[-1]
    call = Call(own.permission, own.patterns, tool, {"command": line}, cwd="/srv/shop")
    evaluation = policy.evaluate(call)
    if evaluation.verdict is not Verdict.ASK or not own.always:
        return
    granted = tuple(Grant(str(number), own.permission, entry) for number, entry in enumerate(own.always))
    is_covered = policy.evaluate(call, granted).verdict is Verdict.ALLOW
    assert is_covered is (still_asked(policy, call, evaluation, own.always) == ())


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("echo a > f", "echo a > g"),
        ("echo made > f && echo x", "echo made > g && echo x"),
        ("ls | sort > out", "ls | sort > in"),
        ("cat < in", "cat < f"),
    ],
)
async def test_opencode_offers_a_command_with_its_redirection_whole(line: str, changed: str) -> None:
    async with Ledger.connect("memory://") as ledger:
        session = await _session(ledger, "opencode", "hardened")
        first = await session.submit_tool("bash", {"command": line}, request_id="r1")
        assert first.request.still_asked == ()
        await session.reply("r1", "always")
        again = await session.submit_tool("bash", {"command": line}, request_id="r2")
        other = await session.submit_tool("bash", {"command": changed}, request_id="r3")
        assert (again.outcome, other.outcome) == ("allowed", None)


async def test_what_will_be_asked_all_the_same_is_said_before_the_answer() -> None:
    async with Ledger.connect("memory://") as ledger:
        session = await _session(ledger, "brutus", "hardened")
        asked = await session.submit_tool("bash", {"command": "echo a > f"}, request_id="r1")
        assert asked.request.still_asked == ("writes `f`",)
        assert asked.message == "the next such call will still ask: writes `f`"
        (pending,) = await session.pending()
        assert pending.as_json()["still_asked"] == ["writes `f`"]


# --- no second equal grant -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dialect", "reply"), [("opencode", "always"), ("opencode", "session"), ("brutus", "always")])
async def test_an_answer_makes_no_second_equal_grant_and_says_that_one_stands(dialect: str, reply: Any) -> None:
    async with Ledger.connect("memory://") as ledger:
        session = await _session(ledger, dialect, "hardened")
        for number in (1, 2):  # the entries do not match, so that the first answer does not release the second request
            await session.submit("deploy", [f"on {number}"], always=["live*", f"x{number}"], request_id=f"r{number}")
        first, second = await session.reply("r1", reply), await session.reply("r2", reply)
        assert (STANDS in str(first.message), STANDS in str(second.message)) == (False, True)
        assert sorted(one.grant.pattern for one in await session.approved()) == ["live*", "x1", "x2"]


@pytest.mark.parametrize("reply", ["always", "session"])
async def test_an_answer_whose_grants_all_stand_writes_none_and_releases_all_the_same(reply: Any) -> None:
    async with Ledger.connect("memory://") as ledger:
        session = await _session(ledger, "opencode", "hardened")
        for name, about in (("r1", "a"), ("r2", "b"), ("r3", "live 1")):
            await session.submit("deploy", [about], always=["live*"], request_id=name)
        await session.grant("deploy", "other")
        await session.reply("r1", reply)
        assert (await session.result("r3")).outcome == "allowed"
        before = await session.approved()
        assert STANDS in str((await session.reply("r2", reply)).message)
        assert await session.approved() == before


@pytest.mark.parametrize("reply", ["always", "session"])
async def test_what_was_revoked_is_granted_again_by_the_next_answer(reply: Any) -> None:
    async with Ledger.connect("memory://") as ledger:
        session = await _session(ledger, "opencode", "hardened")
        for name in ("r1", "r2"):
            await session.submit("deploy", [name], always=["live*"], request_id=name)
        await session.reply("r1", reply)
        (granted,) = await session.approved()
        await ledger.revoke(granted.grant.grant_id)
        assert STANDS not in str((await session.reply("r2", reply)).message)
        (again,) = await session.approved()
        assert again.grant.grant_id != granted.grant.grant_id


async def test_a_grant_that_ends_is_no_equal_of_one_that_does_not() -> None:
    async with Ledger.connect("memory://") as ledger:
        session = await _session(ledger, "opencode", "hardened")
        await session.submit("deploy", ["x"], always=["live*"], request_id="r1")
        await session.grant("deploy", "live*", expires_in_ms=60_000)
        assert STANDS not in str((await session.reply("r1", "session")).message)
        assert len(await session.approved()) == 2

"""Narrower by the dialect's own matching: an entry counts as narrower only where it is proven to allow no more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.policy import Call, Grant, PolicySource, Verdict
from ledger.policy.covers import uncovered, wider_entries
from ledger.policy.dialects import compile_policy

LINE = "git push origin main"


def call_of(dialect: str, line: str = LINE) -> Call:
    tool = {"betcode": "Bash", "claude": "Bash"}.get(dialect, "bash")
    return Call(tool, (), tool, {"command": line}, "/srv/shop")


def wider(dialect: str, offered: str, entry: str, **options: Any) -> bool:
    policy = compile_policy(PolicySource(dialect, (), {"cwd": "/srv/shop", **options}))
    return wider_entries(policy, call_of(dialect), (offered,), (entry,)) == (entry,)


@pytest.mark.parametrize(
    ("dialect", "offered", "entry"),
    [
        ("opencode", "git push *", "git push origin *"),
        ("opencode", "git push *", LINE),
        ("brutus", "git *", "git push *"),
        ("claude", "Bash(git push:*)", "Bash(git push origin:*)"),
        ("claude", "Bash(git push:*)", f"Bash({LINE})"),
        ("betcode", "Bash(git push:*)", "Bash(git push origin:*)"),
        ("codelia", '{"tool":"bash","command":"git push"}', '{"tool":"bash","command":"git push origin"}'),
    ],
)
def test_an_entry_that_the_offered_one_matches_is_narrower(dialect: str, offered: str, entry: str) -> None:
    assert not wider(dialect, offered, entry)


@pytest.mark.parametrize(
    ("dialect", "offered", "entry"),
    [
        ("opencode", "git push *", "git *"),
        ("opencode", "git push *", "git push*"),
        ("opencode", "git push *", "*"),
        ("opencode", "git push *", "git push origin \\*"),
        ("brutus", "git push *", "git *"),
        ("claude", "Bash(git push:*)", "Bash(git:*)"),
        ("claude", "Bash(git push:*)", "Bash"),
        ("claude", "Bash(git push:*)", "Edit"),
        ("claude", "Edit(/src/**)", "Edit"),
        ("betcode", "Bash(git push:*)", "Bash"),
        ("codelia", '{"tool":"bash","command":"git push"}', '{"tool":"bash"}'),
        ("codelia", '{"tool":"bash","command":"git push"}', '{"tool":"bash","command":"git"}'),
        ("codelia", '{"tool":"bash","command":"git push"}', "no rule"),
    ],
)
def test_a_wider_entry_or_one_that_proves_nothing_is_wider(dialect: str, offered: str, entry: str) -> None:
    assert wider(dialect, offered, entry)


def test_an_exact_command_that_the_offered_wildcard_would_not_allow_is_wider() -> None:
    """In the hardened profile a wildcard for a program that runs any code lifts nothing; the exact command does."""
    policy = compile_policy(PolicySource("opencode", (), {"cwd": "/srv/shop"}))
    line = "python -m http.server"
    call = Call("bash", (), "bash", {"command": line}, "/srv/shop")
    assert policy.evaluate(call, (Grant("g", "bash", "python -m *"),)).verdict is Verdict.ASK
    assert policy.evaluate(call, (Grant("g", "bash", line),)).verdict is Verdict.ALLOW
    assert wider_entries(policy, call, ("python -m *",), (line,)) == (line,)


@pytest.mark.parametrize(
    ("entries", "covered"),
    [(("git push *",), True), ((LINE,), True), (("git push upstream",), False), (("npm *", "git push *"), True)],
)
def test_entries_cover_the_call_or_not(entries: tuple[str, ...], covered: bool) -> None:
    policy = compile_policy(PolicySource("opencode", (), {"cwd": "/srv/shop"}))
    assert (uncovered(policy, call_of("opencode"), ("git push *",), entries, ()) is None) is covered


def test_of_a_line_that_the_offer_covers_in_part_no_part_may_be_lost() -> None:
    policy = compile_policy(PolicySource("opencode", (), {"cwd": "/srv/shop"}))
    call = call_of("opencode", "git push && npm test && ./strange")
    offered = ("git push *", "npm test *")
    assert uncovered(policy, call, offered, ("git push", "npm test"), ()) is None
    assert uncovered(policy, call, offered, ("git push",), ()) is not None


WORDS = st.sampled_from(["git", "push", "origin", "*", "main", "-n", "pu*", "?ush"])
PATTERNS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
LINES = st.lists(st.sampled_from(["git", "push", "origin", "main", "-n", "pull"]), min_size=1, max_size=4).map(" ".join)


@given(offered=PATTERNS, entry=PATTERNS, lines=st.lists(LINES, max_size=12))
def test_a_narrower_entry_allows_nothing_that_the_offered_one_does_not(
    offered: str, entry: str, lines: list[str]
) -> None:
    policy = compile_policy(PolicySource("opencode", (), {"cwd": "/srv/shop", "profile": "faithful"}))
    if wider_entries(policy, call_of("opencode"), (offered,), (entry,)):
        return
    for line in lines:
        call = Call("bash", (line,))
        if policy.evaluate(call, (Grant("n", "bash", entry),)).verdict is Verdict.ALLOW:
            assert policy.evaluate(call, (Grant("w", "bash", offered),)).verdict is Verdict.ALLOW

"""Output of `--json`: the keys of the contract, in its order, before any other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from tests.support.command_line import CommandLine
from tests.support.projecting import project_as_a_worker
from tests.support.waiting import wait_until
from workers.cli.log import EVENTS_COUNT

RESULT = ["session", "request_id", "version", "outcome", "reply", "by", "at", "message", "code", "agent", "evaluation"]
PENDING = [
    "session",
    "request_id",
    "permission",
    "patterns",
    "always",
    "metadata",
    "tool",
    "asked_at",
    "deadline",
    "tier",
    "digest",
    "agent",
]
APPROVED = [
    "grant_id",
    "scope",
    "session",
    "project",
    "permission",
    "pattern",
    "action",
    "by",
    "at",
    "expires_at",
    "request_id",
]
LOG = ["id", "version", "type", "at", "actor", "event"]
SHOW = ["session", "version", "at", "state"]
STATE = ["pending", "approved", "clients", "settled"]


def ask(ledger: CommandLine, request_id: str, *more: str) -> dict[str, Any]:
    command = ("ask", "ses_1", "bash", "git push", "--always", "git *", "--project", "shop", "--id", request_id)
    return ledger(*command, "--no-wait", "--json", *more).row


def test_ask_and_reply_print_the_same_keys(ledger: CommandLine) -> None:
    asked = ask(ledger, "r1")
    replied = ledger("reply", "r1", "always", "--as", "ann", "--json", code=0).row
    assert list(asked) == list(replied) == RESULT
    assert (asked["outcome"], asked["reply"], asked["code"]) == (None, None, None)
    assert (replied["outcome"], replied["reply"], replied["by"]) == ("allowed", "always", "ann")


def test_pending_prints_all_that_was_asked(ledger: CommandLine) -> None:
    ask(ledger, "r1", "--metadata", '{"why": "release"}', "--agent", "build")
    ledger("ask", "ses_2", "edit", "a.py", "--id", "r2", "--no-wait", "--unattended", "5m", code=7)
    ledger("ask", "ses_2", "edit", "b.py", "--id", "r3", "--no-wait", "--unattended", "none", code=7)
    rows = ledger("pending", "--json").rows
    assert [row["request_id"] for row in rows] == ["r2", "r1", "r3"], "the nearest deadline first"
    assert all(list(row)[: len(PENDING)] == PENDING for row in rows)
    shown = {name: rows[1][name] for name in ("session", "permission", "patterns", "always", "metadata", "agent")}
    assert shown == {
        "session": "ses_1",
        "permission": "bash",
        "patterns": ["git push"],
        "always": ["git *"],
        "metadata": {"why": "release"},
        "agent": "build",
    }
    assert rows[2]["deadline"] is None
    assert [row["request_id"] for row in ledger("pending", "--session", "ses_1", "--json").rows] == ["r1"]


def test_a_tool_call_waits_for_a_person_who_sees_its_input(ledger: CommandLine, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('[{"permission": "*", "pattern": "*", "action": "allow"}, '
                     '{"permission": "bash", "pattern": "make *", "action": "ask"}]')  # fmt: skip
    call = ("ask", "ses_1", "--tool", "Bash", "--input", '{"command": "make"}', "--rules", str(rules))
    ledger(*call, "--id", "r1", "--no-wait", code=7)
    row = ledger("pending", "--json").row
    assert (row["permission"], row["tool_name"], row["input"]) == ("bash", "bash", {"command": "make"})
    assert row["patterns"] == ["make"]


def test_a_grant_is_listed_answers_and_is_revoked(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", "ls", "--project", "shop", "--no-wait", code=7)
    made = ledger("grant", "--project", "shop", "bash", "git *", "make *", "--expires", "30d", "--json", code=0).rows
    assert [list(row)[: len(APPROVED)] for row in made] == [APPROVED, APPROVED]
    assert [(row["scope"], row["project"], row["pattern"]) for row in made] == [
        ("project", "shop", "git *"),
        ("project", "shop", "make *"),
    ]
    own = ledger("grant", "--session", "ses_1", "edit", "*", "--reason", "trusted", "--json", code=0).row
    assert (own["scope"], own["session"], own["expires_at"], own["reason"]) == ("session", "ses_1", None, "trusted")
    assert ledger("approved", "--project", "shop", "--json").rows == made
    assert ledger("approved", "--session", "ses_1", "--json").rows == [own, *made]
    pages = ledger.paged("approved", "--session", "ses_1", "--limit", "1")
    assert [row for page in pages for row in page] == [own, *made]
    assert ledger("ask", "ses_1", "bash", "git log", code=0).out.startswith(f"allowed by grant {made[0]['grant_id']}\n")
    revoked = ledger("revoke", made[0]["grant_id"], "--reason", "too wide", "--json", code=0).row
    assert revoked == {"grant_id": made[0]["grant_id"], "session": None, "project": "shop"}
    ledger("ask", "ses_1", "bash", "git log", "--no-wait", code=7)


def test_rules_of_a_session_stay_unless_others_are_given(ledger: CommandLine, rules: Path) -> None:
    ledger("ask", "ses_1", "bash", "git status", "--rules", rules, code=0)
    ledger("ask", "ses_1", "bash", "git status", "--attended", "5s", code=0)
    ledger("ask", "ses_1", "bash", "rm x", code=3)
    types = [row["type"] for row in ledger("log", "ses_1", "--json").rows]
    assert types == ["session_opened", "asked", "policy_changed", "asked", "asked"]


def test_a_time_that_is_given_leaves_the_others_as_they_are(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", "x", "--unattended", "5m", "--no-wait", code=7)
    ledger("ask", "ses_1", "bash", "x", "--attended", "5s", "--no-wait", code=7)
    changed = ledger("log", "ses_1", "--after", "2", "--json").rows[0]["event"]["settings"]
    assert (changed["attended_ms"], changed["unattended_ms"]) == (5000, 300_000)


def test_a_time_that_is_given_is_that_of_later_asks_too(ledger: CommandLine) -> None:
    for more in (("--unattended", "5m"), ()):
        ledger("ask", "ses_1", "bash", "x", "--no-wait", *more, code=7)
    asked = [row["event"] for row in ledger("log", "ses_1", "--json").rows if row["type"] == "asked"]
    assert [one["duration_ms"] for one in asked] == [300_000, 300_000]
    for command in ("ask", "run"):
        told = " ".join(ledger(command, "--help", code=0).out.split())
        assert "times and other settings that are given are the session's from here on" in told


def test_the_log_is_printed_from_any_version_and_followed(ledger: CommandLine) -> None:
    ask(ledger, "r1")
    rows = ledger("log", "ses_1", "--json", code=0).rows
    assert [list(row) for row in rows] == [LOG, LOG]
    assert [(row["version"], row["type"]) for row in rows] == [(1, "session_opened"), (2, "asked")]
    assert rows[0]["actor"]["kind"] == "local"
    with ledger.started("log", "ses_1", "--follow", "--after", "1", "--json") as process:
        assert process.stdout
        assert json.loads(process.stdout.readline()) == rows[1]
        ledger("reply", "r1", "once", code=0)
        followed = json.loads(process.stdout.readline())
    assert (followed["version"], followed["type"]) == (3, "replied")


def test_show_is_a_session_as_it_is_and_as_it_was(ledger: CommandLine) -> None:
    ask(ledger, "r1")
    ledger("reply", "r1", "always", "--as", "ann", code=0)
    now = ledger("show", "ses_1", "--json", code=0).row
    assert list(now)[: len(SHOW)] == SHOW
    assert list(now["state"]) == STATE
    assert [row["request_id"] for row in now["state"]["settled"]] == ["r1"]
    assert [list(row) for row in now["state"]["settled"]] == [RESULT]
    assert [row["pattern"] for row in now["state"]["approved"]] == ["git *"]

    then = ledger("show", "ses_1", "--at", "2", "--json", code=0).row
    assert (then["version"], [row["request_id"] for row in then["state"]["pending"]]) == (2, ["r1"])
    assert (then["state"]["approved"], then["state"]["settled"]) == ([], [])
    by_time = ledger("show", "ses_1", "--at", then["at"], "--json", code=0).row
    assert by_time == then
    at_reply = ledger("show", "ses_1", "--at", "3", "--json", code=0).row
    assert at_reply["state"]["approved"] == now["state"]["approved"]
    ledger("show", "ses_1", "--at", "99", code=12)
    ledger("show", "ses_1", "--at", "yesterday", code=12)
    ledger("show", "ses_1", "--at", "1999-01-01T00:00:00Z", code=9)


def test_show_is_a_page_that_says_how_to_go_on(ledger: CommandLine) -> None:
    for number in range(3):
        ask(ledger, f"r{number}")
        ledger("cancel", f"r{number}", code=0)
    row = ledger("show", "ses_1", "--limit", "2", "--json", code=0).row
    assert [one["request_id"] for one in row["state"]["settled"]] == ["r1", "r2"]
    assert row["counts"] == {"pending": 0, "approved": 0, "clients": 0, "settled": 3}
    older = ledger("show", "ses_1", "--limit", "2", "--after", row["cursor"], "--json", code=0).row
    assert ([one["request_id"] for one in older["state"]["settled"]], older["cursor"]) == (["r0"], None)
    shown = ledger("show", "ses_1", "--limit", "2", code=0)
    assert "settled: 2 of 3" in shown.out
    assert f"--after {row['cursor']}" in shown.err
    assert "settled: 3" in ledger("show", "ses_1", "--all", code=0).out
    ledger("show", "ses_1", "--all", "--limit", "2", code=2)
    ledger("show", "ses_1", "--after", "x", code=12)


def test_a_connected_client_is_shown_with_the_input_lock(ledger: CommandLine) -> None:
    program = (
        "import asyncio\nfrom ledger import Ledger\n"
        "async def main():\n"
        "    async with Ledger.connect() as ledger:\n"
        "        session = await ledger.session('ses_1', answering='lock-holder')\n"
        "        async with await session.connect('phone', actor='ann'):\n"
        "            print('there', flush=True); await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    with ledger.beside(program) as process:
        assert process.stdout
        assert process.stdout.readline() == "there\n"
        shown = ledger("show", "ses_1", "--json", code=0).row
        ledger("ask", "ses_1", "bash", "x", "--id", "r1", "--no-wait", code=7)
        ledger("reply", "r1", "once", code=0)
    assert [(client["client_id"], client["name"]) for client in shown["state"]["clients"]] == [("phone", "ann")]
    assert shown["lock"] == "phone"
    replied = next(row for row in ledger("log", "ses_1", "--json").rows if row["type"] == "replied")
    assert replied["event"]["override"] is True, "an administrator's reply is marked"


def test_replay_gives_each_event_and_the_state_after_it(ledger: CommandLine) -> None:
    ask(ledger, "r1")
    ledger("reply", "r1", "always", code=0)
    rows = ledger("replay", "ses_1", "--speed", "0", "--json", code=0).rows
    assert [list(row) for row in rows] == [[*LOG, "state", "session", "waiting"]] * 3
    pending = [(row["state"]["pending"], row["state"]["settled"], len(row["state"]["approved"])) for row in rows]
    assert pending == [([], 0, 0), (["r1"], 0, 0), ([], 1, 1)]


def test_several_sessions_are_replayed_as_one_by_time(ledger: CommandLine) -> None:
    ask(ledger, "r1")
    ledger("ask", "ses_2", "bash", "x", "--id", "r2", "--no-wait", code=7)
    ledger("reply", "r1", "once", code=0)
    rows = ledger("replay", "ses_2", "ses_1", "ses_2", "--speed", "0", "--json", code=0).rows
    assert [(row["session"], row["type"], row["waiting"]) for row in rows] == [
        ("ses_1", "session_opened", 0),
        ("ses_1", "asked", 1),
        ("ses_2", "session_opened", 1),
        ("ses_2", "asked", 2),
        ("ses_1", "replied", 1),
    ]
    assert rows[-1]["state"] == {"pending": [], "approved": [], "clients": [], "settled": 1}, "the session's own"
    by_all = ledger("replay", "--all", "--speed", "0", "--json", code=0).rows
    assert sorted(row["id"] + row["session"] for row in by_all) == sorted(row["id"] + row["session"] for row in rows)
    [*_, event, state] = ledger("replay", "--all", "--speed", "0").out.splitlines()
    assert (event.split()[0], state.split("  ")[-1]) == ("ses_1", "waiting in all: 1")


def test_sessions_are_listed_with_the_newest_first(ledger: CommandLine) -> None:
    ask(ledger, "r1")
    ledger("ask", "ses_2", "bash", "x", "--no-wait", code=7)
    ledger("close", "ses_2", code=0)
    rows = ledger("sessions", "--json", code=0).rows
    assert [(row["session"], row["project"], row["pending"]) for row in rows] == [
        ("ses_2", None, 0),
        ("ses_1", "shop", 1),
    ]
    assert rows[0]["closed_at"] is not None
    assert [row["session"] for row in ledger("sessions", "--open", "--json").rows] == ["ses_1"]
    assert [row["session"] for row in ledger("sessions", "--project", "shop", "--json").rows] == ["ses_1"]


def test_warnings_are_objects_too_where_json_was_asked_for(server_without_file: CommandLine) -> None:
    ran = server_without_file("pending", "--json", code=0)
    (warning,) = map(json.loads, ran.err.splitlines())
    assert list(warning) == ["warning"]
    assert "append-only file" in warning["warning"]


@pytest.mark.slow
def test_a_follower_hears_of_what_comes_after_it_began(ledger: CommandLine) -> None:
    ask(ledger, "r1")
    with ledger.started("ask", "ses_1", "bash", "git push", "--id", "r2", "--json") as process:
        wait_until(lambda: len(ledger("pending", "--json").rows) == 2, "the second request")
        ledger("reply", "r1", "always", code=0)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["reply"]) == (0, "always"), "an `always` releases what it now allows"


def test_the_pages_of_a_replay_are_all_of_it(ledger: CommandLine) -> None:
    for session in ("ses_1", "ses_2"):
        for number in range(3):
            ledger("ask", session, "bash", "git push", "--id", f"{session}_{number}", "--no-wait", code=7)
    words = ("replay", "ses_2", "ses_1", "--speed", "0", "--json")
    whole = ledger(*words, code=0).rows
    pages: list[Any] = []
    more: tuple[str, ...] = ()
    while True:
        ran = ledger(*words, "--limit", "3", *more, code=0)
        pages += ran.rows
        if not ran.err:
            break
        more = ("--after", json.loads(ran.err)["cursor"])
    assert len(pages) == 8
    assert pages == whole
    assert "give --limit COUNT or --whole" in ledger(*words, "--limit", "3", "--whole", code=2).err
    assert "is not a cursor" in ledger(*words, "--after", "x", code=12).err
    assert "is not among those to replay" in ledger(*words, "--after", "1-1-ses_9", code=12).err


@pytest.mark.slow
def test_a_replay_for_a_person_is_a_page_of_a_long_past(ledger: CommandLine) -> None:
    asyncio.run(_fill_long(ledger.url))
    ran = ledger("replay", "ses_1", "--speed", "0", code=0)
    assert len(ran.out.splitlines()) == 2 * EVENTS_COUNT
    cursor = ran.err.split("--after ")[1].strip("`\n")
    asyncio.run(_project(ledger.url))
    rest = ledger("replay", "ses_1", "--speed", "0", "--after", cursor, code=0)
    whole = ledger("replay", "ses_1", "--speed", "0", "--whole", code=0)
    assert ran.out + rest.out == whole.out
    assert (rest.err, whole.err) == ("", "")


async def _fill_long(url: str) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        session = await ledger.session("ses_1")
        await asyncio.gather(*(session.submit("bash", ["ls"], request_id=f"r{number}") for number in range(1100)))


async def _project(url: str) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        await project_as_a_worker(ledger)

"""Each exit code of the contract, reached by a real command."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import redis

from tests.support.command_line import ROOT, CommandLine, ended, interrupted
from tests.support.servers import RealServer
from tests.support.waiting import wait_until

HERE: Final = shlex.quote(f"--cwd={ROOT}")
"""The folder of the call, without which it would be another request."""


def asked(ledger: CommandLine, request_id: str = "r1", session: str = "ses_1") -> None:
    ledger("ask", session, "bash", "git push", "--id", request_id, "--no-wait", code=7)


@pytest.mark.process
def test_0_is_an_allow_by_rule_and_a_thing_done(ledger: CommandLine, rules: Path) -> None:
    allowed = ledger("ask", "ses_1", "bash", "git status", "--rules", rules, code=0)
    assert allowed.out.startswith("allowed by rule\n")
    assert f"why      rule `bash git status allow` ({rules}:1)\n" in allowed.out
    assert ledger("pending", code=0) == (0, "", "nothing is pending\n")


def test_1_is_our_fault_told_in_two_lines_with_a_traceback_for_developers_only(ledger: CommandLine) -> None:
    program = (
        "import sys; from workers.cli import main; from ledger import Ledger\n"
        "def broken(*_): raise RuntimeError('the moon is in the wrong\\x1b[31m house')\n"
        "Ledger.pending_pages = broken\n"
        "sys.argv = ['permission-ledger', 'pending']; sys.exit(main())"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=ledger.environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "error: this should not have happened: the moon is in the wrong\\x1b[31m house\n"
        "hint: report it on the issue tracker of permission-ledger, with what PERMISSION_LEDGER_DEBUG=1 shows\n"
    )
    debug = {**ledger.environment, "PERMISSION_LEDGER_DEBUG": "1"}
    shown = subprocess.run(command, env=debug, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback (most recent call last):" in shown.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(["aks"], "there is no command `aks`; did you mean `ask`?", marks=pytest.mark.process),
        (["pending", "--nowhere"], "no such option '--nowhere'"),
        (["ask"], "missing argument 'SESSION'"),
        (["ask", "s"], "give PERMISSION and PATTERN, or --tool NAME with --input JSON"),
        (["ask", "s", "bash"], "give at least one PATTERN after `bash` (`*` is any use of it)"),
        (["ask", "s", "--tool", "Bash"], "give PERMISSION and PATTERN, or --tool NAME with --input JSON"),
        (["ask", "s", "--input", "{}"], "--input needs --tool NAME"),
        (["ask", "s", "bash", "x", "--no-wait", "--timeout", "1s"], "give --no-wait or --timeout, not both"),
        (["approved", "--session", "s", "--project", "p"], "give --session SESSION or --project PROJECT, not both"),
        (
            ["grant", "--session", "s", "--project", "p", "bash", "*"],
            "give either --session SESSION or --project PROJECT",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_2_is_wrong_usage_and_shows_the_right_one(ledger: CommandLine, words: list[str], error: str) -> None:
    ran = ledger(*words, code=2)
    usage, told, hint = ran.err.splitlines()
    assert (ran.out, told) == ("", f"error: {error}")
    assert usage.startswith("Usage: permission-ledger ")
    assert hint.endswith("--help")


def test_3_is_a_deny_by_rule_with_the_rule(ledger: CommandLine, rules: Path) -> None:
    ran = ledger("ask", "ses_1", "bash", "rm -rf /", "--rules", rules, "--json", code=3)
    assert (ran.row["outcome"], ran.row["code"], ran.row["agent"]) == ("denied", "DENIED", "continue")
    assert [rule["text"] for rule in ran.row["evaluation"]["rules"]] == ["bash rm * deny"]


def test_4_is_a_reject_with_or_without_feedback(ledger: CommandLine) -> None:
    asked(ledger)
    ledger("reply", "r1", "DENY", code=0)
    assert "agent    stop" in ledger("ask", "ses_1", "bash", "git push", "--id", "r1", code=4).out
    asked(ledger, "r2")
    ledger("reply", "r2", "reject", "--message", "not on a Friday", code=0)
    corrected = ledger("ask", "ses_1", "bash", "git push", "--id", "r2", "--json", code=4).row
    assert (corrected["outcome"], corrected["code"], corrected["agent"]) == ("corrected", "CORRECTED", "continue")
    assert corrected["message"].endswith("with the following feedback: not on a Friday")


def test_5_is_an_expired_ask_and_a_reply_that_came_too_late(ledger: CommandLine) -> None:
    expired = ledger("ask", "ses_1", "bash", "git push", "--id", "r1", "--unattended", "50ms", "--json", code=5).row
    assert (expired["outcome"], expired["message"]) == ("expired", "Permission request expired after 0.05 seconds.")
    late = ledger("reply", "r1", "once", "--json", code=5)
    assert (late.row["outcome"], late.row["code"]) == ("expired", "PERMISSION_STALE")
    assert (late.error["code"], late.error["error"]) == ("PERMISSION_STALE", "Permission request expired")


def test_6_is_a_withdrawn_ask_and_anything_asked_of_a_closed_session(ledger: CommandLine) -> None:
    asked(ledger)
    ledger("cancel", "r1", "--reason", "not needed", code=0)
    assert "not needed" in ledger("ask", "ses_1", "bash", "git push", "--id", "r1", code=6).out
    asked(ledger, "r2")
    closed = ledger("close", "ses_1", "--json", code=0).row
    assert (closed["session"], closed["cancelled"]) == ("ses_1", ["r2"])
    assert ledger("ask", "ses_1", "bash", "git push", "--json", code=6).error["code"] == "SESSION_CLOSED"


def test_7_is_still_pending_with_the_way_to_wait_again(ledger: CommandLine) -> None:
    ran = ledger("ask", "ses_1", "bash", "git push", "--always", "git *", "--id", "r1", "--timeout", "10ms", code=7)
    assert ran.out.startswith("pending until ")
    again = f"permission-ledger ask ses_1 --id=r1 {HERE} '--always=git *' -- bash 'git push'"
    assert ran.err.splitlines()[-1] == f"hint: wait for it again with: {again}"


def test_8_is_a_ledger_that_cannot_be_reached(ledger: CommandLine, tmp_path: Path) -> None:
    ran = ledger("pending", "--url", f"unix://{tmp_path}/none.sock", "--json", code=8)
    assert (ran.out, ran.error["code"]) == ("", "UNREACHABLE")
    assert ran.error["hint"] == "without --url and PERMISSION_LEDGER_URL an embedded server is used"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["reply", "per_none", "once"], "UNKNOWN_REQUEST", marks=pytest.mark.process),
        (["cancel", "per_none"], "UNKNOWN_REQUEST"),
        (["revoke", "grn_none"], "UNKNOWN_GRANT"),
        (["token", "revoke", "tok_none"], "UNKNOWN_TOKEN"),
        (["pending", "--session", "ses_none"], "UNKNOWN_SESSION"),
        (["approved", "--session", "ses_none"], "UNKNOWN_SESSION"),
        (["close", "ses_none"], "UNKNOWN_SESSION"),
        (["show", "ses_none"], "UNKNOWN_SESSION"),
        (["log", "ses_none"], "UNKNOWN_SESSION"),
        (["replay", "ses_none"], "UNKNOWN_SESSION"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_9_is_an_id_that_nobody_knows(ledger: CommandLine, words: list[str], code: str) -> None:
    ran = ledger(*words, "--json", code=9)
    assert (ran.out, ran.error["code"]) == ("", code)
    assert ran.error["hint"].startswith("`permission-ledger ")


def test_10_is_another_answer_than_the_one_that_won(ledger: CommandLine) -> None:
    asked(ledger)
    ledger("reply", "r1", "once", "--as", "ann", code=0)
    lost = ledger("reply", "r1", "reject", "--json", code=10)
    assert (lost.row["outcome"], lost.row["reply"], lost.row["by"]) == ("allowed", "once", "ann")
    assert (lost.row["code"], lost.error["code"]) == ("ALREADY_ANSWERED", "ALREADY_ANSWERED")
    assert lost.error["error"] == "request `r1` was already allowed by ann (once)"
    assert ledger("cancel", "r1", "--json", code=10).error["code"] == "ALREADY_ANSWERED"


def test_the_same_answer_again_is_done_and_says_so(ledger: CommandLine) -> None:
    asked(ledger)
    ledger("reply", "r1", "once", code=0)
    again = ledger("reply", "r1", "ALLOW_ONCE", code=0)
    assert again.err == "info: request `r1` was already answered the same way\n"


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ('{"ok": true}', "allowed"),
        ('{"ok": false}', "rejected"),
        ('{"ok": false, "reason": "use rg"}', "corrected"),
    ],
)
def test_codelias_confirm_result_is_an_answer_on_the_command_line(ledger: CommandLine, said: str, outcome: str) -> None:
    asked(ledger)
    assert ledger("reply", "r1", said, "--json", code=0).row["outcome"] == outcome


def test_11_is_a_stream_that_somebody_damaged(ledger: CommandLine, server: RealServer) -> None:
    asked(ledger)
    with redis.Redis.from_url(server.url) as client:
        (stream,) = [key for key in client.scan_iter(_type="STREAM") if key.endswith(b"ses_1")]
        client.xadd(stream, {"d": "{}"})
    ran = ledger("show", "ses_1", code=11)
    assert ledger("show", "ses_1", "--json", code=11).error["session"] == "ses_1"
    assert "hint: `permission-ledger verify --all` says which events are wrong" in ran.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ask", "s", "bash", "x", "--timeout", "soon"], "the --timeout `soon` is not a duration"),
        (["ask", "s", "bash", "x", "--unattended", "-1s"], "the --unattended `-1s` is not a duration"),
        (["ask", "s", "bash", "x", "--metadata", "{oops"], "--metadata `{oops` is not JSON"),
        (["ask", "s", "bash", "x", "--metadata", '{"a": NaN}'], "is not JSON: NaN is not a JSON value"),
        (["ask", "s", "bash", "x", "--metadata", "[" * 9999], "is not JSON"),
        (["ask", "s", "--tool", "Bash", "--input", "null"], "--input `null` is not a JSON object"),
        (["ask", "s", "bash", "x", "--rules", "/nowhere/rules.json"], "`/nowhere/rules.json` cannot be read"),
        (["ask", "s", "bash", "x", "--dialect", "klingon"], "the dialect `klingon` is not known"),
        (["ask", "a session", "bash", "x"], "the session id 'a session' holds white space"),
        (["ask", "s", "bash", "x", "--id", ""], "the request id is empty"),
        (["grant", "--project", "p", "bash", "*", "--expires", "0s"], "is out of range"),
        (["pending", "--url", "gopher://u:hush@x"], "unsupported URL scheme in `gopher://u:***@x`"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_12_is_input_that_cannot_be_taken(ledger: CommandLine, words: list[str], told: str) -> None:
    ran = ledger(*words, code=12)
    assert ran.out == ""
    assert ran.err.splitlines()[0].startswith("error: ")
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_12_is_also_a_reply_that_is_none_and_the_request_stays_pending(ledger: CommandLine) -> None:
    asked(ledger)
    told = ledger("reply", "r1", "perhaps", code=12).err
    assert told == "error: `perhaps` is not a reply; use `once`, `session`, `always` or `reject`\n"
    assert [row["request_id"] for row in ledger("pending", "--json", code=0).rows] == ["r1"]


def test_12_is_also_an_id_that_several_sessions_know(ledger: CommandLine) -> None:
    asked(ledger, session="ses_1")
    asked(ledger, session="ses_2")
    ran = ledger("reply", "r1", "once", "--json", code=12)
    assert (ran.error["code"], ran.error["sessions"]) == ("INPUT", ["ses_1", "ses_2"])
    ledger("reply", "r1", "once", "--session", "ses_2", code=0)


def test_12_is_also_an_answer_to_something_else_than_what_is_pending(ledger: CommandLine) -> None:
    asked(ledger)
    assert ledger("reply", "r1", "once", "--digest", "0" * 64, "--json", code=12).error["code"] == "DIGEST_MISMATCH"


def test_12_is_also_a_request_id_with_another_content(ledger: CommandLine) -> None:
    asked(ledger)
    ran = ledger("ask", "ses_1", "bash", "git pull", "--id", "r1", "--json", code=12)
    assert ran.error["code"] == "DIFFERENT_REQUEST"


def test_130_is_ctrl_c_which_leaves_the_request_pending_and_says_how_to_go_on(ledger: CommandLine) -> None:
    with ledger.started("ask", "ses_1", "bash", "git push", "--id", "r1") as process:
        assert process.stderr
        assert process.stderr.readline().startswith("waiting for an answer to r1")
        ran = interrupted(process)
    again = f"permission-ledger ask ses_1 --id=r1 {HERE} -- bash 'git push'"
    assert ran == (130, "", f"the request stays pending; wait for it again with: {again}\n")
    assert [row["request_id"] for row in ledger("pending", "--json").rows] == ["r1"]


def test_141_is_a_reader_that_went_away(ledger: CommandLine) -> None:
    asked(ledger)
    with ledger.started("log", "ses_1", "--follow") as process:
        assert process.stdout
        assert process.stdout.readline()
        process.stdout.close()
        # Events enough to fill what the pipe would still have taken.
        ledger("cancel", "r1", code=0)
        wait_until(lambda: process.poll() is not None, "the follower's end")
        assert process.stderr
        assert (process.returncode, process.stderr.read()) == (141, "")


def test_an_answer_reaches_who_waits_in_another_process(ledger: CommandLine) -> None:
    with ledger.started("ask", "ses_1", "bash", "git push", "--id", "r1", "--json") as process:
        wait_until(lambda: ledger("pending", "--json").rows, "the request")
        ledger("reply", "r1", "once", "--as", "ann", code=0)
        ran = ended(process)
    assert (ran.code, ran.err) == (0, "")
    assert (ran.row["outcome"], ran.row["reply"], ran.row["by"]) == ("allowed", "once", "ann")


def test_3_is_also_a_yes_that_a_newer_rule_overrules(ledger: CommandLine, tmp_path: Path) -> None:
    asked(ledger)
    stricter = tmp_path / "stricter.json"
    stricter.write_text('[{"permission": "bash", "pattern": "git push*", "action": "deny"}]')
    ledger("ask", "ses_1", "bash", "git status", "--rules", stricter, "--no-wait", code=7)
    answered = ledger("reply", "r1", "once", "--as", "ann", code=3)
    assert answered.out.startswith("denied by the current rules, although ann answered once\n")
    assert "why      rule `bash git push* deny`" in answered.out

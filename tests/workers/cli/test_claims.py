"""`claim`, `finish` and `release`: what a script calls around a call that it runs by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def allowed(ledger: CommandLine, rules: Path) -> CommandLine:
    """A ledger whose request `r1` is allowed by a person."""
    ledger("ask", "ses_1", "bash", "git push", "--id", "r1", "--rules", rules, "--no-wait", code=7)
    ledger("reply", "r1", "once", "--as", "ann", code=0)
    return ledger


@pytest.mark.slow
@pytest.mark.process
def test_the_first_runner_claims_and_another_is_told_who(allowed: CommandLine) -> None:
    first = allowed("claim", "r1", "--runner", "job-7", "--json", code=0).row
    assert (first["request_id"], first["runner"], first["round"]) == ("r1", "job-7", 1)
    assert allowed("claim", "r1", "--runner", "job-7", "--json", code=0).row == first
    refused = allowed("claim", "r1", "--runner", "job-8", "--json", code=13).error
    assert (refused["code"], refused["runner"], refused["agent"]) == ("ALREADY_CLAIMED", "job-7", "stop")


@pytest.mark.slow
@pytest.mark.process
def test_a_process_is_its_own_runner_where_none_is_named(allowed: CommandLine) -> None:
    # Both are called by this process.
    allowed("claim", "r1", code=0)
    allowed("claim", "r1", code=0)
    program = (
        "import subprocess, sys\n"
        "sys.exit(subprocess.run([sys.executable, '-m', 'workers.cli', 'claim', 'r1']).returncode)"
    )
    with allowed.beside(program) as other:
        assert other.wait(timeout=60) == 13


def test_an_end_is_recorded_under_its_claim_and_the_call_does_not_run_again(allowed: CommandLine) -> None:
    allowed("claim", "r1", "--runner", "job-7", code=0)
    done = allowed("finish", "r1", "--runner", "job-7", "--failed", "--output", "exit code 3", "--json", code=0).row
    assert (done["claim"]["status"], done["claim"]["may_have_run"]) == ("finished", False)
    assert "has run already" in allowed("claim", "r1", "--runner", "job-7", code=13).err
    [event] = [row["event"] for row in allowed("log", "ses_1", "--json").rows if row["type"] == "tool_finished"]
    assert (event["ok"], event["detail"]["output"]) == (False, "exit code 3")


def test_a_claim_is_ended_by_its_id_as_well(allowed: CommandLine) -> None:
    claim_id = allowed("claim", "r1", "--json", code=0).row["claim_id"]
    assert allowed("finish", "r1", "--claim", claim_id, "--json", code=0).row["claim"]["status"] == "finished"
    assert allowed("finish", "r1", "--claim", "clm_1", "--runner", "job-7").code == 2


def test_a_released_claim_is_free_for_another_runner(allowed: CommandLine) -> None:
    allowed("claim", "r1", "--runner", "job-7", code=0)
    allowed("release", "r1", "--reason", "the job was killed before it began", "--as", "ann", code=0)
    allowed("claim", "r1", "--runner", "job-8", code=0)
    [event] = [row for row in allowed("log", "ses_1", "--json").rows if row["type"] == "claim_released"]
    assert (event["actor"]["name"], event["event"]["detail"]["reason"]) == (
        "ann",
        "the job was killed before it began",
    )


def test_what_is_pending_or_denied_cannot_be_claimed(ledger: CommandLine, rules: Path) -> None:
    ledger("ask", "ses_1", "bash", "git push", "--id", "r1", "--rules", rules, "--no-wait", code=7)
    ledger("ask", "ses_1", "bash", "rm x", "--id", "r2", code=3)
    assert ledger("claim", "r1", "--json", code=7).error["code"] == "STILL_PENDING"
    assert ledger("claim", "r2", "--json", code=3).error["code"] == "DENIED"
    assert ledger("claim", "r3", "--json", code=9).error["code"] == "UNKNOWN_REQUEST"


def test_show_says_of_a_claimed_call_that_it_may_have_run_and_then_that_it_has(allowed: CommandLine) -> None:
    allowed("claim", "r1", "--runner", "job-7", code=0)
    assert "may have run: no end recorded yet (job-7)" in allowed("show", "ses_1", code=0).out
    [settled] = allowed("show", "ses_1", "--json", code=0).row["state"]["settled"]
    assert (settled["claim"]["status"], settled["claim"]["may_have_run"]) == ("open", True)
    allowed("finish", "r1", "--runner", "job-7", code=0)
    assert "has run (job-7)" in allowed("show", "ses_1", code=0).out

"""Completion by a shell: commands, options, and ids of what the ledger has."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import PROGRAM, CommandLine
from workers.cli.id_completion import completed


def completions(ledger: CommandLine, *words: str, code: int = 0, **environment: str) -> list[str]:
    """Return what bash is offered for the last of the words, as click's script asks for it."""
    ran = ledger(
        code=code,
        _PERMISSION_LEDGER_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(("permission-ledger", *words)),
        COMP_CWORD=str(len(words)),
        **environment,
    )
    assert ran.err == ""
    return [line.partition(",")[2] for line in ran.out.splitlines() if line]


def test_commands_and_options_are_completed(ledger: CommandLine) -> None:
    assert {"reply", "replay", "redact"} <= set(completions(ledger, "re"))
    assert completions(ledger, "reply", "--mat") == ["--matching"]


def test_ids_of_pending_requests_sessions_and_grants_are_completed(ledger: CommandLine) -> None:
    for request in ("call_41", "call_42"):
        ledger("ask", "ses_alpha", "bash", f"git push {request}", "--id", request, "--no-wait", code=7)
    ledger("reply", "call_42", "once", code=0)
    grant = ledger("grant", "--session", "ses_alpha", "bash", "make *", "--json", code=0).row["grant_id"]
    assert completions(ledger, "reply", "ca") == ["call_41"]
    assert completions(ledger, "reply", "call_41", "on") == ["once"]
    assert completions(ledger, "show", "ses_") == ["ses_alpha"]
    assert completions(ledger, "pending", "--session", "ses") == ["ses_alpha"]
    assert completions(ledger, "revoke", grant[:6]) == [grant]


@pytest.mark.parametrize(
    "hostile", ["ses_$(touch${IFS}x)", "ses_`id`", "ses_;id", "ses_|sh", "--yes", "ses_'x", "ses_>x"]
)
def test_an_id_that_a_shell_would_run_is_not_completed(ledger: CommandLine, hostile: str) -> None:
    ledger("ask", "--id", "r1", "--no-wait", "--", hostile, "bash", "ls", code=7)
    assert completions(ledger, "show", hostile[:4]) == []


def test_a_ledger_that_cannot_be_read_completes_nothing_and_says_nothing(ledger: CommandLine, tmp_path: Path) -> None:
    assert completions(ledger, "show", "ses_", PERMISSION_LEDGER_URL="redis://127.0.0.1:1") == []
    assert completions(ledger, "show", "ses_", PERMISSION_LEDGER_URL=f"embedded://{tmp_path}/none") == []
    assert not (tmp_path / "none").exists(), "no server is started"


def test_a_completion_leaves_the_log_of_its_process_on() -> None:
    assert completed("sessions", "", "redis://127.0.0.1:1") == []
    assert logging.getLogger().isEnabledFor(logging.CRITICAL)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_names_the_program(ledger: CommandLine, shell: str) -> None:
    script = ledger("completion", shell, code=0).out
    assert f"_PERMISSION_LEDGER_COMPLETE={shell}_complete" in script


def test_bash_takes_the_script(ledger: CommandLine) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    line = f'eval "$({" ".join(PROGRAM)} completion bash)" && complete -p permission-ledger'
    ran = subprocess.run([bash, "-c", line], env=ledger.environment, capture_output=True, text=True, check=True)
    assert "_permission_ledger_completion" in ran.stdout

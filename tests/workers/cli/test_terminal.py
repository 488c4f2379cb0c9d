"""Terminal output: harmless for every text of an agent, with colours and tables on a terminal only."""

from __future__ import annotations

import json
import subprocess
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.command_line import PROGRAM, ROOT, CommandLine
from tests.support.terminals import on_a_terminal
from workers.presentation.text import json_line, visible, without_passwords

HOSTILE = "rm -rf ~\x1b[2K\x1b[1Gls\r\u202egpj.exe\x9b31m\u200b\u3164[red]\n\x07"
SHOWN = r"rm -rf ~\x1b[2K\x1b[1Gls\r\u202egpj.exe\x9b31m\u200b\u3164[red]\n\x07"
ON_A_LINE = SHOWN.replace("\\n", "⏎")


@given(st.text())
def test_no_character_that_moves_hides_or_turns_reaches_a_terminal(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert not {unicodedata.category(one) for one in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_is_one_printable_line_that_reads_back_as_the_same(value: object) -> None:
    line = json_line(value)
    assert line.isprintable()
    assert json.loads(line) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("redis://:hush@host/0", "redis://:***@host/0"),
        ("rediss://ann:hu@sh/1@host:6379", "rediss://ann:***@host:6379"),
        ("unix:///s.sock?password=hush&db=1", "unix:///s.sock?password=***&db=1"),
        ("redis://host:6379/0", "redis://host:6379/0"),
    ],
)
def test_a_password_in_a_url_is_blotted_out(text: str, told: str) -> None:
    assert without_passwords(text) == told


def test_a_wrong_password_is_told_without_showing_it(ledger: CommandLine) -> None:
    url = ledger.url.replace("unix://", "unix://ann:hush@")
    for words in (["pending"], ["pending", "--json"], ["sessions"]):
        ran = ledger(*words, "--url", url, PERMISSION_LEDGER_DEBUG="1")
        assert ran.code == 12
        assert "the server does not take this user name or password" in ran.err
        assert "hush" not in ran.err


def test_what_an_agent_wrote_is_shown_harmlessly_everywhere(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", HOSTILE, "--always", HOSTILE, "--id", "r1", "--no-wait", code=7)
    ran = [ledger(*words) for words in (["pending"], ["show", "ses_1"], ["log", "ses_1"], ["replay", "ses_1"])]
    ran.append(ledger("reply", "r1", "reject", "--message", HOSTILE))
    for one in ran:
        assert SHOWN in one.out or ON_A_LINE in one.out
        assert one.out.replace("\n", "").isprintable()
    row = ledger("show", "ses_1", "--at", "2", "--json")
    assert row.out.rstrip("\n").isprintable()
    assert row.row["state"]["pending"][0]["patterns"] == [HOSTILE]


@pytest.mark.slow
def test_a_terminal_gets_a_table_that_obeys_nothing_an_agent_wrote(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", HOSTILE, "--id", "r1", "--no-wait", code=7)
    table = on_a_terminal(ledger, "pending")
    assert "\x1b[1m" in table, "its head is bold"
    assert "[red]" in "".join(table.split()), "square brackets are no markup"
    assert "\x1b[2K" not in table
    assert "\u202e" not in table


def test_a_narrow_terminal_gets_what_would_run_below_its_row(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", HOSTILE, "--id", "r1", "--no-wait", code=7)
    lines = on_a_terminal(ledger, "pending", COLUMNS="60").splitlines()
    assert "r1" in lines[1]
    assert "".join(ON_A_LINE.split()) in "".join("".join(lines[2:]).split())
    assert all(line.startswith("  ") for line in lines[2:])


@pytest.mark.slow
def test_no_color_is_respected(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", "git push", "--id", "r1", "--no-wait", code=7)
    assert "\x1b[3" not in on_a_terminal(ledger, "pending", NO_COLOR="1")


def test_a_pipe_gets_no_escape_sequence_and_every_line_in_full(ledger: CommandLine) -> None:
    command = "echo " + "x" * 500
    ledger("ask", "ses_1", "bash", command, "--id", "r1", "--no-wait", code=7)
    piped = ledger("pending", FORCE_COLOR="1").out
    assert "\x1b" not in piped
    assert command in piped


def test_a_reader_that_takes_the_first_line_only_hears_no_complaint(ledger: CommandLine, tmp_path: Path) -> None:
    ledger("ask", "ses_1", "bash", "x", "--no-wait", code=7)
    errors = tmp_path / "errors"
    line = f"{' '.join(PROGRAM)} log ses_1 2>{errors} | head -n 1"
    done = subprocess.run(
        line, shell=True, cwd=ROOT, env=ledger.environment, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) == 1
    assert errors.read_text() == ""

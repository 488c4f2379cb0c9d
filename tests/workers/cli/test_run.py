"""`run`: exactly these words, once they are allowed, as if they had been typed alone."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from ledger import Ledger
from tests.support.command_line import PROGRAM, CommandLine, Ran, ended
from tests.support.waiting import wait_until

ALLOW: Final = '[{"permission": "bash", "pattern": "*", "action": "allow"}]'
ASK: Final = '[{"permission": "bash", "pattern": "*", "action": "ask"}]'
WAITING: Final = "waiting for an answer to r1, e.g. `permission-ledger reply r1 once`\n"

Script = Callable[..., Path]

SHOWS_WORDS: Final = "import json, sys; print(json.dumps(sys.argv[1:]))"
COUNTS: Final = """
import signal, sys
counted = [one for one in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1) if signal.getsignal(one) is not signal.SIG_IGN]
waited = [*counted, signal.SIGTERM]
signal.pthread_sigmask(signal.SIG_BLOCK, waited)
print("ready", flush=True)
count = 0
while (number := signal.sigwait(waited)) != signal.SIGTERM:
    count += 1
    print("got", signal.Signals(number).name, flush=True)
sys.exit(count)
"""
"""A program that prints each signal, and ends on SIGTERM with their number as its exit code."""


@pytest.fixture
def allowing(tmp_path: Path) -> Path:
    file = tmp_path / "allow.json"
    file.write_text(ALLOW)
    return file


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Writes programs, which the rules allow by their names; what an interpreter is told on its line they ask about."""

    def write(text: str, interpreter: str = "/bin/sh") -> Path:
        file = tmp_path / f"program{len(list(tmp_path.glob('program*')))}"
        file.write_text(f"#!{interpreter}\n{text}\n")
        file.chmod(0o700)
        return file

    return write


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    file = tmp_path / "ask.json"
    file.write_text(ASK)
    return file


@pytest.fixture
def home(tmp_path: Path, ledger: CommandLine) -> Path:
    """A data folder of the test's own, for all commands of `ledger`."""
    folder = tmp_path / "home"
    ledger.environment["PERMISSION_LEDGER_HOME"] = str(folder)
    return folder


def hear_all_signals() -> None:
    """Undo what the tests' own process inherited, as under `nohup` and in the background of a shell."""
    for one in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(one, signal.SIG_DFL)


@contextmanager
def begun(
    ledger: CommandLine, *words: str | Path, preexec_fn: Callable[[], None] = hear_all_signals
) -> Iterator[subprocess.Popen[str]]:
    """Start `run` with pipes, in a process group of its own."""
    process = subprocess.Popen(
        [*PROGRAM, "run", "--timeout", "60s", *map(str, words)],
        cwd=ledger.folder,
        env=ledger.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=preexec_fn,  # noqa: PLW1509 - the tests of `run` start no threads
    )
    try:
        with process:
            yield process
            if process.poll() is None:
                process.kill()
    finally:
        process.kill()


def events(ledger: CommandLine, *types: str) -> list[dict[str, Any]]:
    rows = ledger("log", "ses_1", "--json", code=0).rows
    return [row for row in rows if not types or row["type"] in types]


def said(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout
    assert process.stdout.readline() == f"{line}\n"


# --- the words --------------------------------------------------------------------------------------------------------


def test_the_words_run_as_they_are_and_no_shell_reads_them(ledger: CommandLine, allowing: Path, script: Script) -> None:
    words = ["$HOME", "a b", "*", "x;y", "", "--json", "'"]
    shows = script(SHOWS_WORDS, sys.executable)
    ran = ledger("run", "ses_1", "--rules", allowing, "--", shows, *words, code=0)
    assert (json.loads(ran.out), ran.err) == (words, "")


def test_a_line_runs_in_a_shell_where_that_is_said(ledger: CommandLine, allowing: Path) -> None:
    ran = ledger("run", "ses_1", "--rules", allowing, "--shell", "echo a b | tr a-z A-Z && exit 5", code=5)
    assert ran.out == "A B\n"


def test_the_log_says_who_asked_who_ran_it_and_how_it_ended(
    ledger: CommandLine, allowing: Path, script: Script
) -> None:
    ledger("run", "ses_1", "--rules", allowing, "--id", "r1", "--", script("exit 3"), code=3)
    claimed, finished = events(ledger, "claimed", "tool_finished")
    assert claimed["event"]["runner"].startswith("run by ")
    assert finished["event"]["claim_id"] == claimed["event"]["claim_id"]
    assert (finished["event"]["ok"], finished["event"]["detail"]["output"]) == (False, "exit code 3")


def test_a_command_runs_in_the_folder_that_is_named_and_is_judged_there(
    ledger: CommandLine, asking: Path, tmp_path: Path
) -> None:
    ledger.folder = tmp_path.resolve()
    below = ledger.folder / "services" / "a b"
    below.mkdir(parents=True)
    program = below / "program.sh"
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o700)
    words = ("ses_1", "--rules", asking, "--id", "r1", "--cwd", "services/a b")
    waiting = ledger("run", *words, "--no-wait", "--", "./program.sh", code=7)
    assert f"'--cwd={below}'" in waiting.err
    (asked,) = events(ledger, "asked")
    assert asked["event"]["detail"]["cwd"] == str(below)
    assert [one["path"] for one in asked["event"]["detail"]["operands"]] == [str(program)]
    ledger("reply", "r1", "once", code=0)
    assert "was asked in" in ledger("run", "ses_1", "--id", "r1", "--", "./program.sh", code=12).err
    assert ledger("run", *words, "--", "./program.sh", code=0).out == f"{below}\n"
    (opened,) = events(ledger, "session_opened")
    assert opened["event"]["detail"]["cwd"] == str(ledger.folder)


def test_a_folder_that_is_not_there_is_wrong_usage(ledger: CommandLine) -> None:
    assert "nowhere` is no folder" in ledger("run", "ses_1", "--cwd", "nowhere", "--", "ls", code=2).err


@pytest.mark.parametrize("words", [[], ["--", ""], ["--shell", " "], ["--shell", "ls", "--", "ls"]])
def test_nothing_to_run_or_two_things_are_wrong_usage(ledger: CommandLine, words: list[str]) -> None:
    assert ledger("run", "ses_1", *words).code == 2


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_a_rule_denies_does_not_run(ledger: CommandLine, rules: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.touch()
    ran = ledger("run", "ses_1", "--rules", rules, "--", "rm", kept, code=3)
    assert (ran.out, kept.exists()) == ("", True)
    assert ran.err.startswith("error: The user has specified a rule which prevents you")


def test_a_refusal_is_one_object_on_stderr_for_a_program(ledger: CommandLine, rules: Path) -> None:
    ran = ledger("run", "ses_1", "--rules", rules, "--json", "--", "rm", "x", code=3)
    assert (ran.out, ran.error["code"], ran.error["agent"]) == ("", "DENIED", "continue")


def test_what_waits_for_a_person_does_not_run_and_can_be_waited_for_again(ledger: CommandLine, asking: Path) -> None:
    ran = ledger("run", "ses_1", "--rules", asking, "--id", "r1", "--no-wait", "--", "echo", "it ran", code=7)
    again = "permission-ledger run ses_1 --id=r1 -- echo 'it ran'"
    assert (ran.out, ran.err) == ("", f"hint: wait for it again with: {again}\n")
    ledger("reply", "r1", "once", "--as", "ann", code=0)
    assert ledger("run", "ses_1", "--id", "r1", "--", "echo", "it ran", code=0).out == "it ran\n"


@pytest.mark.slow
def test_a_rejection_ends_the_wait_and_nothing_runs(ledger: CommandLine, asking: Path) -> None:
    with begun(ledger, "ses_1", "--rules", asking, "--id", "r1", "--", "echo", "it ran") as process:
        assert process.stderr
        assert process.stderr.readline() == WAITING
        ledger("reply", "r1", "reject", "--message", "not now", "--as", "ann", code=0)
        ran = ended(process)
    assert (ran.code, ran.out) == (4, "")
    assert "not now" in ran.err


def test_a_deny_that_is_newer_than_the_answer_stops_the_run(ledger: CommandLine, asking: Path, tmp_path: Path) -> None:
    ledger("run", "ses_1", "--rules", asking, "--id", "r1", "--no-wait", "--", "echo", "it ran", code=7)
    ledger("reply", "r1", "once", "--as", "ann", code=0)
    stricter = tmp_path / "stricter.json"
    stricter.write_text('[{"permission": "bash", "pattern": "echo*", "action": "deny"}]')
    ledger("ask", "ses_1", "bash", "ls", "--rules", stricter, "--no-wait", code=7)
    ran = ledger("run", "ses_1", "--id", "r1", "--", "echo", "it ran", code=3)
    assert ran.out == ""
    assert [row["event"]["cause"] for row in events(ledger, "reopened")] == ["rules"]


# --- in the place of the command --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_input_output_and_errors_are_the_commands_own(ledger: CommandLine, allowing: Path, script: Script) -> None:
    program = script("cat; echo oops >&2; exit 9")
    with begun(ledger, "ses_1", "--rules", allowing, "--", program) as process:
        out, err = process.communicate("one\ntwo\n", timeout=60)
    assert (process.returncode, out, err) == (9, "one\ntwo\n", "oops\n")


def test_a_command_that_is_not_there_or_cannot_be_executed_ends_as_in_a_shell(
    ledger: CommandLine, allowing: Path, tmp_path: Path
) -> None:
    ran = ledger("run", "ses_1", "--rules", allowing, "--", "nosuchcommand", code=127)
    assert ran.err == "error: `nosuchcommand` was not started: no such file or directory\n"
    text = tmp_path / "text"
    text.write_text("no program")
    assert ledger("run", "ses_1", "--", text, code=126).err.endswith("not started: permission denied\n")
    assert [row["event"]["ok"] for row in events(ledger, "tool_finished")] == [False, False]


def test_a_command_that_a_signal_ends_gives_128_and_its_number(
    ledger: CommandLine, allowing: Path, script: Script
) -> None:
    ledger("run", "ses_1", "--rules", allowing, "--", script("kill -USR2 $$"), code=128 + signal.SIGUSR2)
    [finished] = events(ledger, "tool_finished")
    assert finished["event"]["detail"]["output"] == "ended by SIGUSR2"


def test_a_reader_that_went_away_ends_the_command_as_it_ends_every_other(ledger: CommandLine, allowing: Path) -> None:
    with begun(ledger, "ses_1", "--rules", allowing, "--", "yes") as process:
        assert process.stdout
        assert process.stdout.readline() == "y\n"
        process.stdout.close()
        assert process.wait(timeout=60) == 128 + signal.SIGPIPE


@pytest.mark.slow
def test_signals_go_to_the_command_once_each_and_its_own_end_counts(
    ledger: CommandLine, allowing: Path, script: Script
) -> None:
    with begun(ledger, "ses_1", "--rules", allowing, "--", script(COUNTS, sys.executable)) as process:
        said(process, "ready")
        for one in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            process.send_signal(one)
            said(process, f"got {one.name}")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 3
    [finished] = events(ledger, "tool_finished")
    assert finished["event"]["detail"]["output"] == "exit code 3"


@pytest.mark.slow
def test_a_signal_that_was_ignored_from_the_start_stays_ignored(
    ledger: CommandLine, allowing: Path, script: Script
) -> None:
    def as_nohup() -> None:
        hear_all_signals()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    words = ("ses_1", "--rules", allowing, "--", script(COUNTS, sys.executable))
    with begun(ledger, *words, preexec_fn=as_nohup) as process:
        said(process, "ready")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGUSR1)
        said(process, "got SIGUSR1")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 1


@pytest.mark.slow
def test_a_key_at_the_terminal_reaches_the_command_once(ledger: CommandLine, allowing: Path, script: Script) -> None:
    words = [*PROGRAM, "run", "ses_1", "--rules", str(allowing), "--", str(script(COUNTS, sys.executable))]
    child, terminal = pty.fork()
    if child == 0:
        hear_all_signals()
        os.chdir(ledger.folder)
        os.execve(words[0], words, ledger.environment)
    shown = bytearray()

    def is_shown(text: bytes, count: int = 1) -> bool:
        shown.extend(os.read(terminal, 4096))
        return shown.count(text) >= count

    try:
        wait_until(lambda: is_shown(b"ready"), lambda: f"the command to start: {bytes(shown)!r}")
        os.write(terminal, b"\x03")
        wait_until(lambda: is_shown(b"got SIGINT"), "the first Ctrl-C")
        os.write(terminal, b"\x03")
        wait_until(lambda: is_shown(b"got SIGINT", 2), "the second Ctrl-C")
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 2


@pytest.mark.slow
def test_ctrl_c_while_it_waits_leaves_the_request_pending(ledger: CommandLine, asking: Path) -> None:
    with begun(ledger, "ses_1", "--rules", asking, "--id", "r1", "--", "echo", "it ran") as process:
        assert process.stderr
        assert process.stderr.readline() == WAITING
        process.send_signal(signal.SIGINT)
        ran = ended(process)
    again = "permission-ledger run ses_1 --id=r1 -- echo 'it ran'"
    assert ran == Ran(130, "", f"the request stays pending; wait for it again with: {again}\n")
    assert [row["request_id"] for row in ledger("pending", "--json").rows] == ["r1"]


# --- once -------------------------------------------------------------------------------------------------------------


def test_a_run_that_ended_does_not_run_again(ledger: CommandLine, allowing: Path, home: Path) -> None:
    ledger("run", "ses_1", "--rules", allowing, "--id", "r1", "--", "echo", "it ran", code=0)
    ran = ledger("run", "ses_1", "--id", "r1", "--", "echo", "it ran", code=13)
    assert ran.out == ""
    assert "was claimed by `run by " in ran.err
    assert list((home / "runs").rglob("*")) == [home / "runs" / "ses_1"]


@pytest.mark.slow
def test_a_killed_run_is_claimed_again_by_the_same_words_and_refused_for_another_process(
    ledger: CommandLine, allowing: Path, script: Script, tmp_path: Path, home: Path
) -> None:
    counted = tmp_path / "counted"
    program = script(f"echo x >> {counted}; test $(wc -l < {counted}) -gt 1 || exec sleep 600")
    words = ("--id", "r1", "--", program)
    with begun(ledger, "ses_1", "--rules", allowing, *words) as process:
        wait_until(counted.exists, "the command to run")
        beside = ledger("run", "ses_1", *words, code=13)
        assert beside.err.startswith("error: request `r1` was claimed by `run by ")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
    other = ledger("claim", "r1", "--runner", "somebody else", code=13)
    assert "was claimed by `run by " in other.err
    elsewhere = ledger("run", "ses_1", *words, code=13, PERMISSION_LEDGER_HOME=str(tmp_path / "elsewhere"))
    assert "was claimed by `run by " in elsewhere.err
    again = ledger("run", "ses_1", *words, code=0)
    assert again.err == "warning: an earlier run of r1 was killed, and may have run in part\n"
    assert counted.read_text() == "x\nx\n"
    types = [row["type"] for row in events(ledger, "claimed", "claim_released", "tool_finished")]
    assert types == ["claimed", "claim_released", "claimed", "tool_finished"]
    assert home.exists()


def test_another_command_under_the_same_id_is_another_request(ledger: CommandLine, allowing: Path) -> None:
    ledger("run", "ses_1", "--rules", allowing, "--id", "r1", "--", "echo", "one", code=0)
    ran = ledger("run", "ses_1", "--id", "r1", "--", "echo", "two", code=12)
    assert ran.out == ""


# --- as a person changed it -------------------------------------------------------------------------------------------


def change(ledger: CommandLine, line: str) -> None:
    """Allow `r1` as another line."""

    async def reply() -> None:
        async with Ledger.connect(ledger.url, entry_points=False) as opened:
            session = await opened.attach("ses_1")
            await session.reply("r1", "once", actor="ann", updated_input={"command": line})

    asyncio.run(reply())


def changed(ledger: CommandLine, asking: Path, line: str, *words: str) -> Ran:
    """Return the end of a run whose command a person changed before it."""
    ledger("run", "ses_1", "--rules", asking, "--id", "r1", "--no-wait", *words, code=7)
    change(ledger, line)
    return ledger("run", "ses_1", "--id", "r1", *words)


def test_what_runs_is_the_command_as_a_person_changed_it(ledger: CommandLine, asking: Path) -> None:
    with begun(ledger, "ses_1", "--rules", asking, "--id", "r1", "--", "echo", "all") as process:
        assert process.stderr
        assert process.stderr.readline() == WAITING
        change(ledger, "echo 'only this'")
        assert ended(process) == Ran(0, "only this\n", "")


@pytest.mark.parametrize("line", ["echo a > f", "echo $HOME", "echo a && echo b", "echo *"])
def test_words_do_not_become_a_shell_line_and_the_claim_is_given_back(
    ledger: CommandLine, asking: Path, line: str
) -> None:
    ran = changed(ledger, asking, line, "--", "echo", "all")
    assert (ran.code, ran.out) == (12, "")
    assert f"it was allowed only as `{line}`, which needs a shell" in ran.err
    assert [row["type"] for row in events(ledger, "claimed", "claim_released")] == ["claimed", "claim_released"]


def test_a_line_may_become_another_line(ledger: CommandLine, asking: Path) -> None:
    assert changed(ledger, asking, "echo a && echo b", "--shell", "echo all").out == "a\nb\n"


SECRET: Final = "ghp" + "_Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2Rr1Qq0Pp9Oo8N"


def test_a_command_with_a_secret_that_a_rule_allows_runs_with_it_and_the_log_has_a_mask(
    ledger: CommandLine, allowing: Path, script: Script
) -> None:
    shows = script(SHOWS_WORDS, sys.executable)
    ran = ledger("run", "ses_1", "--rules", allowing, "--", shows, "--token", SECRET, code=0)
    assert (json.loads(ran.out), ran.err) == (["--token", SECRET], "")
    assert [row["type"] for row in events(ledger)] == ["session_opened", "asked", "claimed", "tool_finished"]
    assert SECRET not in json.dumps(events(ledger))

"""A command in the process of the tests is told apart from one in its own by nothing that a test sees."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import permission_ledger
from tests.support.command_line import CommandLine, Ran


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    home = {"HOME": str(tmp_path), "PERMISSION_LEDGER_HOME": str(tmp_path / "data")}
    return CommandLine("memory://", home, tmp_path)


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], int]], None]]:
    """Puts another program in the place of ours."""
    handler = signal.getsignal(signal.SIGUSR1)
    yield lambda main: monkeypatch.setattr(permission_ledger, "main", main)
    signal.signal(signal.SIGUSR1, handler)


def in_its_own(line: CommandLine, *words: str, stdin: str = "") -> Ran:
    own = CommandLine(line.url, line.environment, line.folder)
    own.as_process = True
    return own(*words, stdin=stdin)


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--help"],
        ["ask", "--help"],
        [],
        ["aks"],
        ["pending"],
        ["pending", "--json"],
        ["pending", "--nowhere"],
        ["pending", "--url", "redis://127.0.0.1:1", "--json"],
        ["reply", "none", "once"],
        ["ask", "ses_1", "bash", "ls", "--id", "\udcff", "--no-wait"],
        ["watch"],
        ["run", "ses_1", "--rules", "allow.json", "--shell", "cat; pwd; echo \u00e9 >&2; exit 5"],
        ["policy", "check"],
    ],
    ids=" ".join,
)
def test_the_same_in_a_process_of_its_own(line: CommandLine, words: list[str]) -> None:
    (line.folder / "allow.json").write_text('[{"permission": "bash", "pattern": "*", "action": "allow"}]')
    assert line(*words, stdin="\u00fc\n") == in_its_own(line, *words, stdin="\u00fc\n")


async def test_a_test_with_a_running_loop_waits_for_a_command(line: CommandLine) -> None:
    assert line("pending") == (0, "", "nothing is pending\n")
    assert asyncio.get_running_loop().is_running()


def test_each_has_the_words_environment_folder_and_streams_of_its_own(
    line: CommandLine, replaced: Callable[[Callable[[], int]], None]
) -> None:
    before = sys.argv, dict(os.environ), Path.cwd(), sys.stdin, sys.stdout, sys.stderr, logging.getLogger().handlers[:]

    def main() -> int:
        seen = (sys.argv[1:], os.environ["ONE"], Path.cwd() == line.folder, sys.stdin.read(), sys.stdout.isatty())
        sys.stdout.write(f"{seen}\n")
        os.environ["ONE"] = "2"
        logging.getLogger().addHandler(logging.StreamHandler())
        logging.getLogger("one").warning("told")
        os.write(2, b"raw\n")
        sys.exit("gone")

    replaced(main)
    ran = line("a", "b", stdin="typed", ONE="1")
    assert ran == (1, "(['a', 'b'], '1', True, 'typed', False)\n", "told\nraw\ngone\n")
    assert before == (
        *(sys.argv, dict(os.environ), Path.cwd(), sys.stdin, sys.stdout, sys.stderr),
        logging.getLogger().handlers[:],
    )


def test_an_error_that_nobody_caught_ends_it_as_it_ends_a_process(
    line: CommandLine, replaced: Callable[[Callable[[], int]], None]
) -> None:
    def main() -> int:
        raise ZeroDivisionError

    replaced(main)
    code, out, err = line("pending")
    assert (code, out, err.splitlines()[-1]) == (1, "", "ZeroDivisionError")


def test_one_that_leaves_the_process_changed_fails(
    line: CommandLine, replaced: Callable[[Callable[[], int]], None]
) -> None:
    def main() -> int:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        return 0

    replaced(main)
    with pytest.raises(AssertionError, match=r"left this changed: {'signal handlers'"):
        line("pending")


@pytest.mark.process
def test_the_marker_gives_commands_a_process_of_their_own(line: CommandLine) -> None:
    assert line.as_process


def test_one_beside_the_test_or_with_another_interpreter_has_a_process_of_its_own(line: CommandLine) -> None:
    async def beside() -> Ran:
        return await asyncio.to_thread(line, "pending")

    assert asyncio.run(beside()) == line("pending", PYTHONWARNINGS="default")

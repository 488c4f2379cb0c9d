"""`watch`: the live list of what waits, and answers by key to what was drawn."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from msgspec.structs import replace

from ledger import Ledger, Pending
from tests.support.command_line import PROGRAM, ROOT, CommandLine
from tests.support.waiting import wait_until
from workers.cli.watch import (
    FRAME_LINES,
    SETTLING_S,
    TypedAnswer,
    TypedExtension,
    WatchedScreen,
    keys_of,
    screen,
    wrapped,
)

LATER_S = SETTLING_S + 1.0


async def waiting(*commands: str) -> list[Pending]:
    """Return pending requests for commands, asked in one session."""
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await ledger.session("ses_1")
        for number, command in enumerate(commands):
            await session.submit("bash", [command], request_id=f"call_{number}")
        return await ledger.pending("ses_1")


async def opened(*commands: str, height: int = 40) -> WatchedScreen:
    """Return a state whose first card is open and drawn."""
    state = WatchedScreen()
    state.show(await waiting(*commands))
    state.press("enter", 0.0)
    state.drawn(60, height)
    return state


async def test_a_key_on_the_open_card_answers_that_request_as_it_was_drawn() -> None:
    state = await opened("git push", "rm -rf ~")
    state.show(state.waiting[::-1])
    answer = state.press("o", LATER_S)
    assert isinstance(answer, TypedAnswer)
    assert (answer.session, answer.request_id, answer.reply) == ("ses_1", "call_0", "once")
    assert len(answer.digest) == 64


async def test_keys_of_answers_do_nothing_on_the_list() -> None:
    state = WatchedScreen()
    state.show(await waiting("git push"))
    assert [state.press(key, LATER_S) for key in "osar"] == [None] * 4
    assert state.words is None


async def test_a_key_typed_before_the_card_had_settled_answers_nothing() -> None:
    state = await opened("git push")
    assert state.press("o", SETTLING_S / 2) is None
    assert "too soon" in state.notice
    assert state.press("o", LATER_S) is not None


async def test_a_yes_needs_the_whole_card_on_the_screen_and_a_no_does_not() -> None:
    state = await opened("echo " + "x" * 2000, height=10)
    assert state.press("a", LATER_S) is None
    assert "read the whole card first" in state.notice
    state.press("r", LATER_S)
    assert state.words == ""
    state.press("escape", LATER_S)
    while not state.is_read:
        state.press(" ", LATER_S)
        state.drawn(60, 10)
    assert state.press("a", LATER_S) is not None


async def test_the_plus_key_gives_the_open_card_five_minutes_more_by_its_present_deadline() -> None:
    state = await opened("git push")
    (one,) = state.waiting
    moved = replace(one, request=replace(one.request, deadline_ms=1_800_000_060_000))
    state.show([moved])
    assert state.press("+", LATER_S) == TypedExtension("ses_1", "call_0", "2027-01-15T08:01:00.000Z")
    assert drawn_title(state, 1_800_000_000_000) == "1m left"
    state.show([])
    assert state.press("+", LATER_S) is None
    assert state.notice == "this request does not wait any more"


def drawn_title(state: WatchedScreen, now_ms: int) -> str:
    return str(screen(state, 60, 20, now_ms).renderables[0])


async def test_a_narrower_screen_is_read_again() -> None:
    state = await opened("git push")
    assert state.is_read
    state.drawn(30, 2)
    assert not state.is_read


async def test_a_request_that_was_answered_elsewhere_is_not_answered_here() -> None:
    state = await opened("git push")
    state.show([])
    assert state.press("o", LATER_S) is None
    assert state.notice == "this request does not wait any more"


async def test_a_reject_takes_the_words_that_were_typed_or_none() -> None:
    state = await opened("git push")
    for key in ("r", "n", "o", "t", "backspace", "!"):
        state.press(key, LATER_S)
    answer = state.press("enter", LATER_S)
    assert isinstance(answer, TypedAnswer)
    assert (answer.reply, answer.message) == ("reject", "no!")
    state = await opened("git push")
    state.press("r", LATER_S)
    silent = state.press("enter", LATER_S)
    assert isinstance(silent, TypedAnswer)
    assert silent.message is None


async def test_the_chosen_request_stays_chosen_when_others_come_and_go() -> None:
    state = WatchedScreen()
    first, second, third = await waiting("one", "two", "three")
    state.show([first, second])
    state.press("j", 0.0)
    state.show([third, first, second])
    assert state.waiting[state.chosen] is second
    state.show([third])
    assert state.chosen == 0


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("jk", ["j", "k"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1b", ["escape"]),
        ("\r\x7f", ["enter", "backspace"]),
        ("\x1b[200~o\x1b[201~", ["o"]),
        ("\x1b[6~é", ["page down", "é"]),
    ],
)
def test_special_keys_have_names_and_unknown_sequences_none(sent: str, keys: list[str]) -> None:
    assert keys_of(sent) == keys


def test_no_character_of_a_line_is_lost_by_wrapping() -> None:
    line = "  a word  " + "y" * 95 + "  end "
    assert "".join(wrapped(line, 40)) == line


def test_wide_characters_take_two_columns_so_that_none_is_cut_off() -> None:
    assert wrapped("漢" * 30 + "; rm -rf ~", 20) == ["漢" * 10, "漢" * 10, "漢" * 10, "; rm -rf ~"]


async def test_on_a_screen_without_room_for_the_card_nothing_counts_as_seen() -> None:
    state = WatchedScreen()
    state.show(await waiting("git push"))
    state.press("enter", 0.0)
    screen(state, 80, FRAME_LINES, 0)
    assert state.press("o", LATER_S) is None


class TypedTerminal:
    """A terminal at which a command runs; what it wrote, and keys for it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.written = ""

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def shows(self, text: str, *, typing: str = "") -> bool:
        """Return whether the terminal has shown a text; type keys before looking."""
        with suppress(BlockingIOError):
            self.type(typing)
            self.written += os.read(self._descriptor, 65536).decode(errors="replace")
        return text in self.written


@contextmanager
def watching(ledger: CommandLine) -> Iterator[TypedTerminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    os.set_blocking(ours, False)
    settings = {**ledger.environment, "TERM": "xterm"}
    with subprocess.Popen(
        [*PROGRAM, "watch", "--as", "ann"], cwd=ROOT, env=settings, stdin=theirs, stdout=theirs, stderr=theirs
    ) as run:
        os.close(theirs)
        try:
            yield TypedTerminal(ours)
        finally:
            run.terminate()
            run.wait()
            os.close(ours)


@pytest.mark.slow
def test_a_request_is_opened_and_allowed_at_a_real_terminal(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", "git push", "--id", "call_1", "--no-wait", code=7)
    with watching(ledger) as terminal:
        wait_until(partial(terminal.shows, "1 waiting"), "the list")
        terminal.type("\r")
        wait_until(partial(terminal.shows, "o allow once"), "the card")
        wait_until(partial(terminal.shows, "call_1: allowed (once)", typing="o"), "the answer")
    assert ledger("reply", "call_1", "once", "--json", code=0).row["by"] == "ann"


def test_without_a_terminal_it_says_what_to_use(ledger: CommandLine) -> None:
    assert "`watch` needs a terminal" in ledger("watch", code=12).err


@pytest.mark.slow
def test_with_json_it_prints_what_begins_and_what_ends_to_wait(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", "git push", "--id", "call_1", "--no-wait", code=7)
    with ledger.started("watch", "--json") as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        ledger("reply", "call_1", "reject", "--message", "no", code=0)
        second = process.stdout.readline()
    assert '"waiting":true' in first
    assert '"request_id":"call_1"' in first
    assert second == '{"waiting":false,"session":"ses_1","request_id":"call_1"}\n'

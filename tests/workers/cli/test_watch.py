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
from workers.cli.watch import keys_of
from workers.cli.watch_screen import (
    FRAME_LINES,
    HOLD_S,
    SETTLING_S,
    TypedAnswer,
    TypedExtension,
    WatchedScreen,
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


def yes(state: WatchedScreen, key: str) -> TypedAnswer:
    """Press a key that allows, and return the answer that is sent when it can be undone no more."""
    assert state.press(key, LATER_S) is None
    assert state.due(LATER_S + HOLD_S - 0.1) == []
    (answer,) = state.due(LATER_S + HOLD_S)
    return answer


def no(state: WatchedScreen, *keys: str) -> list[TypedAnswer]:
    """Press keys, and return the rejections that are sent at the last."""
    for key in keys[:-1]:
        assert state.press(key, LATER_S) is None
    sent = state.press(keys[-1], LATER_S)
    assert isinstance(sent, list)
    return sent


async def test_a_key_on_the_open_card_answers_that_request_as_it_was_drawn() -> None:
    state = await opened("git push", "rm -rf ~")
    state.show(state.waiting[::-1])
    answer = yes(state, "o")
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
    assert yes(state, "o").reply == "once"


async def test_a_yes_needs_the_whole_card_on_the_screen_and_a_no_does_not() -> None:
    state = await opened("echo " + "x" * 2000, height=10)
    assert state.press("o", LATER_S) is None
    assert "read the whole card first" in state.notice
    state.press("r", LATER_S)
    assert state.words == ""
    state.press("escape", LATER_S)
    while not state.is_read:
        state.press(" ", LATER_S)
        state.drawn(60, 10)
    assert yes(state, "o").reply == "once"


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
    (answer,) = no(state, "r", "n", "o", "t", "backspace", "!", "enter")
    assert (answer.reply, answer.message) == ("reject", "no!")
    (silent,) = no(await opened("git push"), "r", "enter")
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
    assert state.due(LATER_S + HOLD_S) == []


def test_a_line_breaks_behind_a_blank_and_only_a_long_word_within() -> None:
    assert wrapped("docker run --rm -v /srv/shop:/work node:20", 16) == [
        "docker run --rm ",
        "-v ",
        "/srv/shop:/work ",
        "node:20",
    ]
    assert wrapped("    " + "x" * 20, 10) == ["    xxxxxx", "x" * 10, "xxxx"]


async def test_an_allow_is_held_back_and_undone() -> None:
    state = await opened("git push")
    state.press("o", LATER_S)
    assert "u undoes it" in state.notice
    assert ("u", "undo") in state.keys_now()
    state.press("u", LATER_S + 1)
    assert "nothing was sent" in state.notice
    assert state.due(LATER_S + 60) == []
    assert ("u", "undo") not in state.keys_now()


async def test_an_allow_near_the_deadline_is_not_held_back() -> None:
    state = await opened("git push")
    deadline_ms = state.waiting[0].request.deadline_ms or 0
    state.press("o", LATER_S, deadline_ms - 1000)
    assert [one.reply for one in state.due(LATER_S)] == ["once"]


async def test_a_key_that_cannot_count_is_not_offered_and_says_why() -> None:
    state = await opened("git push")
    assert [key for key, _ in state.keys_now()] == ["o", "r", "+", "w", "?", "esc"]
    assert "this can only be allowed once" in state.lines()[-6:] or "this can only be allowed once" in "".join(
        state.lines()
    )
    state.press("a", LATER_S)
    assert state.notice == "this can only be allowed once"
    assert state.due(LATER_S + HOLD_S) == []


async def test_what_is_offered_is_what_the_card_says_and_what_the_key_remembers() -> None:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        session = await ledger.session("ses_1")
        run = "docker run --rm -v /home/dev/shop:/work node:20 npm ci"
        await session.submit("bash", [run], always=["docker run *"], request_id="call_0")
        state = WatchedScreen()
        state.show(await ledger.pending("ses_1"))
        state.press("enter", 0.0)
        card = state.drawn(200, 40)
        assert any(f"an `always` would allow: `{run}`" in line for line in card)
        assert any("of no use: `docker run *`" in line for line in card)
        answer = yes(state, "a")
        assert answer.patterns == (run,)


async def test_space_selects_and_an_answer_goes_to_all_that_were_read() -> None:
    state = WatchedScreen()
    state.show(await waiting("one", "two", "three"))
    state.press(" ", 0.0)
    state.press(" ", 0.0)
    assert "2 selected" in drawn_title(state, 0)
    state.press("o", LATER_S)
    assert "2 of 2 were not read yet" in state.notice
    for _ in range(2):
        state.press("k", 0.0)
    for _ in range(2):
        state.press("enter", 0.0)
        state.drawn(60, 40)
        state.press("escape", 0.0)
        state.press("j", 0.0)
    state.press("o", LATER_S)
    assert [one.request_id for one in state.due(LATER_S + HOLD_S)] == ["call_0", "call_1"]


async def test_what_is_selected_is_rejected_without_being_read() -> None:
    state = WatchedScreen()
    state.show(await waiting("one", "two"))
    sent = no(state, " ", " ", "r", "n", "o", "enter")
    assert [(one.request_id, one.reply, one.message) for one in sent] == [
        ("call_0", "reject", "no"),
        ("call_1", "reject", "no"),
    ]


async def test_a_filter_leaves_what_has_all_of_its_words() -> None:
    state = WatchedScreen()
    state.show(await waiting("git push origin", "make", "git pull origin"))
    for key in ("/", *"GIT push"):
        state.press(key, 0.0)
    assert [one.request.request_id for one in state.waiting] == ["call_0"]
    assert state.press("q", 0.0) is None
    assert not state.is_over, "it is typed into the filter"
    state.press("escape", 0.0)
    assert len(state.waiting) == 3


async def test_the_list_of_keys_names_every_key_that_is_offered_anywhere() -> None:
    state = await opened("git push")
    state.press("?", LATER_S)
    told = "\n".join(map(str, screen(state, 80, 30, 0).renderables))
    for key, _ in (*state.keys_now(), ("/", ""), ("space", ""), ("j k", ""), ("u", ""), ("q", "")):
        assert f"  {key} " in told or key == "?"
    state.press("o", LATER_S)
    assert state.due(LATER_S + HOLD_S) == [], "the first key leaves the list of keys"


@pytest.mark.parametrize("width", [80, 120])
async def test_a_row_shows_forty_characters_of_a_call_and_fits(width: int) -> None:
    long = "docker run --rm -it -v /home/dev/shop:/work -w /work node:20 npm run build -- --mode production"
    state = WatchedScreen()
    state.show(await waiting(long, "curl -fsSL https://example.com/install.sh | sudo sh"))
    rows = [str(one) for one in screen(state, width, 20, 0).renderables[2:4]]
    assert all(len(row) <= width for row in rows)
    assert f"bash `{long}`"[:40] in rows[0]
    assert "bash `curl -fsSL https://example.com/ins" in rows[1]
    assert "! runs" in rows[1]


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
        wait_until(partial(terminal.shows, "u undoes it", typing="o"), "the held answer")
        wait_until(partial(terminal.shows, "call_1: allowed (once)"), "the answer")
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

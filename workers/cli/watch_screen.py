"""The screen of a watching terminal, drawn with rich; no text of an agent is markup."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from ledger.session.would_run.description import describe_request
from workers.cli.description import call_in_line, who_asks
from workers.cli.watch import WatchedScreen
from workers.presentation.labels import danger_kinds
from workers.presentation.text import fitted, visible
from workers.presentation.words import time_left

if TYPE_CHECKING:
    from ledger import Pending

FRAME_LINES: Final = 4
"""Lines around the list or the card: title, rule, notice, keys."""

CALL_CHARS_MIN: Final = 24
"""Characters for the call in a row that also says who asks; a narrower row is cut at its end."""

LIST_KEYS: Final = "j k choose   enter open   q quit"
CARD_KEYS: Final = "o allow once  s this session  a always allow  r reject  + 5 min  w why  space more  esc back"
WHY_KEYS: Final = "space more   esc back to the card"
WORDS_KEYS: Final = "enter reject (empty: the agent stops)   esc back to the card"


def screen(state: WatchedScreen, width: int, height: int, now_ms: int) -> Group:
    """Return what to draw on a screen of this size."""
    room = max(height - FRAME_LINES, 0)
    title = f"{len(state.waiting)} waiting" if state.open is None else _card_title(state, now_ms)
    body = _list(state, width, room, now_ms) if state.open is None else _card(state, width, room)
    notice, keys = _foot(state)
    blank = [Text("")] * (room - len(body))
    return Group(Text(title, style="bold"), Text("─" * width), *body, *blank, notice, Text(keys, style="dim"))


def _list(state: WatchedScreen, width: int, room: int, now_ms: int) -> list[Text]:
    first = max(0, min(state.chosen - room // 2, len(state.waiting) - room))
    return [
        _row(one, width, now_ms, chosen=number == state.chosen)
        for number, one in enumerate(state.waiting[first : first + room], first)
    ]


def _row(one: Pending, width: int, now_ms: int, *, chosen: bool) -> Text:
    request = one.request
    dangers = danger_kinds(describe_request(request))
    head = "  ".join((time_left(one.request.deadline_ms, now_ms).rjust(5), *([f"! {dangers}"] if dangers else [])))
    tail = visible(f"({who_asks(request)}, {one.session})")
    # Who asks stays on the row, however long the call is.
    room = width - 2 - len(head) - len(tail) - 4
    line = visible(call_in_line(request))
    row = f"{head}  {fitted(line, room)}  {tail}" if room >= CALL_CHARS_MIN else f"{head}  {line}  {tail}"
    return Text(f"{'>' if chosen else ' '} {fitted(row, width - 2)}", style="reverse" if chosen else "", no_wrap=True)


def _card(state: WatchedScreen, width: int, room: int) -> list[Text]:
    if room == 0:
        return []  # what is not drawn does not count as seen
    return [Text(visible(line), no_wrap=True) for line in state.drawn(width, room)]


def _card_title(state: WatchedScreen, now_ms: int) -> str:
    now = state.as_it_waits
    if now is None or not state.is_waiting:
        return "does not wait any more"
    return time_left(now.request.deadline_ms, now_ms, " left")


def _foot(state: WatchedScreen) -> tuple[Text, str]:
    if state.words is not None:
        return Text(f"instructions for the agent: {visible(state.words)}▏"), WORDS_KEYS
    if state.why is not None:
        return Text(state.notice, style="yellow"), WHY_KEYS
    if state.open is not None:
        more = "" if state.is_read else "more of the card below: space"
        return Text(state.notice or more, style="yellow"), CARD_KEYS
    return Text(state.notice, style="yellow"), LIST_KEYS


_NAMED: Final = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left", "\x1bOA": "up", "\x1bOB": "down",
    "\x1b[5~": "page up", "\x1b[6~": "page down", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace",
    "\x1b": "escape",
}  # fmt: skip
_KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
READ_BYTES: Final = 4096


def keys_of(text: str) -> list[str]:
    """Return the keys in what a terminal sent: names of special keys and single characters, no unknown sequences."""
    found = (_NAMED.get(one, one) for one in _KEY.findall(text))
    return [one for one in found if not one.startswith("\x1b")]


@contextmanager
def typed_keys() -> Iterator[asyncio.Queue[str]]:
    """Queue the keys typed at standard input for the block; the terminal is as before afterwards."""
    queue: asyncio.Queue[str] = asyncio.Queue()
    descriptor = sys.stdin.fileno()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read() -> None:
        for key in keys_of(decoder.decode(os.read(descriptor, READ_BYTES))):
            queue.put_nowait(key)

    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()
    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, read)
        yield queue
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

"""`watch`: what waits for a person, live at a terminal, answered with a key.

An answer goes to the request of the open card, as it was drawn: a yes needs the whole card to have been on the screen,
and half a second since the card was opened, so that no key typed before can be one.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from rich.console import Group
from rich.text import Text

from ledger import InputError, LedgerError, StoreError
from ledger.client.pending_list import PendingList
from ledger.core.events import Actor
from ledger.core.requests import parse_reply
from ledger.core.times import format_time, format_time_or_none
from ledger.log.places import ALL, scope_of
from ledger.session.rounds import shown_digest
from ledger.session.would_run.description import describe_request
from workers.cli.base import checked, command, local_actor, with_ledger
from workers.cli.description import call_in_line, card_lines, who_asks
from workers.cli.output import CommandOutput, talk_json
from workers.cli.search import why_here
from workers.presentation.labels import danger_kinds
from workers.presentation.text import fitted, visible
from workers.presentation.why import why_lines
from workers.presentation.words import time_left

if TYPE_CHECKING:
    from ledger import Ledger, Pending

SETTLING_S: Final = 0.5
"""Keys that answer are ignored for so long after a card was opened."""

REPLIES: Final = {"o": "once", "s": "session", "a": "always"}
EXTEND_KEY: Final = "+"
NO_KEY: Final = ""
"""Stands among the keys for "draw it again"."""

WORDS_MAX: Final = 2000

RequestKey = tuple[str, str]


class TypedAnswer(NamedTuple):
    """An answer to the open card."""

    session: str
    request_id: str
    digest: str
    reply: str
    message: str | None


class TypedExtension(NamedTuple):
    """Five minutes more for the open card; `seen` is the deadline that it was drawn with."""

    session: str
    request_id: str
    seen: str


class WatchedScreen:
    """The list of what waits, and at most one open card."""

    def __init__(self) -> None:
        self.waiting: list[Pending] = []
        self.open: Pending | None = None
        self.words: str | None = None
        """The feedback being typed; None while none is."""
        self.notice = ""
        self.why: list[str] | None = None
        """The reason for the open request, shown in place of its card; None while the card is."""
        self.wants_why = False
        """Set when the reason is to be read."""
        self.is_over = False
        self.chosen = 0
        self.offset = 0
        self._why_offset = 0
        self._seen = 0
        self._size = (80, 20)
        self._opened_s = 0.0

    def show(self, waiting: Sequence[Pending]) -> None:
        """Take the requests that wait now; the chosen one stays chosen, and an open card stays open."""
        before = id_of(self.waiting[self.chosen]) if self.waiting else None
        self.waiting = list(waiting)
        ids = [id_of(one) for one in self.waiting]
        self.chosen = ids.index(before) if before in ids else min(self.chosen, max(len(ids) - 1, 0))

    @property
    def is_waiting(self) -> bool:
        """Return whether the open request still waits, as it was drawn."""
        if self.open is None:
            return False
        shown = shown_digest(self.open.request)
        return any(id_of(one) == id_of(self.open) and shown_digest(one.request) == shown for one in self.waiting)

    @property
    def is_read(self) -> bool:
        """Return whether the whole card has been on the screen."""
        return self._seen >= len(self.lines())

    def lines(self) -> list[str]:
        """Return the lines of the open card, wrapped to the screen."""
        if self.open is None:
            return []
        return [part for line in card_lines(self.open) for part in wrapped(line, self._size[0])]

    def explain(self, lines: Sequence[str]) -> None:
        """Show the reason for the open request."""
        self.why, self._why_offset = list(lines), 0

    def drawn(self, width: int, height: int) -> list[str]:
        """Return the part of the card for a screen of this size, and count it as seen; or that of the reason."""
        if self.why is not None:
            lines = [part for line in self.why for part in wrapped(line, width)]
            self._why_offset = max(0, min(self._why_offset, len(lines) - height))
            return lines[self._why_offset : self._why_offset + height]
        if (width, height) != self._size:
            self._size, self._seen = (width, height), 0
        lines = self.lines()
        self.offset = max(0, min(self.offset, len(lines) - height))
        if self.offset <= self._seen:
            self._seen = max(self._seen, self.offset + height)
        return lines[self.offset : self.offset + height]

    def press(self, key: str, now_s: float) -> TypedAnswer | TypedExtension | None:
        """Take a key; return the answer or the extension that it gives, if it gives one."""
        if key == NO_KEY:
            return None
        if self.words is not None:
            return self._type(key)
        self.notice = ""
        if self.open is not None:
            return self._on_card(key, now_s)
        self._on_list(key, now_s)
        return None

    def close(self) -> None:
        """Go back to the list."""
        self.open, self.words, self.why = None, None, None

    def _on_list(self, key: str, now_s: float) -> None:
        if key in ("j", "down"):
            self.chosen = min(self.chosen + 1, max(len(self.waiting) - 1, 0))
        elif key in ("k", "up"):
            self.chosen = max(self.chosen - 1, 0)
        elif key in ("enter", "right") and self.waiting:
            self.open, self.offset, self._seen, self._opened_s = self.waiting[self.chosen], 0, 0, now_s
        elif key in ("q", "escape"):
            self.is_over = True

    def _on_card(self, key: str, now_s: float) -> TypedAnswer | TypedExtension | None:
        page = self._size[1]
        moves = {"j": 1, "down": 1, "k": -1, "up": -1, " ": page, "page down": page, "page up": -page}
        if self.why is not None:
            # None of the keys answers while the reason is shown.
            self._why_offset += moves.get(key, 0)
            if key in ("escape", "left", "q", "w"):
                self.why = None
        elif key in moves:
            # Never further than what comes after the lines seen: no line is jumped over.
            self.offset = min(max(0, self.offset + moves[key]), self._seen)
        elif key in ("escape", "left", "q"):
            self.close()
        elif key == EXTEND_KEY:
            return self._extension()
        elif key == "w":
            self.wants_why = True
        elif key in REPLIES or key == "r":
            return self._answer(key, now_s)
        return None

    def _answer(self, key: str, now_s: float) -> TypedAnswer | None:
        if not self.is_waiting:
            self.notice = "this request does not wait any more"
        elif now_s - self._opened_s < SETTLING_S:
            self.notice = "too soon after the card was opened; press it again"
        elif key == "r":
            self.words = ""
        elif not self.is_read:
            self.notice = "read the whole card first: space shows more"
        else:
            return self._answered(REPLIES[key], None)
        return None

    def _extension(self) -> TypedExtension | None:
        """Return the extension of the open card by its present deadline, which the title shows."""
        now = self.as_it_waits
        if now is None or now.request.deadline_ms is None:
            self.notice = "this request does not wait any more" if now is None else "this request has no deadline"
            return None
        return TypedExtension(now.session, now.request.request_id, format_time(now.request.deadline_ms))

    @property
    def as_it_waits(self) -> Pending | None:
        """Return the open request with its present deadline; None if it does not wait any more."""
        return next((one for one in self.waiting if self.open is not None and id_of(one) == id_of(self.open)), None)

    def _type(self, key: str) -> TypedAnswer | None:
        assert self.words is not None
        if key == "escape":
            self.words = None
        elif key == "backspace":
            self.words = self.words[:-1]
        elif key == "enter":
            if self.is_waiting:
                return self._answered("reject", self.words.strip() or None)
            self.words, self.notice = None, "this request does not wait any more"
        elif len(key) == 1 and key.isprintable():
            self.words = (self.words + key)[:WORDS_MAX]
        return None

    def _answered(self, reply: str, message: str | None) -> TypedAnswer:
        assert self.open is not None
        request = self.open.request
        return TypedAnswer(self.open.session, request.request_id, shown_digest(request), reply, message)


def id_of(one: Pending) -> RequestKey:
    return one.session, one.request.request_id


def wrapped(line: str, width: int) -> list[str]:
    """Return a line in parts that fit; every character is on one of them.

    A character that is not ASCII counts as two columns, the most that a terminal takes, so that none is cut off.
    """
    parts, room = [""], width
    for character in line:
        columns = 1 if character.isascii() else 2
        if columns > room and parts[-1]:
            parts.append("")
            room = width
        parts[-1] += character
        room -= columns
    return parts


REFRESH_S: Final = 1.0
SHOWN_MAX: Final = 500
"""The requests with the nearest deadlines that are shown."""


@command(
    "permission-ledger watch",
    "permission-ledger watch --project shop --as ann",
    "permission-ledger watch --json",
)
@click.option("--project", metavar="PROJECT", help="Only the requests of this project.")
@click.option("--as", "name", metavar="NAME", help="The person who answers (default: user@host).")
@checked(lambda *, name, **_: local_actor(name))
@with_ledger
async def watch(ledger: Ledger, output: CommandOutput, *, project: str | None, name: str | None) -> None:
    """Show what waits for a person, live, and answer it with a key.

    Enter opens a request; o allows it once, s in its session, a always, r rejects it with or without words, + gives it five
    minutes more, w shows why it asks (`permission-ledger why`). A yes counts only when all of the card was on the screen. With --json it prints a line for each request that begins to wait
    (`waiting` true) and for each that does not wait any more, until Ctrl-C.
    """
    scope = ALL if project is None else scope_of("project", project)
    waiting = PendingList(ledger.store, ledger.streams, scopes=[scope])
    if output.as_json:
        await _told(waiting, output)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("`watch` needs a terminal; elsewhere use `watch --json`, or `pending`")
    await _watched(ledger, waiting, local_actor(name))


async def waiting_now(waiting: PendingList) -> list[Pending]:
    """Return what waits now, nearest deadline first, at most 500. Raises StoreError."""
    found: list[Pending] = []
    async for page in waiting.pending_pages(None, SHOWN_MAX):
        found += page.items
        if len(found) >= SHOWN_MAX:
            break
    return found[:SHOWN_MAX]


async def _told(waiting: PendingList, output: CommandOutput) -> None:
    known: dict[RequestKey, Pending] = {}
    while True:
        try:
            now = {id_of(one): one for one in await waiting_now(waiting)}
        except StoreError as error:
            talk_json({"warning": error.text})
        else:
            ended = ({"waiting": False, "session": one[0], "request_id": one[1]} for one in known.keys() - now.keys())
            output.rows(ended)
            output.rows({"waiting": True, **one.described()} for key, one in now.items() if key not in known)
            known = now
        await asyncio.sleep(REFRESH_S)


async def _watched(ledger: Ledger, waiting: PendingList, actor: Actor) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and only people need it
    from rich.live import Live  # noqa: PLC0415

    state, console = WatchedScreen(), Console(highlight=False)
    with typed_keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        refreshing = asyncio.create_task(_refresh(waiting, state, keys))
        try:
            while not state.is_over:
                pressed = state.press(await keys.get(), time.monotonic())
                if isinstance(pressed, TypedExtension):
                    await _extend(ledger, state, pressed, actor)
                elif pressed is not None:
                    await _send(ledger, state, pressed, actor)
                if state.wants_why:
                    await _explain(ledger, state, actor)
                width, height = console.size
                live.update(screen(state, width, height, ledger.store.clock.now_ms()), refresh=True)
        finally:
            refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await refreshing


async def _refresh(waiting: PendingList, state: WatchedScreen, keys: asyncio.Queue[str]) -> None:
    while True:
        try:
            state.show(await waiting_now(waiting))
        except LedgerError as error:
            state.notice = error.text
        keys.put_nowait(NO_KEY)
        await asyncio.sleep(REFRESH_S)


async def _extend(ledger: Ledger, state: WatchedScreen, pressed: TypedExtension, actor: Actor) -> None:
    try:
        session = await ledger.attach(pressed.session)
        result = await session.extend(pressed.request_id, seen=pressed.seen, actor=actor, administrator=True)
    except LedgerError as error:
        state.notice = error.text
        return
    state.notice = f"{pressed.request_id} waits until {format_time_or_none(result.request.deadline_ms)}"


async def _explain(ledger: Ledger, state: WatchedScreen, actor: Actor) -> None:
    state.wants_why, opened = False, state.open
    assert opened is not None, "the key is one of the card's"
    try:
        row = await why_here(ledger, await ledger.attach(opened.session), opened.request.request_id, actor)
    except LedgerError as error:
        state.notice = error.text
        return
    state.explain(list(why_lines(row)))


async def _send(ledger: Ledger, state: WatchedScreen, answer: TypedAnswer, actor: Actor) -> None:
    try:
        session = await ledger.attach(answer.session)
        result = await session.reply(
            answer.request_id,
            parse_reply(answer.reply),
            actor=actor,
            message=answer.message,
            digest=answer.digest,
            administrator=True,
        )
    except LedgerError as error:
        state.notice = error.text
        state.words = None
        return
    state.close()
    said = f"{result.outcome} ({answer.reply})" if result.outcome is not None else result.message
    state.notice = f"{answer.request_id}: {said}"


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
    import termios  # noqa: PLC0415 - not on every system
    import tty  # noqa: PLC0415

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

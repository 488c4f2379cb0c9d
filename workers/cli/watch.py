"""`watch`: what waits for a person, live at a terminal, answered with a key."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

from ledger import InputError, LedgerError, StoreError
from ledger.client.pending_list import PendingList
from ledger.core.events import Actor
from ledger.core.times import format_time_or_none
from ledger.log.places import ALL, scope_of
from workers.cli.base import checked, command, local_actor, with_ledger
from workers.cli.output import CommandOutput, talk, talk_json
from workers.cli.search import why_here
from workers.cli.watch_screen import NO_KEY, RequestKey, TypedAnswer, TypedExtension, WatchedScreen, id_of, screen
from workers.presentation.labels import OUTCOMES
from workers.presentation.why import why_lines

if TYPE_CHECKING:
    from ledger import Ledger, Pending, Result

REFRESH_S: Final = 1.0
SHOWN_MAX: Final = 500
"""The requests with the nearest deadlines that are shown."""


@command(
    "permission-ledger watch",
    "permission-ledger watch --project shop --as ann",
    "permission-ledger watch --json",
)
@click.option("--project", metavar="PROJECT", help="Only the requests of this project.")
@click.option("--as", "name", metavar="NAME", help="Act as NAME (default: user@host).")
@checked(lambda *, name, **_: local_actor(name))
@with_ledger
async def watch(ledger: Ledger, output: CommandOutput, *, project: str | None, name: str | None) -> None:
    """Show what waits for a person, live, and answer it with a key.

    Enter opens a request; the last line names the keys that do something now, and ? lists all. A yes counts only when
    all of the card was on the screen, and is held back for 3 seconds, in which u undoes it.

    With --json it prints a line for each request that begins to wait (`waiting` true) or ends, until Ctrl-C.
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
    from rich.live import Live  # noqa: PLC0415 - slow to import, and only people need it

    state, console = WatchedScreen(), Console(highlight=False)
    with typed_keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        refreshing = asyncio.create_task(_refresh(waiting, state, keys))
        try:
            while not state.is_over:
                pressed = state.press(await keys.get(), time.monotonic(), ledger.store.clock.now_ms())
                if isinstance(pressed, TypedExtension):
                    await _extend(ledger, state, pressed, actor)
                elif pressed:
                    await _send(ledger, state, pressed, actor)
                await _send(ledger, state, state.due(time.monotonic()), actor)
                if state.wants_why:
                    await _explain(ledger, state, actor)
                width, height = console.size
                live.update(screen(state, width, height, ledger.store.clock.now_ms()), refresh=True)
        finally:
            refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await refreshing
    for _, request_id in state.held_ids:
        talk(f"{request_id} was not answered: `watch` ended while its answer could be undone; it stays pending")


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


async def _send(ledger: Ledger, state: WatchedScreen, answers: list[TypedAnswer], actor: Actor) -> None:
    for answer in answers:
        try:
            session = await ledger.attach(answer.session)
            result = await session.reply(
                answer.request_id,
                answer.reply,
                actor=actor,
                message=answer.message,
                digest=answer.digest,
                administrator=True,
                patterns=answer.patterns,
            )
        except LedgerError as error:
            state.notice = error.text
            continue
        if state.open is not None and id_of(state.open) == (answer.session, answer.request_id):
            state.close()
        state.notice = f"{answer.request_id}: {_said(result, answer)}"


def _said(result: Result, answer: TypedAnswer) -> str:
    """Return the outcome of an answer in a few words."""
    if result.outcome is None:
        return result.message or "recorded"
    words = OUTCOMES[result.outcome].lower()
    return f"{words} ({answer.reply})" if result.outcome == "allowed" else words


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

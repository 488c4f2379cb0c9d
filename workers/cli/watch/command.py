"""The command `watch`: a loop of reading what waits, drawing it, and answering."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from ledger import InputError, LedgerError, StoreError
from ledger.client.pending_list import PendingList
from ledger.core.events import Actor
from ledger.core.requests import parse_reply
from ledger.core.times import format_time_or_none
from ledger.log.places import ALL, scope_of
from workers.cli.base import checked, command, local_actor, with_ledger
from workers.cli.output import CommandOutput, talk_json
from workers.cli.watch.screen_state import NO_KEY, RequestKey, TypedAnswer, TypedExtension, WatchedScreen, id_of
from workers.cli.why import why_here
from workers.presentation.why import why_lines

if TYPE_CHECKING:
    from ledger import Ledger, Pending

REFRESH_S: Final = 1.0
SHOWN_MAX: Final = 500
"""The requests with the nearest deadlines that are shown."""


@command(
    examples=(
        "permission-ledger watch",
        "permission-ledger watch --project shop --as ann",
        "permission-ledger watch --json",
    )
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
    reading = WaitingRequests(ledger, project)
    if output.as_json:
        await _told(reading, output)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("`watch` needs a terminal; elsewhere use `watch --json`, or `pending`")
    await _watched(ledger, reading, local_actor(name))


class WaitingRequests:
    """Readings of what waits, nearest deadline first, at most 500."""

    def __init__(self, ledger: Ledger, project: str | None) -> None:
        scope = ALL if project is None else scope_of("project", project)
        self._list = PendingList(ledger.store, ledger.streams, scopes=[scope])

    async def now(self) -> list[Pending]:
        """Return what waits now. Raises StoreError."""
        found: list[Pending] = []
        async for page in self._list.pending_pages(None, SHOWN_MAX):
            found += page.items
            if len(found) >= SHOWN_MAX:
                break
        return found[:SHOWN_MAX]


async def _told(reading: WaitingRequests, output: CommandOutput) -> None:
    """Print what begins and what ends to wait, until the process is interrupted."""
    known: dict[RequestKey, Pending] = {}
    while True:
        try:
            now = {id_of(one): one for one in await reading.now()}
        except StoreError as error:
            talk_json({"warning": error.text})
        else:
            ended = ({"waiting": False, "session": one[0], "request_id": one[1]} for one in known.keys() - now.keys())
            output.rows(ended)
            output.rows({"waiting": True, **one.described()} for key, one in now.items() if key not in known)
            known = now
        await asyncio.sleep(REFRESH_S)


async def _watched(ledger: Ledger, reading: WaitingRequests, actor: Actor) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and only people need it
    from rich.live import Live  # noqa: PLC0415

    from workers.cli.watch.screen import screen, typed_keys  # noqa: PLC0415 - not on every system

    state, console = WatchedScreen(), Console(highlight=False)
    with typed_keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        refreshing = asyncio.create_task(_refresh(reading, state, keys))
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


async def _refresh(reading: WaitingRequests, state: WatchedScreen, keys: asyncio.Queue[str]) -> None:
    """Read what waits again and again, beside the keys, and have it drawn."""
    while True:
        try:
            state.show(await reading.now())
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
    """Read the reason for the open request, and have it shown."""
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

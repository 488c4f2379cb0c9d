"""Writes that count only after confirmed replication (or fsync), many confirmed by one WAIT.

WAIT covers only the writes of its own connection, and blocks later commands on it. So these writes have a connection of
their own, and those that arrive during one WAIT are batched for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ledger.stores.redis.link import Argument, CommandLine, Link, LinkError
from ledger.stores.redis.servers import Commands

CONFIRMING = ("WAIT", "WAITAOF")


class ConfirmedLink(Commands):
    """A link that sends callers' commands in batches, with one WAIT of each kind at the end of a batch."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._queue: list[tuple[Sequence[CommandLine], asyncio.Future[list[Any]]]] = []
        self._turns: asyncio.Task[None] | None = None

    async def run(self, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        """As `Link.run`; the reply to a WAIT covers all commands of its batch."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._queue.append((commands, future))
        if self._turns is None or self._turns.done():
            self._turns = asyncio.create_task(self._take_turns(), name="ledger confirmed link")
        return await future

    async def one(self, *command: Argument) -> Any:
        return await self._link.one(*command)

    async def everywhere(self) -> list[Link]:
        return [self._link]

    async def close(self) -> None:
        if self._turns is not None:
            self._turns.cancel()
            with suppress(asyncio.CancelledError):
                await self._turns
        await self._link.close()

    async def _take_turns(self) -> None:
        while self._queue:
            turn, self._queue = self._queue, []
            try:
                replies = await self._run_turn([commands for commands, _ in turn])
            except LinkError as error:
                _fail(turn, error)
            except asyncio.CancelledError:
                _fail([*turn, *self._queue], LinkError("the connection was closed", sent=True))
                raise
            else:
                for (_, future), answers in zip(turn, replies, strict=True):
                    if not future.done():
                        future.set_result(answers)

    async def _run_turn(self, calls: Sequence[Sequence[CommandLine]]) -> list[list[Any]]:
        plain = [command for commands in calls for command in commands if command[0] not in CONFIRMING]
        waits = list(dict.fromkeys(command for commands in calls for command in commands if command[0] in CONFIRMING))
        replies = await self._link.run([*plain, *waits])
        confirmations = dict(zip(waits, replies[len(plain) :], strict=True))
        answers = iter(replies)
        return [
            [confirmations[command] if command[0] in CONFIRMING else next(answers) for command in commands]
            for commands in calls
        ]


def _fail(turn: Sequence[tuple[Sequence[CommandLine], asyncio.Future[list[Any]]]], error: LinkError) -> None:
    for _, future in turn:
        if not future.done():
            future.set_exception(error)

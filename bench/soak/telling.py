"""The lines by which the processes of agents and people report what they were told: written by them, read by the soak.

`asked SESSION REQUEST` stands before the call, `told SESSION REQUEST OUTCOME VERSION` after its answer, `error CODE`
is a call that ended otherwise. A process that is killed leaves at most its last line torn.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Final, NamedTuple

Request = tuple[str, str]
"""A session, and the id of a request in it."""

UNKNOWN_VERSION: Final = 0


def tell_asked(session: str, request_id: str) -> None:
    print("asked", session, request_id, flush=True)


def tell_told(session: str, request_id: str, outcome: str, version: int = UNKNOWN_VERSION) -> None:
    """`version` is that of the request's `asked` event, where the caller knows it."""
    print("told", session, request_id, outcome, version, flush=True)


def tell_error(code: str) -> None:
    print("error", code, flush=True)


async def until_stopped(work: list[asyncio.Task[None]]) -> None:
    """Run until SIGTERM, then cancel the work and wait for its end; raise what ended a part of it before."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([stopping, *work], return_when=asyncio.FIRST_COMPLETED)
    for task in (stopping, *work):
        task.cancel()
    for task in (stopping, *work):
        with suppress(asyncio.CancelledError):
            await task


class Asked(NamedTuple):
    """A request whose `asked` event is known by its place."""

    session: str
    request_id: str
    version: int


class Heard:
    """All that agents and people were told."""

    def __init__(self) -> None:
        self.asked: set[Request] = set()
        self.told: dict[Request, set[str]] = defaultdict(set)
        self.errors: Counter[str] = Counter()
        self.redactable: list[Asked] = []

    def hear(self, line: str) -> None:
        match line.split():
            case ["asked", session, request_id]:
                self.asked.add((session, request_id))
            case ["told", session, request_id, outcome, version]:
                self.told[session, request_id].add(outcome)
                if int(version) != UNKNOWN_VERSION:
                    self.redactable.append(Asked(session, request_id, int(version)))
            case ["error", *code]:
                self.errors[" ".join(code)] += 1
            case _:
                self.errors["a torn line"] += 1

"""Work that processes of a command share, each with its own connection to the ledger."""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from ledger.core import errors
from ledger.core.errors import LedgerError, StoreError
from workers.runtime.children import own_environment, own_module, surely_end
from workers.runtime.frames import HEAD_BYTES, framed, length_of
from workers.upkeep.works import RESULTS, SharedWork

log = logging.getLogger(__name__)

COMMAND: Final = tuple(own_module("workers.upkeep.shared_work_child"))

PORTIONS_AHEAD_COUNT: Final = 2
"""Portions for each process that may be done before an earlier one is taken: their results are in memory."""

STREAMS_OF_A_PROCESS_COUNT: Final = 2000
"""Fewer streams take less time than the start of a process."""


class Begin(msgspec.Struct, frozen=True):
    """The first message to a process: the server's URL, with its password, and what to do with each portion."""

    url: str
    work: SharedWork


class PortionAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The message about a portion: its result, or the error that ended the work; and what was logged meanwhile."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None
    error_type: str = ""
    error_data: dict[str, Any] = {}
    warnings: list[str] = []


def processes_for(stated: int | None, streams: int) -> int:
    """Return the number of processes: as stated, else one a core, as long as each has enough to do."""
    return stated or max(1, min(os.cpu_count() or 1, streams // STREAMS_OF_A_PROCESS_COUNT))


async def share(
    begin: Begin,
    portions: Sequence[Any],
    count: int,
    take: Callable[[Any], Awaitable[None] | None],
    files: Sequence[int] = (),
) -> None:
    """Have `count` processes do all portions, and call `take` with each result, in the order of the portions.

    The processes inherit the descriptors `files`, under the same numbers.
    Raises the error of the ledger that one of them met, alone or in a group; StoreError when one of them was killed.
    """
    loop = asyncio.get_running_loop()
    results = {index: loop.create_future() for index in range(len(portions))}
    waiting = iter(list(enumerate(portions)))
    room = asyncio.Semaphore(PORTIONS_AHEAD_COUNT * count)
    async with asyncio.TaskGroup() as group:
        for _ in range(min(count, len(portions))):
            group.create_task(_serve(begin, waiting, results, room, files))
        for index in range(len(portions)):
            taken = take(await results[index])
            if taken is not None:
                await taken
            del results[index]  # so that no more is kept than is not taken yet
            room.release()


async def _serve(
    begin: Begin,
    waiting: Iterator[tuple[int, Any]],
    results: dict[int, asyncio.Future[Any]],
    room: asyncio.Semaphore,
    files: Sequence[int],
) -> None:
    """Start a process, and give it one portion after the other until none is left."""
    # In a session of its own: a Ctrl-C at the terminal reaches us alone, and we end it.
    process = await asyncio.create_subprocess_exec(
        *COMMAND, stdin=PIPE, stdout=PIPE, env=own_environment(), start_new_session=True, pass_fds=files
    )
    try:
        await _send(process, begin)
        while True:
            await room.acquire()
            if (following := next(waiting, None)) is None:
                break
            index, portion = following
            await _send(process, portion)
            results[index].set_result(await _result(process, begin.work))
        room.release()  # another process may wait to see that nothing is left
    except (EOFError, ConnectionError) as error:
        raise StoreError("a process of this command ended by itself; run the command again") from error
    finally:
        await surely_end(process)


async def _send(process: Process, message: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(framed(msgspec.json.encode(message)))
    await process.stdin.drain()


async def _result(process: Process, work: SharedWork) -> Any:
    assert process.stdout is not None
    text = await process.stdout.readexactly(length_of(await process.stdout.readexactly(HEAD_BYTES)))
    answer = msgspec.json.decode(text, type=PortionAnswer)
    for warning in answer.warnings:
        log.warning("%s", warning)
    if answer.error is not None:
        raise _error(answer, answer.error)
    return msgspec.json.decode(answer.result, type=RESULTS[type(work)])


def _error(answer: PortionAnswer, text: str) -> LedgerError:
    """Return the error that a process met."""
    kind = getattr(errors, answer.error_type, None)
    known: type[LedgerError] = kind if isinstance(kind, type) and issubclass(kind, LedgerError) else StoreError
    return known(text, **answer.error_data)

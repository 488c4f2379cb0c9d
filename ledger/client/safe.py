"""Nobody acts on an allow that a failover could still lose, where the settings demand that (`Durability`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ledger.client.results import Result, result_of
from ledger.core.errors import InDoubtError, StoreError
from ledger.core.limits import GIVE_UP_SECONDS
from ledger.log.stream import Stream
from ledger.project.state import ProjectState
from ledger.session.state import SessionState

T = TypeVar("T")

AWAY_SECONDS = 0.5
"""How often who waits looks whether the server, or a replica, is back."""


async def safe_result(result: Result, stream: Stream[SessionState], project: Stream[ProjectState] | None) -> Result:
    """The result when it may be acted on: an allow only when it, and a project's grant that it rests on, is safe.

    Where the server lost the allow, what is left: the request is pending again, most likely. Raises InDoubtError when
    it is not safe after GIVE_UP_SECONDS.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + GIVE_UP_SECONDS
    while result.outcome == "allowed":
        try:
            if project is not None:
                await project.make_safe()
            if await stream.confirm():
                return result
        except InDoubtError as error:
            if loop.time() + AWAY_SECONDS > give_up:
                error.data.update(request_id=result.request_id, session=stream.state.session_id)
                raise
            await asyncio.sleep(AWAY_SECONDS)
        result = result_of(stream.state, result.request_id)
    return result


async def patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try however long the server is away: an agent that waits is not told of a restart. Doubt it is told of."""
    while True:
        try:
            return await attempt()
        except InDoubtError:
            raise
        except StoreError:
            await asyncio.sleep(AWAY_SECONDS)

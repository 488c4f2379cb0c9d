"""Confirmation of allows before they are returned, so that a failover cannot lose them (`Durability`)."""

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
"""The interval of retries while the server, or a replica, is unreachable."""


async def safe_result(result: Result, stream: Stream[SessionState], project: Stream[ProjectState] | None) -> Result:
    """Return a result on which to act: an allow once it, and a project's grant behind it, has confirmed replication.

    If the server lost the allow, return the present status, most likely pending. Raises InDoubtError without
    confirmation after GIVE_UP_SECONDS.
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
    """Retry while the server is unreachable: a restart must not fail a waiting agent. InDoubtError is raised."""
    while True:
        try:
            return await attempt()
        except InDoubtError:
            raise
        except StoreError:
            await asyncio.sleep(AWAY_SECONDS)

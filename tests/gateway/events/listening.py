"""A reader of an event stream, as a browser is: it remembers its last id and can resume after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from tests.gateway.callers import Caller
from tests.support.waiting import TIMEOUT_S


class Told(msgspec.Struct, frozen=True):
    """One event. A reader resumes after it with `last_id`."""

    name: str
    data: Any
    last_id: str | None


class Listener:
    """Reads events from an open response."""

    def __init__(self, answer: httpx.Response, last_id: str | None = None) -> None:
        self._lines = answer.aiter_lines()
        self.answer = answer
        self.last_id = last_id
        self.heartbeats = 0

    async def next(self) -> Told | None:
        """Return the next event; None at the end of the stream."""
        name, data = "message", ""
        async for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "id" or line == "id:":
                self.last_id = value or None
            elif field == "event":
                name = value
            elif field == "data":
                data += value
            elif field == "":
                self.heartbeats += line != ""
                if data:
                    return Told(name, msgspec.json.decode(data), self.last_id)
                name = "message"
        return None

    async def until(self, done: Callable[[Told], bool]) -> list[Told]:
        """Return the events up to the first match. Raises AssertionError when none comes."""
        seen: list[Told] = []
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while (told := await self.next()) is not None:
                    seen.append(told)
                    if done(told):
                        return seen
        except TimeoutError:
            raise AssertionError(f"did not come; came: {[one.name for one in seen]}") from None
        raise AssertionError(f"the stream ended after {[one.name for one in seen]}")

    async def named(self, name: str) -> list[Told]:
        return await self.until(lambda told: told.name == name)

    async def rest(self) -> list[Told]:
        """Return the events up to the end of the stream."""
        seen: list[Told] = []
        async with asyncio.timeout(TIMEOUT_S):
            while (told := await self.next()) is not None:
                seen.append(told)
        return seen


@asynccontextmanager
async def listening(caller: Caller, path: str, last_id: str | None = None) -> AsyncIterator[Listener]:
    """Open a stream, after an id or from a snapshot on."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    async with caller.http.stream("GET", path, headers=headers) as answer:
        if answer.status_code != 200:
            await answer.aread()
        assert answer.status_code == 200, answer.text
        yield Listener(answer, last_id)


def brief(told: Told) -> tuple[str, str | None, str | None]:
    """Return an event's name, its session, and its grant or request."""
    return told.name, told.data.get("session"), told.data.get("grant_id") or told.data.get("request_id")

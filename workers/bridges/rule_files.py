"""A bridge's file of rules, watched while a request waits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from workers.bridges.stdio import tell
from workers.transport.errors import BridgeError
from workers.transport.trusted import trust_file

LOOK_SECONDS: Final = 2.0

_Stamp = tuple[int, ...] | None


class FollowedRules:
    """One file, or none; whoever opens the session reads its content."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._read_as: _Stamp = None

    def read(self) -> None:
        """Note that the file is about to be read; later changes count as changes."""
        self._read_as = self._stamp()

    def forget(self) -> None:
        """Count the file as changed, since not every session has its content."""
        self._read_as = ()

    @property
    def have_changed(self) -> bool:
        return self._stamp() != self._read_as

    @asynccontextmanager
    async def followed(self, say: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Call `say` within 2 s of a change, until the block ends. It raises BridgeError for unreadable rules."""
        if self._file is None:
            yield
            return
        following = asyncio.create_task(self._follow(say), name=f"follow {self._file}")
        try:
            yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def _follow(self, say: Callable[[], Awaitable[None]]) -> None:
        told = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self.have_changed:
                continue
            try:
                await say()
            except BridgeError as error:
                if error.text != told:
                    tell(f"the changed rules do not apply to pending requests: {error.text}")
                told = error.text
                self.forget()

    def _stamp(self) -> _Stamp:
        if self._file is None:
            return None
        # The list of trusted files decides whether the content counts in full.
        return _status_of(self._file) + _status_of(trust_file())


def _status_of(file: str) -> tuple[int, ...]:
    try:
        status = os.stat(file)  # noqa: PTH116 - pathlib is slow to import
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

"""Rules reload when their files change, as an event in the session that uses them.

The log then tells which rules judged what, and replay needs no file. This module looks at files only through their
status; reading and checking them is the business of the loader that it is given.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from ledger.core.errors import LedgerError
from ledger.core.policy import PolicySource
from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger
    from ledger.client.session import Session

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
_Stamp = tuple[int, ...] | None


class PolicyFiles:
    """Files of rules, read when they have changed; one may serve the sessions of a whole process.

    `load` reads and checks the files (in a thread) and gives their layers; the files of its layers are watched, and
    `files` besides them, which need not be there yet.
    """

    def __init__(self, load: Callable[[], PolicySource], files: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._load = load
        self._files = {os.fspath(file) for file in files}
        self._in_force: frozenset[str] = frozenset()
        self._stamps: dict[str, _Stamp] | None = None
        self._source = PolicySource()
        self._turn = asyncio.Lock()

    async def current(self) -> PolicySource:
        """The rules as they are in the files now. Raises what the loader raises, for as long as it does.

        While a file cannot be read, or one whose rules were in force is gone, there are no rules to judge by: those
        before the change may have allowed what the change forbids, and "no rules" is never what a broken file means.
        """
        async with self._turn:
            if self._stamps is None or self._stamps != self._look():
                self._stamps = None  # whatever goes wrong from here on goes wrong again at the next ask
                self._stamps = await self._reload()
            return self._source

    def _look(self) -> dict[str, _Stamp]:
        return {file: _stamp(file) for file in self._files}

    async def _reload(self) -> dict[str, _Stamp]:
        while True:
            # Looked at before they are read: a change in between is seen by the next check.
            stamps = self._look()
            self._refuse_gone(stamps)
            source = await asyncio.to_thread(self._load)
            found = frozenset(layer.file for layer in source.layers if layer.file is not None)
            if found <= self._files:
                break
            self._files |= found
        self._source, self._in_force = source, found
        return stamps

    def _refuse_gone(self, stamps: dict[str, _Stamp]) -> None:
        """Loaders pass over optional files that are missing, which would drop the denies of one that was there."""
        for file in sorted(self._in_force):
            if stamps[file] is None:
                text = f"{shown(file)} holds rules in force and is gone; put it back, or start anew without it"
                raise PolicyError(text, file=file)


class PolicyWatch:
    """Keeps one session's rules equal to its files. Made by `watch_policy` and `judge_by_files`."""

    def __init__(
        self,
        ledger: Ledger,
        session: Session,
        files: PolicyFiles,
        policy_source: str | None,
        *,
        denies_alone: bool = False,
    ) -> None:
        self._ledger, self._session, self._files, self._policy_source = ledger, session, files, policy_source
        self._denies_alone = denies_alone
        self._applied: PolicySource | None = None
        self._turn = asyncio.Lock()

    async def check(self) -> None:
        """Bring the session's rules up to date. Raises what the loader raises, as long as it does."""
        async with self._turn:
            source = await self._files.current()
            if source is not self._applied and not self._judges(source):
                await self._ledger.session(
                    self._session.id,
                    policy=source,
                    policy_source=self._policy_source,
                    denies_alone=self._denies_alone,
                )
            self._applied = source

    def _judges(self, source: PolicySource) -> bool:
        """Whether the session has these rules, as far as this process has seen: nothing need be written then."""
        stream = self._session.stream
        return stream.folded and stream.state.policy == source

    async def look_on(self, seconds: float) -> None:
        """Check every so many seconds, for a session in which nobody asks."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.check()
            except (LedgerError, OSError) as error:
                log.warning("session %s refuses to judge: %s", self._session.id, error)


def judge_by_files(
    ledger: Ledger,
    session: Session,
    files: PolicyFiles,
    *,
    policy_source: str | None = None,
    denies_alone: bool = False,
) -> PolicyWatch:
    """From here on each ask of this handle is judged by the files as they are at that moment.

    Other rules are recorded as `policy_changed` before anything is judged by them, with `policy_source` as the word for
    where they came from; `denies_alone` as for `Ledger.session`. While the files cannot be read every new ask of this handle raises the loader's error;
    requests that are pending can still be answered. `PolicyWatch.check` does the same when nobody asks.
    """
    watch = PolicyWatch(ledger, session, files, policy_source, denies_alone=denies_alone)
    session.before_asking = watch.check
    return watch


@asynccontextmanager
async def watch_policy(
    ledger: Ledger,
    session: Session,
    load: Callable[[], PolicySource],
    *,
    files: Iterable[str | os.PathLike[str]] = (),
    interval_seconds: float = LOOK_SECONDS,
    policy_source: str | None = None,
) -> AsyncIterator[PolicyWatch]:
    """Judge the asks of `session` by the files behind `load`, as `judge_by_files` does, until the block ends.

    `load` and `files` are those of `PolicyFiles`. The files are also looked at every `interval_seconds`, when nobody
    asks. Raises the loader's error (PolicyError) when the files cannot be read at the start.
    """
    watch = PolicyWatch(ledger, session, PolicyFiles(load, files), policy_source)
    await watch.check()
    session.before_asking = watch.check
    looking = asyncio.create_task(watch.look_on(interval_seconds), name=f"policy files of {session.id}")
    try:
        yield watch
    finally:
        session.before_asking = None
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


def _stamp(file: str) -> _Stamp:
    """What changes with a file; its ctime also tells of a mode that was changed."""
    try:
        status = os.stat(file)  # noqa: PTH116 - at every ask
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

"""Reload of rules when their files change, recorded as an event of the session that uses them.

The log thus has the rules of every verdict, and replay needs no file. This module only finds out that files have
changed; the given loader reads and checks them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from ledger.core.errors import LedgerError
from ledger.core.policy import PolicySource
from ledger.core.regular_files import read_regular
from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError
from ledger.policy.stored_rules import digest

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger
    from ledger.client.session import Session

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
FILE_BYTES_MAX: Final = 1024 * 1024


class PolicyFiles:
    """Rule files, loaded when they have changed; an instance may serve all sessions of a process.

    `load` reads and checks the files (in a thread) and returns their layers. The files of the layers are watched, and
    also `files`, which need not exist yet.
    """

    def __init__(self, load: Callable[[], PolicySource], files: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._load = load
        self._files = {os.fspath(file) for file in files}
        self._in_force: frozenset[str] = frozenset()
        self._stamps: dict[str, str | None] | None = None
        self._source = PolicySource()
        self._turn = asyncio.Lock()

    async def current(self) -> PolicySource:
        """Return the current rules of the files. Raises the loader's error while it persists.

        While a file cannot be read, or one with rules in force is missing, there are no rules to judge by: the old ones
        may allow what the change forbids, and a broken file never means "no rules".
        """
        async with self._turn:
            if self._stamps is None or self._stamps != self._look():
                self._stamps = None  # an error from here on is raised again at the next ask
                self._stamps = await self._reload()
            return self._source

    def _look(self) -> dict[str, str | None]:
        return {file: _stamp(file) for file in self._files}

    async def _reload(self) -> dict[str, str | None]:
        while True:
            # Their digests are taken first: a change in between is found by the next check.
            stamps = self._look()
            self._refuse_gone(stamps)
            source = await asyncio.to_thread(self._load)
            found = frozenset(layer.file for layer in source.layers if layer.file is not None)
            if found <= self._files:
                break
            self._files |= found
        self._source, self._in_force = source, found
        return stamps

    def _refuse_gone(self, stamps: dict[str, str | None]) -> None:
        """Raise PolicyError for a missing file with rules in force: loaders skip it, which would drop its denies."""
        for file in sorted(self._in_force):
            if stamps[file] is None:
                text = f"{shown(file)} holds rules in force and was removed; restore it, or restart without it"
                raise PolicyError(text, file=file)


class PolicyWatch:
    """The link of one session's rules to its files. Created by `watch_policy` and `judge_by_files`."""

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
        """Update the session's rules. Raises the loader's error while it persists."""
        async with self._turn:
            source = await self._files.current()
            if source is not self._applied and not self._judges(source):
                await self._ledger.session(
                    self._session.id, policy=source, policy_source=self._policy_source, denies_alone=self._denies_alone
                )
            self._applied = source

    def _judges(self, source: PolicySource) -> bool:
        """Return whether the session's cached state has these rules, so that nothing need be written."""
        stream = self._session.stream
        if not stream.folded or stream.state.rules_redacted:
            return False
        return stream.state.policy_digest == digest(source)

    async def look_on(self, seconds: float) -> None:
        """Check at an interval in seconds, for a session without asks."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.check()
            except (LedgerError, OSError) as error:
                log.warning("session %s cannot be evaluated: %s", self._session.id, error)


def judge_by_files(
    ledger: Ledger,
    session: Session,
    files: PolicyFiles,
    *,
    policy_source: str | None = None,
    denies_alone: bool = False,
) -> PolicyWatch:
    """Judge each later ask of this handle by the current content of the files.

    Changed rules are recorded as `policy_changed` before they judge anything, with `policy_source` as their origin;
    `denies_alone` as for `Ledger.session`. While the files cannot be read, every new ask of this handle raises the
    loader's error; pending requests can still be answered. `PolicyWatch.check` updates the rules without an ask.
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

    `load` and `files` are those of `PolicyFiles`. The files are also checked every `interval_seconds`, without an ask.
    Raises the loader's error (PolicyError) when the files cannot be read at the start.
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


def _stamp(file: str) -> str | None:
    """Return a digest of the content, or the reason for which it cannot be read; None for a file that is not there.

    The status of a file would not do: within one tick of the clock a file can change twice without another status.
    """
    try:
        return sha256(read_regular(file, FILE_BYTES_MAX)).hexdigest()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        return str(error)

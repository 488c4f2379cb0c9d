"""`up`: all processes that a ledger on one machine needs, until Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ledger import InputError, Ledger, Timeouts
from ledger.core.errors import SetupError
from ledger.core.extras import install_line, is_installed, require_extra
from workers.runtime.background import Registration, Starter, registered
from workers.runtime.children import Kept, own_command, own_environment
from workers.runtime.history import watched_history
from workers.runtime.place import LedgerPlace
from workers.runtime.process import stopping_on_signals

log = logging.getLogger(__name__)

GATEWAY: Final = "gateway"
NOTIFIER: Final = "notifier"

_LIMITS: Final = ("attended", "unattended", "approval_lifetime", "claim_timeout")
"""The options of times, which are the gateway's."""

Say = Callable[[str], None]


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `up`.

    `typed` are those of the gateway, as `read_options` takes them, and `words` the same as words of a command line.
    """

    typed: Mapping[str, Any] = {}
    words: Sequence[str] = ()
    notify: Path | None = None
    archive: str | None = None
    archive_older_than: str | None = None
    started_by: Starter = "terminal"
    log_level: str = "warning"
    log_format: str = "text"

    @property
    def listen(self) -> tuple[str, ...]:
        """Return the addresses of the gateway, or `none`."""
        listen: tuple[str, ...] = self.typed["addresses"]
        return listen


async def up(place: LedgerPlace, say: Say, wanted: UpOptions) -> None:
    """Run server, workers and gateway until SIGTERM or Ctrl-C, and a notifier and an archiver if they are configured.

    Raises StoreError, SetupError or InputError when that fails.
    """
    serves = _serves(wanted.listen)
    await _check(wanted, serves)
    with stopping_on_signals() as stop, ExitStack() as stack:
        was_running = place.was_running
        # Held while we run: an embedded server lives while it is held.
        async with (
            Ledger.connect(place.url) as ledger,
            watched_history(ledger.store, place),
            registered(place.data_folder, place.described(), wanted.started_by) as registration,
        ):
            await _check_index(ledger)
            listeners = [stack.enter_context(closing(one)) for one in (_listeners(place, wanted) if serves else ())]
            say("permission-ledger is up")
            say("")
            say(f"  server     {place.described()}" + (" (was running already)" if was_running else ""))
            if "none" not in wanted.listen and not serves:
                say(f"  {GATEWAY:<9}  not started: it {install_line(GATEWAY)}")
            if serves:
                say(f"  deadlines  {_timeouts(wanted).described()}, where a session states none")
            running = _Running(ledger, place, wanted, listeners, registration, say)
            await running.until(stop, _names(wanted, serves=serves))
    say("permission-ledger is down")


async def _check(wanted: UpOptions, serves: bool) -> None:
    """Refuse at once what a worker would refuse at every restart. Raises InputError."""
    if wanted.notify is not None:
        from workers.notifier.settings import read_settings  # noqa: PLC0415 - an extra

        read_settings(wanted.notify)
    if wanted.archive is not None:
        require_extra("archive", f"`--archive {wanted.archive}`")
    elif wanted.archive_older_than is not None:
        raise InputError("--archive-older-than needs --archive, the place of the archive")
    _timeouts(wanted).as_ms()
    if serves:
        from workers.gateway.command import checked_settings, read_options  # noqa: PLC0415 - an extra

        await checked_settings(read_options(**wanted.typed))
    elif wanted.typed["rules"] or any(wanted.typed[one] for one in _LIMITS):
        require_extra(GATEWAY, "--rules and the time limits of sessions are the gateway's: `up`")
        raise InputError("--rules and the time limits of sessions are the gateway's; remove `--listen none`")


def _timeouts(wanted: UpOptions) -> Timeouts:
    """Return the deadlines of sessions that state none. Raises InputError."""
    return Timeouts().stated({one: wanted.typed[one] for one in ("attended", "unattended")}, "--{}")


def _serves(listen: Sequence[str]) -> bool:
    """Return whether a gateway is started. Raises MissingExtraError if an address is named and its extra is missing."""
    if "none" in listen or is_installed(GATEWAY):
        return "none" not in listen
    if listen:
        require_extra(GATEWAY, f"`--listen {listen[0]}`")
    return False


def _listeners(place: LedgerPlace, wanted: UpOptions) -> list[socket.socket]:
    """Return the listening sockets of the gateway.

    We listen ourselves and hand the sockets down, so that no connection is refused while a gateway restarts.
    """
    from workers.gateway.command import gateway_sockets  # noqa: PLC0415 - an extra

    return gateway_sockets(place.folder, wanted.listen)


def _names(wanted: UpOptions, *, serves: bool) -> dict[str, list[str]]:
    """Return the command line of each worker by its name, but for the gateway's sockets."""
    names = {"expiry": ["worker", "expiry"], "projector": ["worker", "projector"]}
    names["indexer"] = ["worker", "indexer", "--standby"]
    if wanted.archive is not None:
        older = () if wanted.archive_older_than is None else ("--older-than", wanted.archive_older_than)
        names["archiver"] = ["worker", "archiver", "--to", wanted.archive, *older]
    if serves:
        names[GATEWAY] = ["serve", *wanted.words, *([] if wanted.notify is None else _of_notifier(wanted))]
    if wanted.notify is not None:
        names[NOTIFIER] = ["worker", NOTIFIER, "--config", str(wanted.notify)]
    return names


async def _check_index(ledger: Ledger) -> None:
    """Refuse at once an index that the indexer would refuse at every restart. Raises InputError."""
    from workers.indexer.reader import IndexReader, deployment_of  # noqa: PLC0415 - slow to import
    from workers.indexer.schema import default_file  # noqa: PLC0415 - as above

    ours = await deployment_of(ledger.store)
    with suppress(SetupError), closing(IndexReader(default_file(ours))) as index:
        if index.deployment not in ("", ours):
            text = f"`{index.path}` is the index of another ledger; name another file by PERMISSION_LEDGER_SEARCH"
            raise InputError(text)


class _Running(NamedTuple):
    """The workers that are kept running, and whom to tell of them."""

    ledger: Ledger
    place: LedgerPlace
    wanted: UpOptions
    listeners: Sequence[socket.socket]
    registration: Registration | None
    say: Say

    async def until(self, stop: asyncio.Event, names: Mapping[str, list[str]]) -> None:
        """Keep these workers running until the event is set."""
        running: dict[str, int] = {}
        all_run = asyncio.Event()
        self._note(wanted=list(names), **self._reachable())

        def started(name: str, pid: int) -> None:
            running[name] = pid
            self._note(workers=running)
            if len(running) == len(names):
                all_run.set()

        tasks = [
            asyncio.create_task(self._kept(name, words, started).run(), name=f"keep {name}")
            for name, words in names.items()
        ]
        try:
            await all_run.wait()
            for name in names:
                self.say(f"  {name:<9}  worker, process {running[name]}")
            if self.wanted.started_by == "terminal":
                await self._tell()
            await stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _note(self, **changes: Any) -> None:
        if self.registration is not None:
            self.registration.note(**changes)

    def _reachable(self) -> dict[str, Any]:
        if not self.listeners:
            return {}
        from workers.gateway.announcement import local_url  # noqa: PLC0415 - an extra
        from workers.gateway.server import url_of  # noqa: PLC0415 - as above

        check = local_url(self.listeners, only_local=False)
        return {"addresses": [url_of(one) for one in self.listeners], "check": check}

    def _kept(self, name: str, words: Sequence[str], started: Callable[[str, int], None]) -> Kept:
        sockets = [one.fileno() for one in self.listeners] if name == GATEWAY else []
        logs = ("--log-level", self.wanted.log_level, "--log-format", self.wanted.log_format)
        inherited = [word for number in sockets for word in ("--inherit", str(number))]
        command = own_command(*words, *inherited, *logs, "--with-parent", str(os.getpid()))
        # Not on the command line, where every user of the machine could read a password in it.
        environment = {**own_environment(), **self.place.environment}
        lock = [] if self.registration is None else [self.registration.handed_down]
        return Kept(name, command, environment, started, handed_down=[*sockets, *lock])

    async def _tell(self) -> None:
        if self.listeners:
            from workers.gateway.command import how_to_get_in, read_options  # noqa: PLC0415 - an extra

            for line in await how_to_get_in(self.ledger, read_options(**self.wanted.typed), self.listeners):
                self.say(line)
        command = self.place.command()
        for line in (
            "",
            "Try, in another terminal:",
            f"  {command} ask ses_1 bash 'git push' --always 'git push *'",
            f"  {command} pending",
            f"  {command} reply REQUEST once",
            "",
            "Ctrl-C ends it; what was asked and answered stays.",
        ):
            self.say(line)


def _of_notifier(wanted: UpOptions) -> list[str]:
    """Return the gateway's options for a notifier: the address that messages link to, and push as it sends them."""
    from workers.notifier.settings import read_settings  # noqa: PLC0415 - an extra

    assert wanted.notify is not None
    settings = read_settings(wanted.notify)
    said = [] if settings.public_url is None else ["--host", settings.public_url]
    if settings.push is not None and wanted.typed["push_contact"] is None:
        said += ["--push-contact", settings.push.contact]
        said += [word for one in settings.push.services for word in ("--push-service", one)]
    return said

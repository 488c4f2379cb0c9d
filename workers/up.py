"""`up`: all processes that a ledger on one machine needs, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import msgspec

from ledger import InputError, Ledger, Timeouts
from ledger.core.extras import install_line, is_installed, require_extra
from ledger.core.timeouts import RunLimits
from workers.runtime.children import Kept, own_command, own_environment
from workers.runtime.history import watched_history
from workers.runtime.place import LedgerPlace
from workers.runtime.process import stopping_on_signals

WORKERS: Final = ("expiry", "projector")
GATEWAY: Final = "gateway"
NOTIFIER: Final = "notifier"

_LIMITS: Final = ("attended", "unattended", "approval_lifetime", "claim_timeout")
"""The options of times, which are the gateway's."""

Say = Callable[[str], None]


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `up`. `notify` is the configuration of a notifier; rules and deadlines are the gateway's."""

    listen: str | None = None
    hosts: tuple[str, ...] = ()
    notify: Path | None = None
    rules: tuple[str, ...] = ()
    attended: str | None = None
    unattended: str | None = None
    approval_lifetime: str | None = None
    claim_timeout: str | None = None
    log_level: str = "warning"
    log_format: str = "text"

    @property
    def timeouts(self) -> Timeouts:
        """Return the deadlines of sessions that state none. Raises InputError."""
        return Timeouts().stated({"attended": self.attended, "unattended": self.unattended}, "--{}")

    @property
    def limits(self) -> RunLimits:
        """Return the limits of runs in sessions that state none. Raises InputError."""
        return RunLimits.read(self.approval_lifetime, self.claim_timeout, are_options=True)


async def up(place: LedgerPlace, say: Say, wanted: UpOptions) -> None:
    """Run server, workers and gateway until SIGTERM or Ctrl-C, and a notifier if one is configured.

    Raises StoreError, SetupError or InputError when that fails.
    """
    listen = wanted.listen
    serves = _serves(listen)
    await _check(wanted, serves)
    with stopping_on_signals() as stop, ExitStack() as stack:
        was_running = place.was_running
        # Held while we run: an embedded server lives while it is held.
        async with Ledger.connect(place.url) as ledger, watched_history(ledger.store, place):
            listeners = [stack.enter_context(closing(one)) for one in (_listeners(place, listen) if serves else ())]
            say("permission-ledger is up")
            say("")
            say(f"  server     {place.described()}" + (" (was running already)" if was_running else ""))
            if listen != "none" and not serves:
                say(f"  {GATEWAY:<9}  not started: it {install_line(GATEWAY)}")
            if serves:
                say(f"  deadlines  {wanted.timeouts.described()}, where a session states none")
            await _keep_running(ledger, place, listeners, say, stop, wanted=wanted)
    say("permission-ledger is down")


async def _check(wanted: UpOptions, serves: bool) -> None:
    """Refuse at once what a worker would refuse at every restart. Raises InputError."""
    if wanted.notify is not None:
        from workers.notifier.settings import read_settings  # noqa: PLC0415 - an extra

        read_settings(wanted.notify)
    wanted.timeouts.as_ms()
    _ = wanted.limits
    if serves:
        from workers.gateway.names import check_host  # noqa: PLC0415 - an extra
        from workers.gateway.own_rules import read_rule_files  # noqa: PLC0415 - an extra

        for host in wanted.hosts:
            check_host(host)
        await read_rule_files(wanted.rules)
    elif wanted.rules or any(getattr(wanted, one) for one in _LIMITS):
        require_extra(GATEWAY, "--rules and the time limits of sessions are the gateway's: `up`")
        raise InputError("--rules and the time limits of sessions are the gateway's; remove `--listen none`")


def _serves(listen: str | None) -> bool:
    """Return whether a gateway is started. Raises MissingExtraError if an address is named and its extra is missing."""
    if listen == "none" or is_installed(GATEWAY):
        return listen != "none"
    if listen is not None:
        require_extra(GATEWAY, f"`--listen {listen}`")
    return False


def _listeners(place: LedgerPlace, listen: str | None) -> list[socket.socket]:
    """Return the listening sockets of the gateway.

    We listen ourselves and hand the sockets down, so that no connection is refused while a gateway restarts.
    """
    from workers.gateway.command import gateway_sockets  # noqa: PLC0415 - an extra

    return gateway_sockets(place.folder, listen)


async def _keep_running(
    ledger: Ledger,
    place: LedgerPlace,
    listeners: Sequence[socket.socket],
    say: Say,
    stop: asyncio.Event,
    *,
    wanted: UpOptions,
) -> None:
    names = [*WORKERS, *([GATEWAY] if listeners else []), *([NOTIFIER] if wanted.notify else [])]
    running: dict[str, int] = {}
    all_run = asyncio.Event()

    def started(name: str, pid: int) -> None:
        running[name] = pid
        if len(running) == len(names):
            all_run.set()

    def kept(name: str) -> Kept:
        numbers = [one.fileno() for one in listeners] if name == GATEWAY else []
        logs = ("--log-level", wanted.log_level, "--log-format", wanted.log_format)
        command = own_command(*_words(name, wanted, numbers), *logs, "--with-parent", str(os.getpid()))
        # Not on the command line, where every user of the machine could read a password in it.
        environment = {**own_environment(), "PERMISSION_LEDGER_URL": place.url}
        return Kept(name, command, environment, started, handed_down=numbers)

    tasks = [asyncio.create_task(kept(name).run(), name=f"keep {name}") for name in names]
    try:
        await all_run.wait()
        for name in names:
            say(f"  {name:<9}  worker, process {running[name]}")
        if listeners:
            from workers.gateway.command import how_to_get_in  # noqa: PLC0415 - an extra

            for line in await how_to_get_in(ledger, listeners):
                say(line)
        command = place.command()
        for line in (
            "",
            "Try, in another terminal:",
            f"  {command} ask ses_1 bash 'git push' --always 'git push *'",
            f"  {command} pending",
            f"  {command} reply REQUEST once",
            "",
            "Ctrl-C ends it; what was asked and answered stays.",
        ):
            say(line)
        await stop.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _words(name: str, wanted: UpOptions, sockets: Sequence[int]) -> list[str]:
    """Return the command line of a worker, or of the gateway on the sockets that it inherits."""
    if name == NOTIFIER:
        return ["worker", name, "--config", str(wanted.notify)]
    if name != GATEWAY:
        return ["worker", name]
    said = [("--inherit", str(number)) for number in sockets]
    said += [("--host", text) for text in wanted.hosts]
    said += [("--rules", text) for text in wanted.rules]
    said += [] if wanted.notify is None else _of_notifier(wanted.notify)
    limits = {f"--{one.replace('_', '-')}": getattr(wanted, one) for one in _LIMITS}
    said += [(option, text) for option, text in limits.items() if text is not None]
    return ["serve", *(word for pair in said for word in pair)]


def _of_notifier(notify: Path) -> list[tuple[str, str]]:
    """Return the gateway's options for a notifier: the address that messages link to, and push as it sends them."""
    from workers.notifier.settings import read_settings  # noqa: PLC0415 - an extra

    settings = read_settings(notify)
    said = [] if settings.public_url is None else [("--host", settings.public_url)]
    if settings.push is not None:
        said += [("--push-contact", settings.push.contact)]
        said += [("--push-service", one) for one in settings.push.services]
    return said

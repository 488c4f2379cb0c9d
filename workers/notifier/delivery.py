"""Delivery of one message to one service. A failure has no other effect: nothing of the address is ever logged."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import Any

from apprise import Apprise, NotifyFormat

from workers.notifier.formats import OutgoingMessage, rendered, titled
from workers.notifier.settings import Service

log = logging.getLogger(__name__)


def keep_addresses_out_of_the_log() -> None:
    """Silence apprise's log, which may hold addresses and with them secrets."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)


async def deliver(service: Service, message: OutgoingMessage, seconds: float) -> bool:
    """Return whether the service accepted the message in time."""
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    # A daemon thread: a service that never answers must not keep a worker from stopping.
    threading.Thread(target=_deliver, args=(service, message, done), name=service.name, daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            return await done
    except TimeoutError:
        log.warning("notifier: %s did not take a message in %g s", service.name, seconds)
        return False


def _deliver(service: Service, message: OutgoingMessage, done: asyncio.Future[bool]) -> None:
    taken = False
    try:
        taken = _notify(service, message)
    except Exception as error:  # noqa: BLE001 - a hundred services, each with its own
        log.warning("notifier: %s failed: %s", service.name, type(error).__name__)
    # The loop may have ended meanwhile: then the result is not needed.
    with suppress(RuntimeError):
        done.get_loop().call_soon_threadsafe(_tell, done, taken)


def _notify(service: Service, message: OutgoingMessage) -> bool:
    """Send a message in the service's own format: given the format, apprise converts nothing."""
    plugin = Apprise.instantiate(service.url)
    if plugin is None:
        return False
    form = plugin.resolve_format(NotifyFormat.TEXT)
    # Some services have no title, and show it in the body.
    title = titled(message.title, form.value) if plugin.title_maxlen <= 0 else message.title
    sender = Apprise()
    sender.add(plugin)
    return bool(sender.notify(title=title, body=rendered(message.lines, form.value), body_format=form))


def _tell(done: asyncio.Future[Any], taken: bool) -> None:
    if not done.done():
        done.set_result(taken)

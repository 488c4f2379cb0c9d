"""Notifications of the signed-in person: devices with push messages, quiet hours, muted services."""

from __future__ import annotations

from typing import Any

from litestar import delete, get, post, put
from litestar.params import JSONBody

from ledger.access.notifications import NotificationChoice
from ledger.core.access_events import QuietHours
from workers.gateway.bodies import ChoiceBody, DeviceBody, QuietBody
from workers.gateway.parameters import Id, TheGateway, ThePrincipal
from workers.gateway.rows import Row


@get("/v1/notifications", operation_id="read_notifications")
async def read_notifications(gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Return the caller's devices and choices, and whether this gateway sends push messages."""
    return await gateway.notifications.described(principal)


@put("/v1/notifications", operation_id="choose_notifications")
async def choose_notifications(data: JSONBody[ChoiceBody], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Replace the caller's quiet hours and muted services; from a signed-in browser only."""
    choice = NotificationChoice(quiet=None if data.quiet is None else _quiet(data.quiet), muted=tuple(data.muted))
    return await gateway.notifications.choose(principal, choice)


@post("/v1/notifications/devices", status_code=201, operation_id="subscribe_device")
async def subscribe_device(data: JSONBody[DeviceBody], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Register the caller's browser for push messages, or renew it; from a signed-in browser only."""
    return await gateway.notifications.subscribe(
        principal, data.name, data.endpoint, data.keys.p256dh, data.keys.auth, replaces=data.replaces
    )


@post("/v1/notifications/devices/{device:str}/test", status_code=200, operation_id="test_device")
async def test_device(device: Id, gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Send a test message to one of the caller's devices: `accepted`, `gone` or `failed`."""
    return await gateway.notifications.test(principal, device)


@delete("/v1/notifications/devices/{device:str}", status_code=204, operation_id="remove_device")
async def remove_device(device: Id, gateway: TheGateway, principal: ThePrincipal) -> None:
    """End push messages on one of the caller's devices."""
    await gateway.notifications.remove(principal, device)


def _quiet(body: QuietBody) -> QuietHours:
    return QuietHours(
        begin=_minute(body.begin), until=_minute(body.until), zone=body.zone, days=tuple(body.days), grave=body.grave
    )


def _minute(text: str) -> int:
    """Return the minute of the day of a time, whose form the body has checked."""
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


HANDLERS: list[Any] = [read_notifications, choose_notifications, subscribe_device, test_device, remove_device]

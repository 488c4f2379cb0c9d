"""`replay`: the past of a session at its own pace, with the state beside each event."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click

from ledger import Ledger
from ledger.grants import StandingGrant
from ledger.history import logged, read_events
from ledger.session.state import SessionState, in_order
from workers.cli.base import command, with_ledger
from workers.cli.log import event_line
from workers.cli.output import Output
from workers.moments import approved_at, project_grants

PAUSE_MAX_SECONDS: Final = 3.0
"""The longest pause at speed 1: nobody wants to wait seven days for an expiry."""


@command(examples=("permission-ledger replay ses_1", "permission-ledger replay ses_1 --speed 0 --json"))
@click.argument("session")
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="X",
    help="X times as fast as it was; 0 does not pause.",
)
@with_ledger
async def replay(ledger: Ledger, output: Output, *, session: str, speed: float) -> None:
    """Play a session's past as it happened, with the state beside each event.

    Pauses are those of the record, but none is longer than 3 s at speed 1.
    """
    handle = await ledger.attach(session)
    of_project = await project_grants(ledger, handle.stream.state)
    key = handle.stream.key
    fold = ledger.streams.session_fold
    state, last_ms = fold.initial(key), None
    async for recorded in read_events(ledger.store, key):
        await asyncio.sleep(pause_seconds(last_ms, recorded.ms, speed))
        state, last_ms = fold.evolve(state, recorded), recorded.ms
        event = logged(key, recorded)
        if output.as_json:
            output.row({**event.as_json(), "state": _state_json(state, of_project, recorded.ms)})
        else:
            output.line(event_line(event))
            output.line(f"{'':7}{_state_words(_state_json(state, of_project, recorded.ms))}")


def pause_seconds(last_ms: int | None, ms: int, speed: float) -> float:
    """How long to wait before an event at `ms`; `last_ms` None is the first."""
    if last_ms is None or speed == 0:
        return 0.0
    return min((ms - last_ms) / 1000, PAUSE_MAX_SECONDS) / speed


def _state_json(state: SessionState, of_project: list[StandingGrant], at_ms: int) -> dict[str, Any]:
    return {
        "pending": [request.request_id for request in in_order(state.pending.values())],
        "approved": [one.grant.grant_id for one in approved_at(state, of_project, at_ms)],
        "clients": [client.client_id for client in sorted(state.clients.values(), key=lambda one: one.version)],
        "settled": len(state.settled),
    }


def _state_words(now: dict[str, Any]) -> str:
    named = [f"{name}: {', '.join(now[name])}" for name in ("pending", "approved", "clients") if now[name]]
    return "  ".join([*named, f"settled: {now['settled']}"])

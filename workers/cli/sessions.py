"""`sessions`: all of them, read from their streams, so that no worker needs to run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import click

from ledger import DamageError, Ledger
from ledger.session.state import SessionState
from workers.cli.base import command, with_ledger
from workers.cli.output import Output, talk
from workers.moments import session_json

AT_ONCE_COUNT: Final = 64
"""Streams that are read at the same time."""

COLUMNS = ("session", "project", "agent", "opened", "last event", "events", "pending", "closed")


@command(examples=("permission-ledger sessions", "permission-ledger sessions --project shop --json"))
@click.option("--project", metavar="PROJECT", help="Only the sessions of this project.")
@click.option("--open", "only_open", is_flag=True, help="Only those that are not closed.")
@with_ledger
async def sessions(ledger: Ledger, output: Output, *, project: str | None, only_open: bool) -> None:
    """List the sessions, the one with the newest event first."""
    states = [
        state
        for state in await _states(ledger)
        if (project is None or state.project == project) and not (only_open and state.closed_ms is not None)
    ]
    states.sort(key=lambda state: (-state.last_ms, state.session_id))
    if output.as_json:
        output.rows(map(session_json, states))
    elif states:
        output.table(COLUMNS, [_cells(state) for state in states])
    else:
        talk("there is no session")


async def _states(ledger: Ledger) -> list[SessionState]:
    names = [name async for name in ledger.sessions()]
    states: list[SessionState] = []
    for start in range(0, len(names), AT_ONCE_COUNT):
        states += await _some(ledger, names[start : start + AT_ONCE_COUNT])
    return states


async def _some(ledger: Ledger, names: Sequence[str]) -> list[SessionState]:
    """A damaged session is told of and left out, so that it does not hide the others."""
    found = await asyncio.gather(*(ledger.streams.session(name).refresh() for name in names), return_exceptions=True)
    states: list[SessionState] = []
    for one in found:
        if isinstance(one, DamageError):
            talk(f"warning: {one.text}")
        elif isinstance(one, BaseException):
            raise one
        elif one.opened_ms is not None:
            states.append(one)
    return states


def _cells(state: SessionState) -> tuple[object, ...]:
    row = session_json(state)
    if state.imported_ms is not None:
        row["opened_at"] = f"{row['opened_at']} (imported)"
    names = ("session", "project", "agent", "opened_at", "at", "version", "pending", "closed_at")
    return tuple(row[name] for name in names)

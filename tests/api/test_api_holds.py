"""Legal holds as programs use them: read by every process from the server."""

from __future__ import annotations

from typing import Final

import pytest

from ledger import Ledger, SyncLedger
from ledger.core.errors import InputError, OnHoldError, UnknownSessionError
from ledger.core.events import HoldPlaced
from ledger.log.tail import read_events
from ledger.stores.port import StreamKey
from tests.api.actors import ANN, OpenLedger, raised

HOLDS: Final = StreamKey("access", "holds")


async def test_a_hold_is_known_to_every_process_at_once_and_until_it_is_lifted(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    await ledger.session("ses_1", project="shop")
    other = await open_ledger()
    await other.holds.require_none(session="ses_1", project="shop")
    placed = await ledger.holds.place(project="shop", reason="case 7", actor=ANN)
    error = await raised(other.holds.require_none(session="ses_1", project="shop"))
    assert isinstance(error, OnHoldError)
    assert (error.data["by"], error.data["at_ms"], error.data["reason"]) == (ANN, placed.at_ms, "case 7")
    assert await other.holds.in_force() == (placed,)
    assert await other.holds.lift(project="shop", reason="closed") == placed
    assert await other.holds.lift(project="shop") is None
    await ledger.holds.require_none(session="ses_1", project="shop")


async def test_a_second_hold_keeps_the_first_and_returns_it(ledger: Ledger) -> None:
    first = await ledger.holds.place(project="shop", reason="case 7", actor=ANN)
    assert await ledger.holds.place(project="shop", reason="case 8", actor="bob") == first


async def test_a_hold_of_a_session_that_does_not_exist_is_refused(ledger: Ledger) -> None:
    assert isinstance(await raised(ledger.holds.place(session="ses_9", reason="case 7")), UnknownSessionError)
    assert await ledger.holds.in_force() == ()


@pytest.mark.parametrize("named", [{}, {"project": "shop", "session": "ses_1"}, {"project": "no such\n"}])
async def test_a_hold_names_one_session_or_one_project(ledger: Ledger, named: dict[str, str]) -> None:
    assert isinstance(await raised(ledger.holds.place(**named, reason="case 7")), InputError)
    assert isinstance(await raised(ledger.holds.lift(**named)), InputError)


async def test_a_hold_without_a_reason_is_refused(ledger: Ledger) -> None:
    assert isinstance(await raised(ledger.holds.place(project="shop", reason="")), InputError)


async def test_the_log_says_who_holds_what_and_why_with_secrets_masked(ledger: Ledger) -> None:
    secret = "ghp_" + "Ab3dE6gH9j" * 3 + "kLmNoP"
    await ledger.holds.place(project="shop", reason=f"case 7 {secret}", actor=ANN)
    (recorded,) = [one async for one in read_events(ledger.store, HOLDS)]
    assert isinstance(recorded.event, HoldPlaced)
    assert (recorded.actor.name, recorded.event.project) == (ANN, "shop")
    assert recorded.event.detail is not None
    assert recorded.event.detail.reason is not None
    assert recorded.event.detail.reason.startswith("case 7 {secret:")


def test_a_script_holds_and_lifts() -> None:
    with SyncLedger.connect("memory://") as ledger:
        placed = ledger.holds.place(project="shop", reason="case 7")
        assert ledger.holds.in_force() == (placed,)
        with pytest.raises(OnHoldError):
            ledger.holds.require_none(project="shop")
        assert ledger.holds.lift(project="shop") == placed

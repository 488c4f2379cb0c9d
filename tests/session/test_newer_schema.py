from __future__ import annotations

import pytest

from ledger.core import codec
from ledger.core.codec import NewerEvent
from ledger.core.errors import NewerSchemaError
from ledger.core.events import Settings
from ledger.session.commands import Command
from ledger.stores.port import Entry
from tests.support.commands import (
    asks,
    cancels,
    closes,
    connects,
    disconnects,
    finishes_tool,
    grants,
    opens,
    passes_lock,
    releases,
    replies,
    revokes,
    takes_lock,
)
from tests.support.scenario import AS_IT_STANDS, T0, Scenario, Settle, after, given, ms

EVERY_COMMAND = [
    opens(),
    asks("per_1", "ls"),
    asks("per_2", "ls"),
    replies("per_1", "once"),
    releases(project=AS_IT_STANDS),
    grants("grn_1", "bash", "*"),
    revokes("grn_1"),
    connects("phone"),
    disconnects("phone"),
    takes_lock("phone"),
    passes_lock("phone", "desk"),
    cancels("per_1"),
    closes(),
    finishes_tool("per_1"),
]


@pytest.fixture
def scenario() -> Scenario:
    """A session in which a later version of this software wrote something that this one cannot read."""
    scenario = given(opens(), asks("per_1", "ls"))
    payload = (
        b'{"v":4,"id":"evt_x","prev":"%b","actor":{"kind":"agent","name":"claude"},'
        b'"event":{"type":"vetoed","request_id":"per_1"}}' % after(scenario.entries[-1]).encode()
    )
    scenario.add_entry(Entry(scenario.now_ms, 3, payload))
    return scenario


def test_an_event_of_a_newer_schema_is_kept_and_shown(scenario: Scenario) -> None:
    body = {"type": "vetoed", "request_id": "per_1"}
    assert scenario.records[-1].event == NewerEvent(schema=4, event_type="vetoed", body=body)
    assert (scenario.state.version, scenario.state.newer, scenario.waiting()) == (3, True, ["per_1"])


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
def test_nothing_is_decided_beside_it(scenario: Scenario, command: Command) -> None:
    scenario.when(command).then_refused(
        NewerSchemaError,
        "NEWER_SCHEMA",
        contains="session `ses_1` holds events of a newer version; upgrade this worker",
        session="ses_1",
    )


def test_nothing_is_expired_beside_it_since_it_may_have_been_answered(scenario: Scenario) -> None:
    scenario.when(Settle(), now=T0 + ms("365d")).then_nothing_happens()


def test_what_comes_after_it_is_folded_on(scenario: Scenario) -> None:
    event = given(opens(settings=Settings(answering="lock-holder")), connects("phone")).records[-1].event
    assert not isinstance(event, NewerEvent)
    scenario.given(event)
    assert (scenario.state.version, scenario.state.newer, scenario.state.lock) == (4, True, "phone")


def test_this_version_never_writes_what_it_calls_newer() -> None:
    written = [codec.decode(entry.payload).v for entry in given(opens(), asks("per_1", "ls")).entries]
    assert written == [codec.FIRST_SCHEMA] * 2

"""The synchronous API: the same names, arguments and errors, for scripts and threads."""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import pytest

from ledger import (
    ClientConnection,
    DeniedError,
    Ledger,
    LedgerError,
    RejectedError,
    Session,
    StoreError,
    SyncClientConnection,
    SyncLedger,
    SyncSession,
)
from ledger.testing import TestClock
from tests.api.actors import ANN, RULES
from tests.support.backends import PARTITION_COUNT
from tests.support.processes import next_line, python
from tests.support.waiting import wait_until

OpenSync = Callable[..., SyncLedger]

# Internals of the ledger, without a blocking counterpart.
INSIDE: Final = {
    Ledger: {
        "actor",
        "store",
        "streams",
        "deciders",
        "handle_of",
        "notifications",
        "passkeys",
        "policies",
        "server_url",
        "tokens",
        "stream_of_grant",
    },
    Session: {"connect_by_inbox", "leases", "on_behalf_of", "stream", "renew_lease"},
    ClientConnection: set[str](),
}


@pytest.fixture
def open_sync(url: str, clock: TestClock) -> OpenSync:
    def opened(**options: Any) -> SyncLedger:
        return SyncLedger.connect(
            url, **{"clock": clock, "partitions": PARTITION_COUNT, "entry_points": False, **options}
        )

    return opened


@pytest.fixture
def ledger(open_sync: OpenSync) -> Iterator[SyncLedger]:
    with open_sync() as ledger:
        yield ledger


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


def until_pending(session: SyncSession, *request_ids: str) -> None:
    def pending() -> bool:
        return {one.request.request_id for one in session.pending()} >= {*request_ids}

    wait_until(pending, f"{request_ids} to be pending")


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("face", "blocking"), [(Ledger, SyncLedger), (Session, SyncSession), (ClientConnection, SyncClientConnection)]
)
def test_every_call_is_there_under_its_name(face: type, blocking: type) -> None:
    attributes = {"id", "client_id", "replayed", "session"} - public(face)
    assert public(blocking) - attributes == public(face) - INSIDE[face]


@pytest.mark.parametrize(
    ("face", "blocking"), [(Ledger, SyncLedger), (Session, SyncSession), (ClientConnection, SyncClientConnection)]
)
def test_every_call_takes_the_same_arguments_and_is_told_of_in_the_same_words(face: type, blocking: type) -> None:
    for name in public(blocking) & public(face):
        one, other = getattr(face, name), getattr(blocking, name)
        if callable(one):
            parameters = inspect.signature(one).parameters, inspect.signature(other).parameters
            assert parameters[0] == parameters[1], name
            assert one.__doc__ == other.__doc__


def test_a_script_freezes_and_unfreezes(ledger: SyncLedger) -> None:
    made = ledger.freezes.freeze("shop", reason="a leak", actor="ann")
    assert ledger.freezes.in_force() == (made,)
    session = ledger.session("ses_1", project="shop", rules=RULES)
    assert session.submit("read", ["a.txt"], request_id="call_1").outcome is None
    assert ledger.freezes.unfreeze("shop") == made
    assert session.result("call_1").outcome == "allowed"


def test_a_script_asks_answers_and_looks_back(ledger: SyncLedger) -> None:
    session = ledger.session("ses_1", project="shop", rules=RULES)
    assert session.id == "ses_1"
    assert session.ask("read", ["a.txt"], request_id="call_1").outcome == "allowed"
    assert session.submit("bash", ["git push"], always=["git push *"], request_id="call_2").outcome is None
    assert [one.request.request_id for one in ledger.pending()] == ["call_2"]
    assert ledger.reply("call_2", "always", actor=ANN).by.name == "ann"
    assert session.wait("call_2").outcome == "allowed"
    [grant] = session.approved()
    assert session.ask("bash", ["git push --tags"]).outcome == "allowed"
    ledger.revoke(grant.grant.grant_id)
    assert session.submit("bash", ["git push --tags"], request_id="call_3").outcome is None
    session.cancel("call_3")
    assert session.disabled(["read", "bash"]) == frozenset()
    assert [event.type for event in session.events(follow_on=False)] == [
        "session_opened",
        "asked",
        "asked",
        "replied",
        "asked",
        "asked",
        "cancelled",
    ]
    assert (list(ledger.sessions()), ledger.sessions_of("call_2")) == (["ses_1"], ["ses_1"])
    assert ledger.state_at("ses_1", 3).version == 3
    session.close()
    assert ledger.attach("ses_1").state().closed_ms is not None


def test_errors_are_the_same(ledger: SyncLedger) -> None:
    session = ledger.session("ses_1", rules=RULES)
    with pytest.raises(DeniedError) as caught:
        session.ask("bash", ["rm x"], request_id="call_1")
    assert (caught.value.code, caught.value.request_id, caught.value.agent) == ("DENIED", "call_1", "continue")
    with pytest.raises(LedgerError, match="there is no session `ses_9`"):
        ledger.attach("ses_9")


def test_a_client_connects_for_a_block(ledger: SyncLedger) -> None:
    session = ledger.session("ses_1")
    session.submit("bash", ["ls"], request_id="call_1")
    with session.connect("phone", actor=ANN) as connection:
        assert [(one.request.request_id, one.is_replay) for one in connection.replayed] == [("call_1", True)]
        assert (connection.client_id, connection.session.id) == ("phone", "ses_1")
        connection.renew()
        assert connection.reply("call_1", "once").by.name == "ann"
    assert list(session.state().clients) == []


def test_many_threads_wait_at_once_and_each_gets_its_own_answer(
    ledger: SyncLedger, threads: ThreadPoolExecutor
) -> None:
    session = ledger.session("ses_1", cascade_reject="none")
    ids = [f"call_{number}" for number in range(24)]
    asking = {one: threads.submit(session.ask, "bash", [one], request_id=one) for one in ids}
    until_pending(session, *ids)
    replying = [
        threads.submit(session.reply, one, "reject" if index % 2 else "once", message=one if index % 2 else None)
        for index, one in enumerate(ids)
    ]
    assert [done.result().request_id for done in replying] == ids
    for index, (one, asked) in enumerate(asking.items()):
        if index % 2:
            with pytest.raises(RejectedError, match=f"feedback: {one}$"):
                asked.result()
        else:
            assert asked.result().request_id == one


def test_a_clock_that_another_thread_moves_ends_what_waits(
    ledger: SyncLedger, threads: ThreadPoolExecutor, clock: TestClock
) -> None:
    session = ledger.session("ses_1")
    asking = threads.submit(session.ask, "bash", ["ls"], request_id="call_1")
    until_pending(session, "call_1")
    clock.advance("7d")
    with pytest.raises(LedgerError, match="Permission request expired after 7 days"):
        asking.result(10)


def test_an_interrupt_while_waiting_leaves_the_request_pending_and_nobody_waiting(
    ledger: SyncLedger, threads: ThreadPoolExecutor
) -> None:
    session = ledger.session("ses_1")

    def interrupt() -> None:
        until_pending(session, "call_1")
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threads.submit(interrupt)
    with pytest.raises(KeyboardInterrupt):
        session.ask("bash", ["ls"], request_id="call_1")
    interrupting.result()
    assert [one.request.request_id for one in session.pending()] == ["call_1"]
    wait_until(lambda: not session._inner.stream.observed, "nobody to wait any more")
    ledger.reply("call_1", "once")
    assert session.ask("bash", ["ls"], request_id="call_1").outcome == "allowed"


def test_closing_ends_what_waits_with_an_error_and_leaves_it_pending(
    open_sync: OpenSync, ledger: SyncLedger, threads: ThreadPoolExecutor
) -> None:
    with open_sync() as leaving:
        session = leaving.session("ses_1")
        asking = threads.submit(session.ask, "bash", ["ls"], request_id="call_1")
        until_pending(session, "call_1")
    with pytest.raises(StoreError, match="the ledger was closed while this call waited; a request stays pending"):
        asking.result(10)
    with pytest.raises(StoreError, match="the ledger is closed; use it inside"):
        session.pending()
    assert [one.request.request_id for one in ledger.pending()] == ["call_1"]


def test_events_are_followed_until_the_script_stops_reading(ledger: SyncLedger, threads: ThreadPoolExecutor) -> None:
    session = ledger.session("ses_1")
    seen: list[str] = []
    asked: Future[Any] | None = None
    for event in session.events():
        seen.append(event.type)
        if event.type == "session_opened":
            asked = threads.submit(session.ask, "bash", ["ls"], request_id="call_1")
        elif event.type == "asked":
            session.reply("call_1", "once")
        else:
            break
    assert seen == ["session_opened", "asked", "replied"]
    assert asked is not None
    assert asked.result().outcome == "allowed"


def test_a_ledger_that_cannot_be_opened_raises_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(StoreError), SyncLedger.connect("unix:///nowhere/at/all.sock", entry_points=False):
        pass
    assert threading.active_count() == before


def test_a_block_that_fails_closes_the_ledger(open_sync: OpenSync) -> None:
    before = threading.active_count()

    def failing() -> None:
        with open_sync() as ledger:
            ledger.session("ses_1")
            raise LookupError

    with pytest.raises(LookupError):
        failing()
    assert threading.active_count() == before


def test_the_ledgers_own_loop_is_no_place_to_block(open_sync: OpenSync) -> None:
    class Blocking:
        name = "blocking"

        async def decide(self, *_: object) -> str:
            held[0].pending()
            return "allow"

    held: list[SyncLedger] = []
    with open_sync(plugins=[Blocking()]) as ledger:
        held.append(ledger)
        result = ledger.session("ses_1").submit("bash", ["ls"])
    assert (result.outcome, result.request.opinions[0].failed) == (
        None,
        "AssertionError: a synchronous call would block the ledger's own event loop; use the asynchronous interface",
    )


def test_a_plain_decider_may_use_the_ledger_it_decides_for(open_sync: OpenSync) -> None:
    class Counting:
        name = "counting"

        def decide(self, *_: object) -> str:
            return "deny" if len(held[0].pending()) >= 1 else "ask"

    held: list[SyncLedger] = []
    with open_sync(plugins=[Counting()]) as ledger:
        held.append(ledger)
        session = ledger.session("ses_1")
        outcomes = [session.submit("bash", ["ls"], request_id=f"call_{number}").outcome for number in range(2)]
    assert outcomes == [None, "denied"]


SCRIPT = """
import sys
from ledger import SyncLedger
ledger = SyncLedger.connect(sys.argv[1], entry_points=False).__enter__()
session = ledger.session("ses_1")
print("asking", flush=True)
session.ask("bash", ["ls"], request_id="call_1")
"""


@pytest.mark.slow
def test_a_script_that_is_interrupted_ends_though_it_never_closed_its_ledger() -> None:
    with python(SCRIPT, "memory://") as process:
        assert next_line(process) == "asking"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) != 0
        assert process.stderr
        assert process.stderr.read().splitlines()[-1] == "KeyboardInterrupt"

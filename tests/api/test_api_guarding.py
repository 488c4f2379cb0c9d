"""Guarded functions: nothing runs before the ledger allows this very call, and exactly the allowed call runs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from ledger import (
    DeniedError,
    DifferentRequestError,
    InputError,
    Ledger,
    Pending,
    RejectedError,
    Session,
    SyncLedger,
    SyncSession,
)
from ledger.core.policy import ReplyKind
from ledger.guarding import asking, guarded
from ledger.testing import TestClock
from tests.api.actors import ANN, RULES, raised
from tests.support.backends import PARTITION_COUNT
from tests.support.servers import RealServer
from tests.support.waiting import wait_until, wait_until_async

ASKED: Final = [*RULES, {"permission": "shout", "pattern": "*", "action": "ask"}]


@dataclass
class Place:
    folder: Path
    depth: int = 1


class Recorder:
    """Guarded tools that record each call they run."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    @guarded("bash")
    async def run(self, command: str, timeout: int = 30) -> str:
        self.ran.append((command, timeout))
        return f"ran {command}"


@pytest.fixture
def url(server: RealServer) -> str:
    """The URL of one store, which is enough here: guarded functions do not depend on the store."""
    return server.url


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def session(ledger: Ledger) -> Session:
    return await ledger.session("ses_1", rules=ASKED, cwd="/repo")


@pytest.fixture
def sync_session(url: str, clock: TestClock) -> Iterator[SyncSession]:
    connecting = SyncLedger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False)
    with connecting as ledger:
        yield ledger.session("ses_1", rules=ASKED, cwd="/repo")


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


async def waiting(session: Session, count: int = 1) -> list[Pending]:
    async def enough() -> list[Pending]:
        found = await session.pending()
        return found if len(found) >= count else []

    return await wait_until_async(enough, f"{count} requests to be pending")


async def answered(session: Session, reply: ReplyKind, **more: Any) -> Pending:
    """Wait for the pending request, answer it and return it."""
    [one] = await waiting(session)
    await session.reply(one.request.request_id, reply, actor=ANN, **more)
    return one


async def test_a_call_that_rules_allow_runs_at_once(session: Session) -> None:
    @guarded("read", names={"file_path": "filePath"})
    async def read(file_path: str) -> str:
        return f"content of {file_path}"

    with asking(session):
        assert await read("a.txt") == "content of a.txt"


async def test_a_denied_call_raises_and_does_not_run(session: Session, recorder: Recorder) -> None:
    with asking(session):
        error = await raised(recorder.run("rm old.txt"))
    assert isinstance(error, DeniedError)
    assert recorder.ran == []


async def test_what_is_asked_are_the_arguments_by_name_defaults_included(session: Session, recorder: Recorder) -> None:
    with asking(session):
        call = asyncio.create_task(recorder.run("git push"))
        shown = await answered(session, "once")
        assert await call == "ran git push"
    asked = shown.request
    assert (asked.permission, asked.tool_name, asked.input) == ("bash", "bash", {"command": "git push", "timeout": 30})
    assert asked.patterns == ("git push",)
    assert recorder.ran == [("git push", 30)]


async def test_an_always_spares_the_next_call_of_the_same_kind(session: Session, recorder: Recorder) -> None:
    with asking(session):
        call = asyncio.create_task(recorder.run("git push"))
        await answered(session, "always")
        await call
        assert await recorder.run("git push") == "ran git push"


async def test_a_once_serves_one_call_only(session: Session, recorder: Recorder) -> None:
    with asking(session):
        first = asyncio.create_task(recorder.run("git push"))
        await answered(session, "once")
        await first
        second = asyncio.create_task(recorder.run("git push"))
        await answered(session, "reject")
        assert isinstance(await raised(second), RejectedError)
    assert recorder.ran == [("git push", 30)]


async def test_a_changed_input_is_what_runs(session: Session, recorder: Recorder) -> None:
    with asking(session):
        call = asyncio.create_task(recorder.run("git push --force", 5))
        await answered(session, "once", updated_input={"command": "git push", "timeout": 9})
        assert await call == "ran git push"
    assert recorder.ran == [("git push", 9)]


async def test_a_member_that_a_person_took_out_is_the_default_again(session: Session, recorder: Recorder) -> None:
    with asking(session):
        call = asyncio.create_task(recorder.run("git push", 5))
        await answered(session, "once", updated_input={"command": "git push"})
        await call
    assert recorder.ran == [("git push", 30)]


@pytest.mark.parametrize(
    ("updated", "why"),
    [
        ({"timeout": 9}, "the changed input lacks `command`, which the tool needs"),
        ({"command": "git push", "force": True}, "the changed input has `force`, which the tool does not take"),
        (
            {"command": "git push", "timeout": "soon"},
            "the changed input's `timeout` does not fit the tool: Expected `int`, got `str`",
        ),
    ],
)
async def test_a_changed_input_that_the_function_does_not_take_runs_nothing(
    session: Session, recorder: Recorder, updated: dict[str, Any], why: str
) -> None:
    with asking(session):
        call = asyncio.create_task(recorder.run("git push"))
        await answered(session, "once", updated_input=updated)
        error = await raised(call)
    assert (type(error), error.text, recorder.ran) == (InputError, why, [])


async def test_arguments_that_change_while_the_call_waits_run_nothing(session: Session) -> None:
    ran = []

    @guarded("shout")
    async def shout(words: list[str]) -> None:
        ran.append(words)

    words = ["hello"]
    with asking(session):
        call = asyncio.create_task(shout(words))
        await waiting(session)
        words.append("and rm -rf /")
        await answered(session, "once")
        error = await raised(call)
    assert error.text == "the arguments were changed while the call waited to be allowed; ask again"
    assert ran == []


async def test_parameters_may_have_other_names_than_the_rules_know_and_some_are_no_input(session: Session) -> None:
    @guarded("bash", names={"cmd": "command"}, leave_out=["connection"])
    async def run(connection: object, cmd: str, **environment: str) -> tuple[object, str, dict[str, str]]:
        return connection, cmd, environment

    held = object()
    with asking(session):
        call = asyncio.create_task(run(held, "git push", LANG="C"))
        shown = await answered(session, "once", updated_input={"command": "git status", "PAGER": "cat"})
        assert await call == (held, "git status", {"PAGER": "cat"})
    assert shown.request.input == {"command": "git push", "LANG": "C"}


async def test_objects_are_shown_as_json_and_come_back_as_objects(session: Session) -> None:
    @guarded("shout")
    async def look(*places: Place, mark: Path) -> tuple[tuple[Place, ...], Path]:
        return places, mark

    with asking(session):
        call = asyncio.create_task(look(Place(Path("/a")), Place(Path("/b"), 2), mark=Path("/m")))
        updated = {"places": [{"folder": "/c", "depth": 3}], "mark": "/m"}
        shown = await answered(session, "once", updated_input=updated)
        assert await call == ((Place(Path("/c"), 3),), Path("/m"))
    assert shown.request.input == {
        "places": [{"folder": "/a", "depth": 1}, {"folder": "/b", "depth": 2}],
        "mark": "/m",
    }


async def test_an_argument_without_a_json_form_runs_nothing(session: Session) -> None:
    @guarded("read")
    async def read(file: object) -> None:
        raise AssertionError(file)

    with asking(session):
        error = await raised(read(object()))
    assert error.text == (
        "the argument `file` of type `object` has no JSON form; name it in `leave_out` where it says nothing of what "
        "the tool does"
    )


async def test_without_a_session_nothing_runs(recorder: Recorder) -> None:
    error = await raised(recorder.run("git status"))
    assert error.text == (
        "the tool `bash` has no session to ask in; call it inside `with asking(session):`, or give `session` to its "
        "decorator"
    )
    assert recorder.ran == []


async def test_the_session_may_be_the_decorators(session: Session) -> None:
    @guarded("read", names={"file_path": "filePath"}, session=session)
    async def read(file_path: str) -> str:
        return file_path

    assert await read("a.txt") == "a.txt"


async def test_a_named_call_attaches_to_its_request_after_a_crash(session: Session, recorder: Recorder) -> None:
    def again() -> asyncio.Task[str]:
        with asking(session, request_id="call_42", agent="coder", metadata={"why": "release"}):
            return asyncio.create_task(recorder.run("git push"))

    crashed = again()
    [shown] = await waiting(session)
    crashed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await crashed
    resumed = again()
    await session.reply("call_42", "once", actor=ANN)
    assert await resumed == "ran git push"
    assert (shown.request.request_id, shown.request.agent) == ("call_42", "coder")
    assert shown.request.metadata["why"] == "release"


async def test_a_named_call_is_the_first_that_asks_and_no_other(session: Session, recorder: Recorder) -> None:
    with asking(session, request_id="call_42"):
        first = asyncio.create_task(recorder.run("git push"))
        await answered(session, "once")
        await first
        second = asyncio.create_task(recorder.run("git push"))
        shown = await answered(session, "once")
        await second
    assert shown.request.request_id != "call_42"


async def test_a_name_of_one_call_is_refused_for_another(session: Session, recorder: Recorder) -> None:
    with asking(session, request_id="call_42"):
        call = asyncio.create_task(recorder.run("git push"))
        await answered(session, "once")
        await call
    with asking(session, request_id="call_42"):
        assert isinstance(await raised(recorder.run("git pull")), DifferentRequestError)
    assert recorder.ran == [("git push", 30)]


async def test_a_call_without_a_name_that_is_given_up_is_withdrawn(session: Session, recorder: Recorder) -> None:
    with asking(session):
        call = asyncio.create_task(recorder.run("git push"))
    [shown] = await waiting(session)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    result = await session.result(shown.request.request_id)
    assert result.settled is not None
    assert (result.outcome, result.settled.cancel_cause) == ("cancelled", "asker_gave_up")


async def test_calls_at_the_same_time_get_their_own_answers(session: Session, recorder: Recorder) -> None:
    with asking(session):
        calls = [asyncio.create_task(recorder.run(f"make {target}")) for target in ("all", "test")]
    shown = {one.request.input["command"]: one.request.request_id for one in await waiting(session, 2)}
    # A rejection rejects what else waits in the session, so it comes last.
    await session.reply(shown["make all"], "once", actor=ANN)
    await session.reply(shown["make test"], "reject", actor=ANN)
    assert await calls[0] == "ran make all"
    assert isinstance(await raised(calls[1]), RejectedError)


async def test_a_plain_function_in_a_thread_asks_through_the_loop(session: Session) -> None:
    threads = []

    @guarded("bash")
    def run(command: str) -> str:
        threads.append(threading.current_thread())
        return f"ran {command}"

    with asking(session):
        call = asyncio.create_task(asyncio.to_thread(run, "git push"))
        await answered(session, "once", updated_input={"command": "git status"})
        assert await call == "ran git status"
    assert threads != [threading.current_thread()]


async def test_a_plain_function_never_blocks_the_loop_of_its_session(session: Session) -> None:
    @guarded("read")
    def read(file_path: str) -> str:
        return file_path

    with asking(session), pytest.raises(InputError, match="would block the event loop"):
        read("a.txt")


def test_a_plain_function_asks_through_a_blocking_session(
    sync_session: SyncSession, thread: ThreadPoolExecutor
) -> None:
    @guarded("bash")
    def run(command: str) -> str:
        return f"ran {command}"

    def called(command: str) -> str:
        with asking(sync_session):
            return run(command)

    first: Future[str] = thread.submit(called, "git push")
    [shown] = wait_until(sync_session.pending, "the request to be pending")
    sync_session.reply(shown.request.request_id, "once", actor=ANN, updated_input={"command": "git status"})
    assert first.result() == "ran git status"
    with pytest.raises(DeniedError):
        called("rm old.txt")


async def test_a_coroutine_is_not_given_a_session_that_blocks(sync_session: SyncSession, recorder: Recorder) -> None:
    with asking(sync_session):
        error = await raised(recorder.run("git status"))
    assert error.text == "the tool `bash` is asynchronous and needs a session of `Ledger.connect`"


def test_a_guarded_function_looks_like_the_function() -> None:
    async def run(command: str) -> str:
        """Run it."""
        return command

    made = guarded("bash")(run)
    assert (made.__name__, made.__doc__, inspect.signature(made)) == ("run", "Run it.", inspect.signature(run))
    assert inspect.iscoroutinefunction(made)


async def _pieces() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("decorate", "why"),
    [
        (lambda: guarded("bash")(_pieces), "`_pieces` is a generator and would run in parts; guard a function"),
        (lambda: guarded("")(_pieces), "the tool name has 0 characters; 1 to 256 are accepted"),
        (lambda: guarded("bash", names={"cmd": "command"})(len), "the function `len` has no parameter `cmd`"),
        (lambda: guarded("bash", leave_out=["cmd"])(len), "the function `len` has no parameter `cmd`"),
        (
            lambda: guarded("bash", names={"value": "target"})(lambda value, target: (value, target)),
            "two parameters of `<lambda>` would be the input's `target`",
        ),
    ],
)
def test_what_cannot_be_guarded_is_refused_where_it_is_written(decorate: Callable[[], object], why: str) -> None:
    with pytest.raises(InputError) as refused:
        decorate()
    assert refused.value.text == why

"""The bridge between a host and Codelia's runtime: order, texts and recipients of messages."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.forks import Fork, run
from tests.support.gateways import Person, RunningGateway
from tests.support.processes import ROOT
from tests.support.waiting import wait_until_async
from tests.workers.bridges.codelia.conversation import (
    INITIALIZE,
    RUN,
    Conversation,
    answer,
    confirm,
    line,
    run_cancel,
    run_start,
)
from tests.workers.bridges.recorded import PLAYER

SESSION: Final = "9c5b94b1"

Play = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def play(gateway: RunningGateway, tmp_path: Path) -> Iterator[Play]:
    """The bridge around a played runtime, to which the host says `said`."""
    started: list[subprocess.Popen[bytes]] = []

    def start(conversation: Conversation, *options: str, said: tuple[Any, ...] = ()) -> subprocess.Popen[bytes]:
        path = conversation.write(tmp_path / "conversation.jsonl")
        process: subprocess.Popen[bytes] = Fork(
            ["bridge", "codelia", *options, "--", *PLAYER, str(path)],
            cwd=ROOT,
            env=gateway.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        tell(process, *(said or (INITIALIZE, run_start(SESSION))))
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    allow, deny = [{"tool": "bash", "command": "make"}], [{"tool": "bash", "command": "rm"}]
    path.write_text(json.dumps({"version": 1, "permissions": {"allow": allow, "deny": deny}, "api_key": "secret"}))
    return str(path)


def tell(process: subprocess.Popen[bytes], *messages: Any) -> None:
    assert process.stdin
    process.stdin.write("".join(f"{line(one)}\n" for one in messages).encode())
    process.stdin.flush()


def ended(process: subprocess.Popen[bytes], conversation: Conversation, *, more: int = 0) -> tuple[int, bytes]:
    """Exit code and what the host got; it stays until it has got all (and `more` bytes), since its end is a runtime's."""
    assert process.stdout
    seen = process.stdout.read(len(conversation.for_host) + more)
    rest, complaint = process.communicate(timeout=60)
    assert b"awaited" not in complaint, complaint.decode()
    return process.returncode, seen + rest


async def kinds(person: Person) -> list[str]:
    return [row["type"] for row in await person.events(SESSION)]


def pushes() -> Conversation:
    return Conversation().starts(SESSION).asks("ui_1", "shell", {"command": "git push"})


async def test_an_allowed_call_runs_and_the_host_sees_everything_but_the_question(
    play: Play, gateway: RunningGateway
) -> None:
    conversation = pushes().answered("ui_1", ok=True).ran("ui_1", "shell").ends()
    process = play(conversation)
    ann = gateway.person()
    shown = await ann.answer_next(SESSION, "once")
    assert ended(process, conversation) == (0, conversation.for_host)
    assert (shown["permission"], shown["input"], shown["agent"]) == ("bash", {"command": "git push"}, "codelia")
    assert shown["tool"] == {"message_id": "call_ui_1", "call_id": "call_ui_1"}
    assert shown["request_id"] == f"{RUN}.ui_1"
    assert await kinds(ann) == ["session_opened", "asked", "replied", "claimed", "tool_finished"]
    await ann.close()


async def test_rules_answer_at_once_and_nothing_else_of_their_file_leaves_the_machine(
    play: Play, gateway: RunningGateway, rules: str
) -> None:
    conversation = Conversation().starts(SESSION)
    conversation.asks("ui_1", "bash", {"command": "make all"}).answered("ui_1", ok=True)
    conversation.asks("ui_2", "bash", {"command": "rm x"})
    conversation.answered("ui_2", ok=False, reason="a rule denies `rm x`").ends()
    assert ended(play(conversation, "--rules", rules), conversation) == (0, conversation.for_host)
    ann = gateway.person()
    assert "secret" not in json.dumps(await ann.events(SESSION))
    await ann.close()


async def test_a_rejection_without_a_word_ends_the_turn(play: Play, gateway: RunningGateway) -> None:
    conversation = pushes().answered("ui_1", ok=False).ends()
    process = play(conversation)
    ann = gateway.person()
    await ann.answer_next(SESSION, "reject")
    assert ended(process, conversation) == (0, conversation.for_host)
    await ann.close()


async def test_a_rejection_with_a_word_carries_it_and_the_turn_goes_on(play: Play, gateway: RunningGateway) -> None:
    conversation = pushes().answered("ui_1", ok=False, reason="open a pull request").ends()
    process = play(conversation)
    ann = gateway.person()
    await ann.answer_next(SESSION, "reject", message="open a pull request")
    assert ended(process, conversation) == (0, conversation.for_host)
    await ann.close()


async def test_a_corrected_input_is_refused_with_what_may_run_instead(play: Play, gateway: RunningGateway) -> None:
    told = 'not allowed as it is; call again with this input, which is allowed: {"command": "git push origin main"}'
    conversation = pushes().answered("ui_1", ok=False, reason=told).ends()
    process = play(conversation)
    ann = gateway.person()
    await ann.answer_next(SESSION, "once", updated_input={"command": "git push origin main"})
    assert ended(process, conversation) == (0, conversation.for_host)
    await ann.close()


@pytest.mark.parametrize(
    ("options", "result"), [((), {"ok": True}), (("--share-grants",), {"ok": True, "remember": True})]
)
async def test_an_always_is_the_ledgers_unless_it_is_shared(
    play: Play, gateway: RunningGateway, options: tuple[str, ...], result: dict[str, Any]
) -> None:
    conversation = pushes().answered("ui_1", **result)
    conversation.asks("ui_2", "shell", {"command": "git push"}).answered("ui_2", ok=True).ends()
    process = play(conversation, *options)
    ann = gateway.person()
    await ann.answer_next(SESSION, "always")
    assert ended(process, conversation) == (0, conversation.for_host)
    await ann.close()


async def test_the_preview_of_a_change_is_shown_to_whoever_is_asked(play: Play, gateway: RunningGateway) -> None:
    edit = {"file_path": "a.txt", "content": "new"}
    conversation = Conversation().starts(SESSION).asks("ui_1", "write", edit, diff="-old\n+new")
    conversation.answered("ui_1", ok=True).ends()
    process = play(conversation)
    ann = gateway.person()
    shown = await ann.answer_next(SESSION, "once")
    assert ended(process, conversation) == (0, conversation.for_host)
    assert (shown["metadata"]["diff"], shown["metadata"]["file_path"]) == ("-old\n+new", "a.txt")
    await ann.close()


async def test_a_question_without_its_call_is_judged_by_all_its_words_and_never_remembered(
    play: Play, gateway: RunningGateway, rules: str
) -> None:
    words = "make all\n\nRemember (don't ask again):\n- shell: make"
    conversation = Conversation().starts(SESSION).says(confirm("ui_1", "Run command?", words), held=True)
    conversation.answered("ui_1", ok=True).ends()
    process = play(conversation, "--rules", rules)
    ann = gateway.person()
    shown = await ann.answer_next(SESSION, "once")
    assert ended(process, conversation) == (0, conversation.for_host)
    assert (shown["input"], shown["always"]) == ({"command": words}, [])
    assert "told nothing of the call" in shown["metadata"]["judged_by"]
    await ann.close()


async def test_questions_that_are_not_about_tools_are_the_hosts(play: Play, gateway: RunningGateway) -> None:
    logout = confirm("ui_1", "Confirm logout", "This clears local credentials", allow_reason=False)
    conversation = Conversation().starts(SESSION).says(logout).receives(answer("ui_1", ok=True)).ends()
    process = play(conversation)
    tell(process, answer("ui_1", ok=True))
    assert ended(process, conversation) == (0, conversation.for_host)


async def test_an_answer_of_the_host_to_what_the_ledger_decides_does_not_count(
    play: Play, gateway: RunningGateway
) -> None:
    conversation = pushes().answered("ui_1", ok=False).ends()
    process = play(conversation)
    ann = gateway.person()
    await ann.waiting(SESSION)
    tell(process, answer("ui_1", ok=True))
    await ann.answer_next(SESSION, "reject")
    assert ended(process, conversation) == (0, conversation.for_host)
    await ann.close()


async def test_a_cancelled_run_withdraws_its_question_and_the_runtime_waits_no_longer(
    play: Play, gateway: RunningGateway
) -> None:
    conversation = pushes().receives(run_cancel()).answered("ui_1", ok=False).status("cancelled")
    process = play(conversation)
    ann = gateway.person()
    [shown] = await ann.waiting(SESSION)
    tell(process, run_cancel())
    assert ended(process, conversation) == (0, conversation.for_host)
    row = await ann.outcome(SESSION, shown["request_id"])
    assert row is not None
    assert row["outcome"] == "cancelled"
    await ann.close()


async def test_a_runtime_that_dies_leaves_nothing_pending(play: Play, gateway: RunningGateway) -> None:
    process = play(pushes().receives(answer("never")))
    ann = gateway.person()
    [shown] = await ann.waiting(SESSION)
    assert process.stdin
    process.stdin.close()
    process.stdin = None
    assert process.wait(timeout=60) == 9

    async def ended_how() -> Any:
        return await ann.outcome(SESSION, shown["request_id"])

    row = await wait_until_async(ended_how, "the request to end")
    assert (row["outcome"], await ann.pending(SESSION)) == ("cancelled", [])
    await ann.close()


@pytest.mark.slow
async def test_a_killed_bridge_leaves_its_question_to_the_resumed_agent(play: Play, gateway: RunningGateway) -> None:
    first = play(pushes().receives(answer("never")))
    ann = gateway.person()
    [shown] = await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the first bridge to say that it waits")
    first.kill()
    first.wait()
    conversation = Conversation().starts(SESSION).asks("ui_7", "shell", {"command": "git push"})
    conversation.answered("ui_7", ok=True).ends()
    second = play(conversation)
    await wait_until_async(gateway.is_waited_for, "the resumed agent's bridge to wait for the answer")
    await ann.answer_next(SESSION, "once")
    assert ended(second, conversation) == (0, conversation.for_host)
    assert [row["event"]["request_id"] for row in await ann.events(SESSION) if row["type"] == "asked"] == [
        shown["request_id"]
    ]
    await ann.close()


@pytest.mark.slow
@pytest.mark.usefixtures("killable_gateway")
async def test_a_gateway_that_comes_back_has_the_question_still(play: Play, gateway: RunningGateway) -> None:
    conversation = pushes().answered("ui_1", ok=True).ends()
    process = play(conversation)
    ann = gateway.person()
    await ann.waiting(SESSION)
    gateway.kill9()
    gateway.start()
    await ann.answer_next(SESSION, "once")
    assert ended(process, conversation) == (0, conversation.for_host)
    await ann.close()


@pytest.mark.usefixtures("no_gateway")
def test_without_a_gateway_nothing_is_allowed_and_the_agent_is_told_why(play: Play, gateway: RunningGateway) -> None:
    told = (
        "denied, because nobody could be asked: the permission ledger cannot be reached: nothing listens at "
        f"`{gateway.address}`; start the gateway with `permission-ledger up`, or set PERMISSION_LEDGER_GATEWAY to where "
        "it runs"
    )
    conversation = pushes().answered("ui_1", ok=False, reason=told).ends()
    assert ended(play(conversation, "--grace", "0"), conversation) == (0, conversation.for_host)


@pytest.mark.usefixtures("no_gateway")
def test_without_a_gateway_the_person_at_the_host_may_be_asked(play: Play, gateway: RunningGateway) -> None:
    conversation = pushes().answered("ui_1", ok=True).ends()
    process = play(conversation, "--grace", "0", "--on-unreachable", "agent")
    assert process.stdout
    question = line(confirm("ui_1", "Run command?", "git push")).encode() + b"\n"
    seen = b""
    while not seen.endswith(question):
        seen += process.stdout.readline()
    tell(process, answer("ui_1", ok=True))
    code, rest = ended(process, conversation, more=len(question) - len(seen))
    assert (code, (seen + rest).replace(question, b"")) == (0, conversation.for_host)


async def test_a_host_that_asks_nobody_has_the_ledger_ask(play: Play, gateway: RunningGateway) -> None:
    params = INITIALIZE["params"]
    assert isinstance(params, dict)
    alone = {**INITIALIZE, "params": {**params, "ui_capabilities": {"supports_confirm": False}}}
    initialize = {**INITIALIZE, "params": {**params, "ui_capabilities": {"supports_confirm": True}}}
    conversation = Conversation().starts(SESSION, initialize)
    sign_in = confirm("ui_0", "Sign in", "Open this link", allow_reason=False)
    conversation.says(sign_in, held=True).receives(answer("ui_0", ok=False, reason="nobody is there to answer this"))
    conversation.asks("ui_1", "shell", {"command": "git push"}).answered("ui_1", ok=True).ends()
    process = play(conversation, "--headless", said=(alone, run_start(SESSION)))
    ann = gateway.person()
    await ann.answer_next(SESSION, "once")
    assert ended(process, conversation) == (0, conversation.for_host)
    await ann.close()


def test_a_broken_line_of_the_host_does_not_reach_the_runtime(play: Play, gateway: RunningGateway) -> None:
    conversation = (
        Conversation().receives(INITIALIZE).says(answer("init-1", protocol_version="0")).receives(run_start("s"))
    )
    conversation.ends()
    process = play(conversation, said=(INITIALIZE,))
    assert process.stdin
    process.stdin.write(b'{"id": "broken\n')
    tell(process, run_start("s"))
    assert ended(process, conversation) == (0, conversation.for_host)


def test_a_runtime_that_cannot_be_started_is_told_of(play: Play, gateway: RunningGateway) -> None:
    done = run(["bridge", "codelia", "--", "no-such-runtime"], env=gateway.environment)
    assert (done.returncode, "`no-such-runtime` cannot be started" in done.stderr) == (12, True)

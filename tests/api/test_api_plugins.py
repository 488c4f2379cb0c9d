"""Deciders after the rules: `opencode.md`, Plugin Integration."""

from __future__ import annotations

import asyncio
import threading
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import msgspec
import pytest

from ledger import InputError, Ledger, Result
from ledger.client.plugins import ENTRY_POINT_GROUP, DeciderAnswer
from ledger.core.policy import Evaluation, Verdict
from ledger.core.questions import Question
from tests.api.actors import OpenLedger, pend, raised

RULES = [
    {"permission": "read", "pattern": "*", "action": "allow"},
    {"permission": "rm", "pattern": "*", "action": "deny"},
]


class Says:
    """A decider that always answers the same."""

    def __init__(self, name: str, answer: Any, **attributes: Any) -> None:
        self.name = name
        self.answer = answer
        self.asked: list[tuple[str, Question, Evaluation]] = []
        self.__dict__.update(attributes)

    async def decide(self, session: str, question: Question, evaluation: Evaluation) -> Any:
        self.asked.append((session, question, evaluation))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class SaysInAThread(Says):
    """The same decider as a plain function."""

    def decide(self, session: str, question: Question, evaluation: Evaluation) -> Any:
        self.asked.append((session, question, evaluation))
        return self.answer


async def outcome_with(open_ledger: OpenLedger, permission: str, *deciders: object) -> Result:
    session = await (await open_ledger(plugins=deciders)).session("ses_1", rules=RULES)
    return await session.submit(permission, ["x"], request_id="call_1")


def opinions(result: Result) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(opinion) for opinion in result.request.opinions]


@pytest.mark.parametrize("kind", [Says, SaysInAThread])
@pytest.mark.parametrize(
    ("permission", "answer", "outcome"),
    [
        ("read", None, "allowed"),
        ("read", "allow", "allowed"),
        ("read", "ask", None),
        ("read", "deny", "denied"),
        ("edit", None, None),
        ("edit", "allow", "allowed"),
        ("edit", "ask", None),
        ("edit", "deny", "denied"),
        ("rm", None, "denied"),
        ("rm", "allow", "denied"),
        ("rm", "ask", "denied"),
        ("rm", "deny", "denied"),
    ],
)
async def test_a_decider_may_tighten_anything_and_turn_only_an_ask_into_an_allow(
    open_ledger: OpenLedger, kind: type[Says], permission: str, answer: str | None, outcome: str | None
) -> None:
    decider = kind("robot", answer)
    result = await outcome_with(open_ledger, permission, decider)
    said = {"decider": "robot"} if answer is None else {"decider": "robot", "verdict": answer}
    assert (result.outcome, opinions(result)) == (outcome, [said])


async def test_a_decider_sees_the_session_the_request_and_the_evaluation(open_ledger: OpenLedger) -> None:
    decider = Says("robot", None)
    session = await (await open_ledger(plugins=[decider])).session("ses_1", rules=RULES)
    await session.submit("edit", ["a"], always=["*"], metadata={"why": 1}, tool_name="Edit", tool_input={"file": "a"})
    [(session_id, question, evaluation)] = decider.asked
    assert (session_id, question.call.permission, question.call.patterns, question.always, question.metadata) == (
        "ses_1",
        "edit",
        ("a",),
        ("*",),
        {"why": 1},
    )
    assert (question.call.tool_name, question.call.input) == ("Edit", {"file": "a"})
    assert evaluation.verdict is Verdict.ASK


async def test_a_decider_sees_the_id_of_the_request(open_ledger: OpenLedger) -> None:
    decider = Says("robot", None)
    session = await (await open_ledger(plugins=[decider])).session("ses_1", rules=RULES)
    named = await session.submit("edit", ["a"], request_id="call_1")
    made = await session.submit("edit", ["a"])
    tool = await session.submit_tool("bash", {"command": "make"})
    seen = [question.request_id for _, question, _ in decider.asked]
    assert seen == [named.request_id, made.request_id, tool.request_id]
    assert seen[0] == "call_1"


async def test_a_decider_sees_the_evaluation_with_the_grants_that_stand(open_ledger: OpenLedger) -> None:
    decider = Says("robot", None)
    session = await (await open_ledger(plugins=[decider])).session("ses_1", project="shop")
    await session.grant("edit", "*")
    assert (await session.ask("edit", ["a"])).outcome == "allowed"
    assert decider.asked[0][2].verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        (["allow", "deny"], "denied"),
        (["deny", "allow"], "denied"),
        (["allow", "ask"], None),
        (["ask", "allow"], "allowed"),
        ([None, "allow", None], "allowed"),
    ],
    ids=str,
)
async def test_deciders_are_heard_in_their_order_and_all_of_them(
    open_ledger: OpenLedger, answers: list[str | None], outcome: str | None
) -> None:
    deciders = [Says(f"robot-{index}", answer) for index, answer in enumerate(answers)]
    result = await outcome_with(open_ledger, "edit", *deciders)
    assert (result.outcome, [one["decider"] for one in opinions(result)]) == (outcome, [one.name for one in deciders])


@pytest.mark.parametrize(
    "answer", [DeciderAnswer(Verdict.DENY, "not today"), ("deny", "not today")], ids=["answer", "pair"]
)
async def test_the_reason_of_a_decider_is_recorded_and_told(open_ledger: OpenLedger, answer: object) -> None:
    session = await (await open_ledger(plugins=[Says("robot", answer)])).session("ses_1", rules=RULES)
    error = await raised(session.ask("edit", ["a"]))
    assert (error.code, error.text) == ("DENIED", "Permission denied by robot: not today")
    assert error.reasons == [{"decider": "robot", "verdict": "deny", "reason": "not today"}]


@pytest.mark.parametrize("mode", [None, "ask", "deny", "allow", "nonsense"])
@pytest.mark.parametrize("permission", ["read", "edit", "rm"])
async def test_a_decider_that_fails_counts_as_ask_or_deny_and_never_as_allow(
    open_ledger: OpenLedger, permission: str, mode: str | None
) -> None:
    attributes = {} if mode is None else {"on_failure": mode}
    result = await outcome_with(open_ledger, permission, Says("robot", ValueError("broken"), **attributes))
    counted = "deny" if mode == "deny" else "ask"
    assert result.outcome == ("denied" if mode == "deny" or permission == "rm" else None)
    assert opinions(result) == [{"decider": "robot", "verdict": counted, "failed": "ValueError: broken"}]


@pytest.mark.parametrize("answer", ["yes", 7, ("allow",), {"verdict": "allow"}, Exception])
async def test_an_answer_that_is_none_counts_as_a_failure(open_ledger: OpenLedger, answer: object) -> None:
    result = await outcome_with(open_ledger, "edit", Says("robot", answer))
    [opinion] = opinions(result)
    assert (result.outcome, opinion["verdict"], "failed" in opinion) == (None, "ask", True)


@pytest.mark.parametrize(("mode", "outcome"), [("ask", None), ("deny", "denied")])
async def test_a_decider_that_takes_too_long_counts_as_a_failure(
    open_ledger: OpenLedger, mode: str, outcome: str | None
) -> None:
    class Slow:
        name = "slow"
        limit_seconds = 0.01
        on_failure = mode

        async def decide(self, *_: object) -> str:
            await asyncio.Event().wait()
            return "allow"

    result = await outcome_with(open_ledger, "read", Slow())
    assert result.outcome == outcome
    assert opinions(result) == [{"decider": "slow", "verdict": mode, "failed": "no answer within 0.01 s"}]


async def test_a_plain_function_that_takes_too_long_does_not_hold_up_the_loop(open_ledger: OpenLedger) -> None:
    release = threading.Event()

    class Slow:
        name = "slow"
        limit_seconds = 0.01

        def decide(self, *_: object) -> str:
            release.wait(10)
            return "allow"

    try:
        result = await outcome_with(open_ledger, "edit", Slow())
    finally:
        release.set()
    assert (result.outcome, opinions(result)[0]["failed"]) == (None, "no answer within 0.01 s")


async def test_the_limit_is_a_second_unless_a_decider_says_otherwise() -> None:
    from ledger.core.limits import PLUGIN_SECONDS  # noqa: PLC0415 - the limit under test

    assert PLUGIN_SECONDS == 1.0


async def test_what_deciders_said_is_in_the_log(open_ledger: OpenLedger) -> None:
    deciders = [Says("first", "ask"), Says("second", ("allow", "a known command")), Says("third", None)]
    session = await (await open_ledger(plugins=deciders)).session("ses_1", rules=RULES)
    await session.ask("edit", ["a"])
    [asked] = [event.as_json() async for event in session.events(1, follow_on=False)]
    assert asked["event"]["verdict"] == "allow"
    assert list(asked["event"]["detail"]["opinions"]) == [
        {"decider": "first", "verdict": "ask"},
        {"decider": "second", "verdict": "allow", "reason": "a known command"},
        {"decider": "third"},
    ]


async def test_the_reason_of_a_decider_is_cut_where_it_is_too_long(open_ledger: OpenLedger) -> None:
    result = await outcome_with(open_ledger, "edit", Says("robot", ("deny", "x" * 5000)))
    assert len(opinions(result)[0]["reason"]) == 1000


class Installed(Says):
    """A decider as a distribution offers it: a class without constructor arguments."""

    made: ClassVar[list[Installed]] = []

    def __init__(self) -> None:
        super().__init__("installed", "deny")
        Installed.made.append(self)


ready_made = Says("ready", "deny")


def entry_point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=ENTRY_POINT_GROUP)


def install(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    def found(*, group: str) -> list[EntryPoint]:
        return [point for point in points if point.group == group]

    monkeypatch.setattr("importlib.metadata.entry_points", found)


async def test_deciders_that_distributions_offer_come_after_those_handed_in_by_name(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = __name__
    install(monkeypatch, entry_point("b", f"{module}:Installed"), entry_point("a", f"{module}:ready_made"))
    ledger = await open_ledger(plugins=[Says("mine", "allow")], entry_points=True)
    result = await (await ledger.session("ses_1")).submit("edit", ["a"])
    assert [(one["decider"], one["verdict"]) for one in opinions(result)] == [
        ("mine", "allow"),
        ("ready", "deny"),
        ("installed", "deny"),
    ]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module_here:Decider", "No module named 'no_such_module_here'"),
        ("json:NoSuchName", "module 'json' has no attribute 'NoSuchName'"),
    ],
)
def test_an_installed_decider_that_cannot_be_loaded_is_refused_not_left_out(
    monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    install(monkeypatch, entry_point("guard", value))
    with pytest.raises(InputError) as caught:
        Ledger.connect("memory://")
    assert str(caught.value) == f"the decider `guard` ({value}) cannot be loaded: {why}"


@pytest.mark.parametrize("broken", [object(), Says("", "allow").decide, type("NoDecide", (), {"name": "x"})()])
def test_what_is_no_decider_is_refused_at_the_start(broken: object) -> None:
    with pytest.raises(InputError, match="is not a decider: it needs a `name` and a method `decide`"):
        Ledger.connect("memory://", plugins=[broken], entry_points=False)  # type: ignore[list-item]


async def test_deciders_are_heard_once_for_each_ask_and_not_again_for_its_reply(open_ledger: OpenLedger) -> None:
    decider = Says("robot", None)
    session = await (await open_ledger(plugins=[decider])).session("ses_1")
    await pend(session, "call_1")
    await session.reply("call_1", "once")
    assert len(decider.asked) == 1


async def test_who_attaches_to_a_request_hears_what_was_decided_when_it_was_asked(open_ledger: OpenLedger) -> None:
    strict, lenient = Says("robot", "deny"), Says("robot", "allow")
    first = await (await open_ledger(plugins=[strict])).session("ses_1")
    assert (await first.submit("edit", ["a"], request_id="call_1")).outcome == "denied"
    second = await (await open_ledger(plugins=[lenient])).session("ses_1")
    assert (await second.submit("edit", ["a"], request_id="call_1")).outcome == "denied"

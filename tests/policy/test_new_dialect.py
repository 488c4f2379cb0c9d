"""A dialect that only one object and one line in the registry bring: load, evaluate, ask, always, child."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, Result, Session
from ledger.core.policy import (
    Call,
    Evaluation,
    Grant,
    Layer,
    Part,
    Policy,
    PolicySource,
    ReplyKind,
    RuleRef,
    Verdict,
    strictest,
)
from ledger.policy import dialects, offers
from ledger.policy.check_questions import Checker, JudgedCall, call_of, option_names, source_of
from ledger.policy.dialect import AnswerEffects, Dialect, Language, ListedRule, Notation
from ledger.policy.dialects import compile_policy, dialect_named, listed_rules
from ledger.policy.lint import lint_rules
from ledger.policy.offers import advise
from tests.support.waiting import wait_until_async

RULES = {"toy": {"allow": ["ls"], "deny": ["rm"]}}


class ToyPolicy:
    """Whole commands by name; the strictest rule decides, and what no rule names is asked."""

    def __init__(self, source: PolicySource) -> None:
        self.source = source
        self.rules = tuple(_rules(source.layers))

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        given = call.input if isinstance(call.input, Mapping) else {}
        texts = call.patterns or (str(given.get("command", "")),)
        parts = tuple(self._part(text, grants) for text in texts)
        verdict = strictest(part.verdict for part in parts)
        rules = tuple(rule for part in parts for rule in part.rules)
        return Evaluation(verdict, parts, rules, always=texts if verdict is Verdict.ASK else ())

    def _part(self, text: str, grants: Sequence[Grant]) -> Part:
        found = [rule for rule in self.rules if rule.pattern == text]
        verdict = strictest(rule.action for rule in found) if found else Verdict.ASK
        lifting = tuple(grant.grant_id for grant in grants if grant.pattern == text)
        if verdict is Verdict.ASK and lifting:
            return Part(text, Verdict.ALLOW, grants=lifting)
        return Part(text, verdict, tuple(rule.ref for rule in found))

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        return part.verdict is Verdict.ASK and grant.pattern == part.text

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        return frozenset()


def _rules(layers: Iterable[Layer]) -> Iterable[ListedRule]:
    for layer in layers:
        for word, commands in (layer.config or {}).get("toy", {}).items():
            action = Verdict(word)
            for command in commands if layer.trusted or action is not Verdict.ALLOW else ():
                yield ListedRule("bash", command, action, RuleRef(f"{word} {command}", layer.name, layer.file))


class ToyNotation(Notation):
    """An entry is a whole command."""

    def listed(self, rules: tuple[ListedRule, ...]) -> tuple[ListedRule, ...]:
        return rules

    def config(
        self, entries: Iterable[tuple[str, str]], action: Verdict, layers: Sequence[Layer] = ()
    ) -> dict[str, Any]:
        return {"toy": {action.value: [entry for _, entry in entries]}}

    def entry_of(self, rule: ListedRule) -> str:
        return rule.pattern


class ToyAnswers(AnswerEffects, frozen=True):
    def confirmation(self, call: Call, evaluation: Evaluation) -> dict[str, str]:
        return {"message": "may toy do it?"}


class ToyMemory:
    def file(self, source: PolicySource, folder: str | Path | None) -> Path | None:
        return None if folder is None else Path(folder) / "toy.always"

    def remember(self, file: Path, source: PolicySource, permission: str, entries: Sequence[str]) -> str | None:
        file.write_text("\n".join(entries))
        return f"remembered {', '.join(entries)}"


class ToyDialect(Dialect):
    """The rules of a program that does not exist."""

    name = "toy"
    language = Language(section="toy", rule_files=("toy.json",))
    notation = ToyNotation()
    answers = ToyAnswers(always_scope="session", cascade_reject="none", rejected="Toy says no.")
    memory = ToyMemory()

    def compile(self, source: PolicySource) -> Policy:
        return ToyPolicy(source)

    def load(
        self, path: str | Path, *, name: str = "project", strict: bool = True, content: bytes | None = None
    ) -> Layer:
        content = Path(path).read_bytes() if content is None else content
        return Layer(name, config=json.loads(content), file=str(path))


def test_a_dialect_has_at_most_25_members() -> None:
    members = [name for name in {**vars(Dialect), **Dialect.__annotations__} if not name.startswith("_")]
    assert len(members) <= 25, sorted(members)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is made of all dialects once is made without this one, which is gone after the test.
    option_names()
    offers._kinds()
    monkeypatch.setitem(dialects._CLASSES, "toy", f"{__name__}:ToyDialect")


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        yield ledger


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "toy.json").write_text(json.dumps(RULES))
    return tmp_path


def found_in(project: Path) -> PolicySource:
    return PolicySource("toy", dialect_named("toy").find(str(project), {}))


async def opened(ledger: Ledger, project: Path, name: str = "parent", **more: Any) -> Session:
    policy: dict[str, Any] = {} if "parent" in more else {"policy": found_in(project), "dialect": "toy"}
    return await ledger.session(name, project="shop", cwd=str(project), **policy, **more)


async def verdicts(session: Session, request_id: str) -> list[str | None]:
    """Return the outcomes of `ls`, `rm` and `make`; None for one that waits."""
    found = [
        await session.submit_tool("Bash", {"command": line}, request_id=f"{request_id}{line}")
        for line in ("ls", "rm", "make")
    ]
    return [one.outcome for one in found]


async def answered(session: Session, line: str, reply: ReplyKind) -> Result:
    """Return the result of a call that a person answers while the agent waits."""
    asking = asyncio.create_task(session.ask_tool("bash", {"command": line}, request_id="answered"))

    async def waits() -> bool:
        return any(one.request.request_id == "answered" for one in await session.pending())

    await wait_until_async(waits, "the request to wait")
    await session.reply("answered", reply, actor="ann")
    return await asking


def test_its_files_are_found_and_judged(project: Path) -> None:
    policy = compile_policy(found_in(project))
    assert [(rule.action.value, rule.pattern, rule.ref.file) for rule in listed_rules(policy)] == [
        ("allow", "ls", str(project / "toy.json")),
        ("deny", "rm", str(project / "toy.json")),
    ]
    judged = [policy.evaluate(Call("bash", (text,))).verdict.value for text in ("ls", "rm", "make")]
    assert judged == ["allow", "deny", "ask"]


def test_a_question_with_a_grant_is_answered_in_its_words() -> None:
    asked = {"id": 1, "dialect": "toy", "config": RULES, "tool": "Bash", "input": {"command": "make"}}
    grant = dialect_named("toy").grant_object("bash", "make")
    checker = Checker()
    assert (checker.answer(asked)["verdict"], checker.answer(asked)["always"]) == ("ask", ["make"])
    assert checker.answer({**asked, "grants": [grant]})["verdict"] == "allow"


def test_a_rule_is_suggested_that_was_tried() -> None:
    asked = {"dialect": "toy", "config": RULES, "tool": "bash", "input": {"command": "make"}}
    policy, call = compile_policy(source_of(asked)), call_of(asked)
    fixes = [*advise(policy, call, JudgedCall(policy, call), compile_policy)]
    assert [(one.verdict.value, one.config) for one in fixes] == [
        ("allow", {"toy": {"allow": ["make"]}}),
        ("deny", {"toy": {"deny": ["make"]}}),
    ]


def test_a_rule_without_effect_is_found() -> None:
    twice = PolicySource("toy", (Layer("project", config={"toy": {"allow": ["ls", "ls"]}}),))
    assert [one.code for one in lint_rules(compile_policy(twice), compile_policy)] == ["redundant"]


async def test_an_always_is_a_grant_of_its_scope_and_what_it_writes(ledger: Ledger, project: Path) -> None:
    session = await opened(ledger, project)
    assert await verdicts(session, "before") == ["allowed", "denied", None]
    (waiting,) = await session.pending()
    assert waiting.request.metadata["confirm"] == {"message": "may toy do it?"}
    result = await answered(session, "make all", "always")
    assert (result.outcome, result.message) == ("allowed", "remembered make all")
    assert (project / "toy.always").read_text() == "make all"
    assert [(one.grant.pattern, one.grant.scope) for one in await session.approved()] == [("make all", "session")]
    assert (await session.submit_tool("bash", {"command": "make all"})).outcome == "allowed"
    other = await opened(ledger, project, "other")
    assert (await other.submit_tool("bash", {"command": "make all"})).outcome is None


async def test_a_reject_ends_as_many_requests_as_it_says_with_its_message(ledger: Ledger, project: Path) -> None:
    session = await opened(ledger, project)
    await session.submit_tool("bash", {"command": "make"}, request_id="one")
    await session.submit_tool("bash", {"command": "make all"}, request_id="two")
    await session.reply("one", "reject", actor="ann")
    settled = await session.wait("one")
    assert (settled.outcome, settled.message) == ("rejected", "Toy says no.")
    assert [one.request.request_id for one in await session.pending()] == ["two"]


async def test_a_child_inherits_its_denies_and_asks(ledger: Ledger, project: Path) -> None:
    await opened(ledger, project)
    same = await opened(ledger, project, "child", parent="parent")
    own = PolicySource("toy", (Layer("own", config={"toy": {"allow": ["rm", "make"]}}),))
    strict = await ledger.session("strict", project="shop", parent="parent", policy=own)
    assert await verdicts(same, "a") == ["allowed", "denied", None]
    assert await verdicts(strict, "b") == [None, "denied", "allowed"]

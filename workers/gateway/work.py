"""The work that may run beside the loop, by name. Runs in a process of its own; pure but for facts about files."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ledger.client.machine import machine_facts
from ledger.client.session_options import policy_source_of
from ledger.client.tool_requests import tool_requests
from ledger.client.why import smallest_rule
from ledger.core.errors import InputError
from ledger.core.events import Actor, AskedDetail
from ledger.core.policy import Call, DemandRule, Layer, Policy, PolicySource, Rule
from ledger.masks.masking import Masks
from ledger.masks.shape_tables import place_shapes, provider_shapes
from ledger.policy.check_questions import Checker, call_of, judge, rule_json, source_of, with_facts
from ledger.policy.dialects import compile_policy
from ledger.policy.explanation import explain
from ledger.policy.operands import operands_wanted
from ledger.policy.stored_rules import placed
from ledger.session.masking import masked_ask
from ledger.session.state import Request
from ledger.session.would_run.description import describe_request

_PARTS: Final[Mapping[str, type[msgspec.Struct]]] = {"layers": Layer, "rules": Rule, "demands": DemandRule}
"""The members that are lists of further members."""


def given_policy(value: Any) -> PolicySource:
    """Return a policy. Raises InputError for another form.

    An unknown member is refused: of a layer with `trustd: false` the rules would count in full.
    """
    try:
        source = msgspec.convert(value, PolicySource)
    except msgspec.ValidationError as error:
        raise InputError(f"the policy is not of the form `{{dialect, layers, options}}`: {error}") from error
    unknown = next(_unknown(value, PolicySource, ""), None)
    if unknown is not None:
        raise InputError(f"the policy has the unknown member `{unknown[:80]}`")
    return source


def _unknown(value: Mapping[str, Any], kind: type[msgspec.Struct], path: str) -> Iterator[str]:
    for name, member in value.items():
        if name not in kind.__struct_fields__:
            yield f"{path}{name}"
        elif name in _PARTS:
            for number, one in enumerate(member):
                yield from _unknown(one, _PARTS[name], f"{path}{name}[{number}].")


Row = dict[str, Any]

NICE: Final = 4
"""Lower priority than the gateway, which serves people."""

MEMORY_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024

_KEPT: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR")
"""Environment variables that the work sees; the rest may contain passwords and tokens."""


_MASKS: Final = Masks(b"of a rehearsal")


def begin() -> None:
    """Begin a process for work."""
    for read in (provider_shapes, place_shapes):
        read()
    os.nice(NICE)
    os.chdir(os.sep)
    for name in set(os.environ) - set(_KEPT):
        del os.environ[name]
    with suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def do(name: str, argument: bytes, seconds: float) -> bytes | None:
    """Return the result of the work of this name as JSON; None if it takes too much memory or room.

    More processor time than `seconds` ends the process: the signal stops C code, too. Raises what the work raises.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        value = msgspec.json.encode(WORK[name](msgspec.json.decode(argument)))
    except (MemoryError, RecursionError):
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return value if len(value) <= ANSWER_BYTES_MAX else None


def check(lines: list[Any]) -> list[Row]:
    """Answer the lines of `policy check`."""
    checker = Checker(facts=machine_facts())
    return [checker.answer(line) for line in lines]


def explain_line(line: Row) -> Row:
    """Answer as `policy explain`. Raises PolicyError."""
    policy = _with_disk(source_of(line))
    call = call_of(line)
    found = explain(policy, call, _with_disk)
    near = [{**rule_json(one.rule.ref), "matches": one.matches, "why": one.why} for one in found.near]
    return {**judge(policy, call), "near": near, "fixes": [msgspec.to_builtins(fix) for fix in found.fixes]}


def advise_rule(asked: Row) -> Row | None:
    """Return the smallest rule that would have allowed a recorded call, tried; None where there is none.

    Raises PolicyError, InputError.
    """
    return smallest_rule(asked, _with_disk)


def rehearse(asked: Row) -> None:
    """Do once what an ask makes the gateway do: compile the rules, judge the call, describe it for a person, mask it.

    The verdict is discarded: the ask itself judges by the rules, grants and files of its own moment.
    Raises PolicyError, InputError.
    """
    policy = _with_disk(placed(given_policy(asked["policy"]), cwd=asked["cwd"], home=asked["home"]))
    tool, value, agent = asked["tool"], asked["input"], asked["agent"]
    calls = [Call(asked["permission"], tuple(asked["patterns"]), tool, value, agent=agent)]
    if asked["permission"] is None:
        found = tool_requests(
            policy,
            tool,
            value,
            request_id="per_rehearsed",
            cwd=asked["cwd"],
            always=asked["always"],
            agent=agent,
        )
        calls = [Call(one.permission, one.patterns, tool, value, agent=agent) for one in found]
    operands_wanted(msgspec.structs.replace(calls[-1], cwd=asked["cwd"]), asked["home"])
    for call in calls:
        evaluation = policy.evaluate(call)
        for first in evaluation.ask_first:
            policy.evaluate(first)
        describe_request(_request_of(call, asked))
        record = AskedDetail(
            patterns=call.patterns,
            always=tuple(asked["always"] or ()),
            metadata=asked["metadata"],
            input=call.input,
            evaluation=evaluation,
        )
        masked_ask(record, _MASKS)


def _request_of(call: Call, asked: Row) -> Request:
    """Return the request with the fields that are described; the asker makes no difference to the work."""
    return Request(
        request_id="per_rehearsed",
        version=1,
        asked_ms=0,
        asker=Actor("agent", "rehearsal"),
        permission=call.permission,
        digest="",
        patterns=call.patterns,
        always=tuple(asked["always"] or ()),
        metadata=asked["metadata"],
        input=call.input,
        cwd=asked["cwd"],
        tool_name=call.tool_name,
    )


def compile_rules(asked: Row) -> None:
    """Compile a `policy`, or `rules` of a dialect. Raises PolicyError, InputError."""
    if asked["policy"] is None:
        source = policy_source_of(asked["rules"], asked["dialect"], asked["options"])
    else:
        source = given_policy(asked["policy"])
    if source is not None:
        compile_policy(source)


def _with_disk(source: PolicySource) -> Policy:
    """Return the compiled rules; facts about files in the question (`fs`) take precedence over the disk."""
    return with_facts(compile_policy(source), machine_facts())


WORK: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "check": check,
        "explain": explain_line,
        "advise": advise_rule,
        "rehearse": rehearse,
        "compile": compile_rules,
    }
)

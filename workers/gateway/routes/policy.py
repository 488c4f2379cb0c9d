"""Rules asked without a session: what they say of a call, and why."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import post
from litestar.params import JSONBody

from ledger.errors import InputError
from ledger.policy.asked import call_of, source_of
from ledger.policy.checking import Checker, judge, rule_json
from ledger.policy.dialects import compile_policy
from ledger.policy.explaining import explain
from workers.gateway.rows import Row

LINES_COUNT_MAX = 1000


@post("/v1/policy/check", status_code=200, operation_id="check_policy")
async def check_policy(data: JSONBody[dict[str, Any] | list[dict[str, Any]]]) -> Any:
    """One line of `policy check`, or a list of them; the rules come with the line. Facts about files too (`fs`)."""
    checker = Checker()
    if isinstance(data, dict):
        return checker.answer(data)
    if len(data) > LINES_COUNT_MAX:
        raise InputError(f"{len(data)} lines are too many; at most {LINES_COUNT_MAX} are taken")
    return [checker.answer(line) for line in data]


@post("/v1/policy/explain", status_code=200, operation_id="explain_policy")
async def explain_policy(data: JSONBody[dict[str, Any]]) -> Row:
    """As `policy explain`: which rules decided, which nearly did, and what would change it."""
    policy = compile_policy(source_of(data))
    call = call_of(data)
    found = explain(policy, call, compile_policy)
    near = [{**rule_json(one.rule.ref), "matches": one.matches, "why": one.why} for one in found.near]
    return {**judge(policy, call), "near": near, "fixes": [msgspec.to_builtins(fix) for fix in found.fixes]}


HANDLERS: list[Any] = [check_policy, explain_policy]

"""Costly asks and rules, run once beside the loop before the loop runs them.

The cost of an ask grows with the length of the call and the number of rules. A cheap ask is judged at once. A costly
one is first run in a process with a budget: over the budget it never reaches the loop, and within it the same token's
next costly ask is delayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ledger.core.policy import PolicySource
from ledger.policy.dialects import DEFAULT_DIALECT
from ledger.session.state import SessionState
from workers.gateway.beside.pool import Beside
from workers.gateway.bodies import AskBody, OpenSession

LOOP_SECONDS_MAX: Final = 0.25
"""Limit of processor time for work that the loop repeats, because it blocks all other requests."""

CALL_BYTES_CHEAP: Final = 4 * 1024
CALL_BYTES_LEAST: Final = 512
"""Minimum length that is counted: every rule is evaluated for a short call too."""

COST_CHEAP: Final = 256 * 1024
"""Limit of a cheap ask, in bytes of the call times rules (at least one): about 20 ms of judging."""

RULES_BYTES_CHEAP: Final = 16 * 1024
KEPT_COUNT: Final = 256


class Rehearsals:
    """The set of costly rules known to one gateway."""

    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._counts: dict[str, int] = {}

    async def ask(self, caller: str, state: SessionState, body: AskBody, source: PolicySource) -> None:
        """Rehearse a costly ask by the rules of its session. Raises TooCostlyError, BusyError, InputError."""
        size = _size_of(body)
        if (
            size <= CALL_BYTES_CHEAP
            and max(size, CALL_BYTES_LEAST) * max(self._count(state.policy_digest, source), 1) <= COST_CHEAP
        ):
            return
        tool = body.tool_name or (body.tool if isinstance(body.tool, str) else None)
        if body.permission is None and tool is None:
            return  # refused where the body is read
        asked = {
            "policy": msgspec.to_builtins(source),
            "permission": body.permission,
            "patterns": body.patterns or [],
            "always": body.always,
            "tool": tool,
            "input": body.input,
            "metadata": body.metadata or {},
            "cwd": state.cwd if body.cwd is None else body.cwd,
            "home": state.home,
        }
        await self._beside.run(caller, "rehearse", asked, seconds=LOOP_SECONDS_MAX, rests=True)

    async def rules(self, caller: str, body: OpenSession) -> None:
        """Compile costly rules beside the loop first. Raises TooCostlyError, BusyError, InputError."""
        asked = {name: getattr(body, name) for name in ("policy", "rules", "dialect", "options")}
        if len(msgspec.json.encode(asked)) > RULES_BYTES_CHEAP:
            asked["dialect"] = body.dialect or DEFAULT_DIALECT
            await self._beside.run(caller, "compile", asked, seconds=LOOP_SECONDS_MAX, rests=True)

    def _count(self, digest: str, source: PolicySource) -> int:
        known = self._counts.get(digest)
        if known is None:
            if len(self._counts) >= KEPT_COUNT:
                self._counts.clear()
            known = self._counts[digest] = sum(len(one.rules) + _leaves(one.config) for one in source.layers)
        return known


def _size_of(body: AskBody) -> int:
    texts = sum(len(text.encode("utf-8", "surrogatepass")) for text in (*(body.patterns or ()), *(body.always or ())))
    texts += 0 if body.metadata is None else len(msgspec.json.encode(body.metadata))
    return texts + (0 if body.input is None else len(msgspec.json.encode(body.input)))


def _leaves(value: Any) -> int:
    todo, count = [value], 0
    while todo:
        one = todo.pop()
        if isinstance(one, Mapping):
            todo += one.values()
        elif isinstance(one, list | tuple):
            todo += one
        else:
            count += 1
    return count

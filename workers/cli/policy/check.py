"""`policy check`: the rules for programs, a JSON line in, a JSON line out."""

from __future__ import annotations

import json
import sys
from typing import Any

from ledger.client.machine import machine_facts
from ledger.policy.check_questions import Checker
from ledger.policy.limits import QUESTION_BYTES
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput
from workers.cli.policy.options import Choices, policy_command


@policy_command(
    "check",
    examples=(
        "permission-ledger policy check --dialect opencode --config opencode.json",
        "permission-ledger policy check --dialect claude --profile faithful --json",
    ),
)
def check(*, choices: Choices, as_json: bool) -> int:
    """Judge calls that come as JSON lines on stdin; each gets one JSON line on stdout, in order.

    A line is {"id", "tool", "input"} or {"id", "permission", "patterns"} and may carry any of dialect, profile,
    config, layers, defaults, cwd, home, sandbox_root, fs, grants, agent, mode, supports_confirm, edition, order and
    compat, which come before the options. A line that cannot be judged gets {"id", "error"}, and the exit code is 12
    in the end.
    """
    output = CommandOutput(as_json=True)
    checker = Checker(choices.named(), machine_facts())
    bad = False
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        answer = _answer(checker, line)
        bad = bad or "error" in answer
        output.row(answer)
    return Exit.BAD_INPUT if bad else Exit.DONE


def _answer(checker: Checker, line: bytes) -> dict[str, Any]:
    if len(line) > QUESTION_BYTES:
        return {"id": None, "error": f"the line is longer than {QUESTION_BYTES} bytes"}
    try:
        question = json.loads(line, parse_constant=_no_constant, object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        return {"id": None, "error": f"the line is not JSON: {error}"}
    return checker.answer(question)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse equal keys: the second of two would hide the rules of the first."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{twice}` is given twice; keep one of them")
    return members

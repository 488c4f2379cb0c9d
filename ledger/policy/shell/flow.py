"""The order in which the commands of a line may run. Values only; `directories` interprets it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Flow(StrEnum):
    """The kinds of a step."""

    LIST = "list"  # `operators[i]` is between part i and part i + 1
    PIPE = "pipe"
    ALONE = "alone"  # a subshell: its directory changes affect no other command
    NOT = "not"
    LOOP = "loop"  # the parts in order, any number of times
    CHOICE = "choice"  # conditions and bodies alternate; the body of `else` is last


class Step(msgspec.Struct, frozen=True):
    """Part of a line. A part that is a number is an index into the commands that the line itself runs."""

    flow: Flow
    parts: tuple[int | Step, ...]
    operators: tuple[str, ...] = ()


def straight(operators: Sequence[str]) -> Step:
    """Return the flow of simple commands joined by operators, which are one fewer than the commands."""
    parts, joints, pipe = list[int | Step](), list[str](), [0]
    for index, operator in enumerate((*operators, "\n"), 1):
        if operator in ("|", "|&"):
            pipe.append(index)
            continue
        parts.append(pipe[0] if len(pipe) == 1 else Step(Flow.PIPE, tuple(pipe)))
        joints.append(operator)
        pipe = [index]
    return Step(Flow.LIST, tuple(parts), tuple(joints[:-1]))

"""The strict reader of the larger plain grammar: loops, conditions, groups, variables, substitutions, here-documents.

`read` decides if a line belongs to the grammar, and returns every command of the line with the values of its variables.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from ledger.policy.shell.flow import Flow, Step
from ledger.policy.shell.grammar.constructs import constructs_of
from ledger.policy.shell.grammar.reader import read_line
from ledger.policy.shell.grammar.unification import evened
from ledger.policy.shell.grammar.walk import Walk
from ledger.policy.shell.lexer import NotPlain
from ledger.policy.shell.model import Construct, ShellCommand
from ledger.policy.shell.text import shorten

__all__ = ["Reading", "read"]


class Reading(msgspec.Struct, frozen=True):
    """A line of the grammar: its commands, the texts of their here-documents, and the order in which they may run.

    `reason` is set when the line is not in the grammar, `redirects` when only redirections to or from files keep it
    from being plain.
    """

    commands: tuple[ShellCommand, ...] = ()
    stdin: tuple[str | None, ...] = ()
    flow: Step | None = None
    reason: str | None = None
    redirects: str | None = None
    constructs: frozenset[Construct] = frozenset()


@lru_cache(maxsize=2)
def read(source: str) -> Reading:
    """Read a line that is not too long and has no strange characters. Never raises; bounded in depth and steps."""
    walk = Walk()
    try:
        tree = read_line(source)
        step, _ = walk.step(tree, {})
    except NotPlain as found:
        return Reading(reason=shorten(str(found)))
    flow = step if isinstance(step, Step) else Step(Flow.LIST, (step,))
    return Reading(evened(walk.commands), tuple(walk.stdin), flow, None, walk.reason, frozenset(constructs_of(tree)))

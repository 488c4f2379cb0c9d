"""Commands that an allow rule is evidently meant for, and command rules in the notation of each dialect, for advice.

The commands have an operand or a sub-command, and are never for help alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from ledger.core.policy import Verdict
from ledger.policy.dialect import Dialect
from ledger.policy.shell.forms import OperandKind, ProgramNode, program_table


class WrittenRule(NamedTuple):
    """A rule: `text` as a person writes it, and a configuration that contains only this rule."""

    text: str
    config: dict[str, Any]


def written(dialect: Dialect, pattern: str, action: Verdict) -> WrittenRule:
    """Return a dialect's rule for the commands that a pattern matches; a trailing ` *` is optional in them."""
    entry = dialect.notation.family_entry(pattern)
    return WrittenRule(
        dialect.notation.shown_entry(entry, action), dialect.notation.config([(dialect.language.shell, entry)], action)
    )


TRIED_COUNT: Final = 48
"""Commands tried for each rule."""

_OPERAND: Final = "x"
_RUN: Final = frozenset({OperandKind.SCRIPT, OperandKind.CODE, OperandKind.PROGRAM})


def meant_commands(dialect: Dialect, pattern: str) -> list[str]:
    """Return commands that a rule is meant for; empty if its pattern shows none."""
    if dialect.notation.joins_conditions(pattern):
        return []
    text = dialect.notation.plain_pattern(pattern)
    wild = dialect.language.wildcards
    if not set(wild) & set(text):
        return [text]
    words = text.split()
    if not words[0].strip(wild):
        return []
    return list(dict.fromkeys(islice(map(" ".join, _spelled(words, wild)), TRIED_COUNT)))


def _spelled(words: Sequence[str], wild: str) -> Iterator[list[str]]:
    """Yield the words with each wildcard replaced by an operand, or by a sub-command after a program's name."""
    plain = [_OPERAND if not word.strip(wild) else word.translate(dict.fromkeys(map(ord, wild))) for word in words]
    head = plain[:-1] if not words[-1].strip(wild) else plain
    node = table_of(head)
    if node is None or head[-1].startswith("-"):
        yield from ([*head, _OPERAND], head) if not head[-1].startswith("-") else ([*head, _OPERAND],)
        return
    if len(words) > 2 and not words[1].strip(wild) and (top := program_table(plain[0])) is not None:
        yield from ([plain[0], name, *plain[2:]] for name in top.commands)
    if node.operands is None or not _RUN & {node.operands.kind_at(0)}:
        yield head
    yield [*head, _OPERAND]
    yield from ([*head, name] for name in node.commands)
    yield from ([*head, name, _OPERAND] for name in node.commands)


def table_of(head: Sequence[str]) -> ProgramNode | None:
    """Return the table of a program, or of the sub-command that the words name; None if unknown."""
    node = program_table(head[0])
    for word in head[1:]:
        if node is None:
            return None
        node = node.commands.get(word, node)
    return node

"""Unification of commands with equal text in different places of a line, whose words may have different values."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.policy.shell.grammar.values import common_beginning
from ledger.policy.shell.model import ShellCommand, Word


def evened(commands: Sequence[ShellCommand]) -> tuple[ShellCommand, ...]:
    """Return the commands with equal words for equal text, reduced to what is true of all of them.

    A command is judged once for its text.
    """
    words: dict[str, tuple[Word, ...]] = {}
    fed: dict[str, Word | None] = {}
    for command in commands:
        text, before = command.text, words.get(command.text)
        words[text] = command.words if before is None else tuple(map(_both, before, command.words))
        fed[text] = command.fed if fed.get(text, command.fed) == command.fed else None
    return tuple(
        command
        if words[command.text] == command.words and fed[command.text] == command.fed
        else replace(command, words=words[command.text], fed=fed[command.text])
        for command in commands
    )


def _both(one: Word, other: Word) -> Word:
    if one == other:
        return one
    prefix = "" if None in (one.prefix, other.prefix) else common_beginning((one.prefix or "", other.prefix or ""))
    several, inside = one.several or other.several, one.inside and other.inside
    return Word(one.raw, None, prefix=prefix, several=several, inside=inside, operand=one.operand and other.operand)

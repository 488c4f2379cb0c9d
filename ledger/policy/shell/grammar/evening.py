"""Commands with the same text in different places of a line, where a word of theirs may stand for different things."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.policy.shell.grammar.values import common_beginning
from ledger.policy.shell.model import Command, Word


def evened(commands: Sequence[Command]) -> tuple[Command, ...]:
    """Return the commands with the same words wherever they have the same text: what holds for all of them.

    A command is judged once for its text.
    """
    words: dict[str, tuple[Word, ...]] = {}
    for command in commands:
        before = words.get(command.text)
        words[command.text] = command.words if before is None else tuple(map(_both, before, command.words))
    return tuple(
        command if words[command.text] == command.words else replace(command, words=words[command.text])
        for command in commands
    )


def _both(one: Word, other: Word) -> Word:
    if one == other:
        return one
    prefix = "" if None in (one.prefix, other.prefix) else common_beginning((one.prefix or "", other.prefix or ""))
    several, inside = one.several or other.several, one.inside and other.inside
    return Word(one.raw, None, prefix=prefix, several=several, inside=inside, operand=one.operand and other.operand)

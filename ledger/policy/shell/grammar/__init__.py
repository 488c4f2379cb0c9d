"""The strict reader of the larger plain grammar: loops, conditions, groups, variables, substitutions, here-documents.

`read` decides if a line belongs to the grammar, and returns every command of the line with the values of its variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from ledger.policy.shell.flow import Flow, Step
from ledger.policy.shell.grammar.nodes import Compound, PieceKind, Shape, Simple, SyntaxNode, WrittenWord
from ledger.policy.shell.grammar.outputs import document_in
from ledger.policy.shell.grammar.reader import read_line
from ledger.policy.shell.grammar.values import common
from ledger.policy.shell.grammar.walk import Walk
from ledger.policy.shell.lexer import NotPlain
from ledger.policy.shell.model import Construct, ShellCommand, Word
from ledger.policy.shell.text import shorten

_TEXT_CHARS_MIN: Final = 2
"""Characters of text that a word must have beside what is known only when the line runs."""

_SHAPED: Final = {Shape.SUBSHELL: Construct.SUBSHELL, Shape.GROUP: Construct.GROUP, Shape.FOR: Construct.LOOP}


def constructs_of(root: SyntaxNode) -> Iterator[Construct]:
    """Yield the constructs of a tree, with repeats; those inside a substitution are part of it."""
    stack = [root]
    while stack:
        node = stack.pop()
        words = [*(node.words), *(one.target for one in node.redirections)]
        if isinstance(node, Simple):
            if node.assignments:
                yield Construct.ENVIRONMENT if node.words else Construct.ASSIGNMENT
            words += [value for _, value in node.assignments]
            if node.words and node.words[0].raw in ("[", "test") and not all(map(_is_literal, node.words)):
                yield Construct.VARIABLE
        else:
            if node.shape in _SHAPED:
                yield _SHAPED[node.shape]
            if "&" in node.operators:
                yield Construct.BACKGROUND
            stack += node.parts
            if node.shape is Shape.TEST and not all(map(_is_literal, node.words)):
                yield Construct.VARIABLE
        if any(one.here is not None for one in node.redirections):
            yield Construct.DOCUMENT
        for word in words:
            yield from _of_word(word)


def _is_literal(word: WrittenWord) -> bool:
    return all(piece.kind is PieceKind.TEXT for piece in word.pieces)


def _of_word(word: WrittenWord) -> Iterator[Construct]:
    shown = sum(len(piece.text) for piece in word.pieces if piece.kind is PieceKind.TEXT and piece.quoted)
    is_text = shown >= _TEXT_CHARS_MIN and not word.raw.lstrip("\"'").startswith("-")
    for piece in word.pieces:
        if piece.kind is PieceKind.TEXT:
            if "{" in piece.text and not piece.quoted:
                yield Construct.BRACES
        elif piece.script is not None:
            if piece.quoted and _is_message(piece.script):
                continue
            yield Construct.QUOTED if piece.quoted and is_text and _is_single(piece.script) else Construct.SUBSTITUTION
        elif piece.kind is PieceKind.NUMBER and piece.quoted and piece.text in "?#!$" and is_text:
            yield Construct.QUOTED
        elif piece.kind is not PieceKind.VARIABLE or "${" in word.raw or piece.text not in ("HOME", "PWD"):
            yield Construct.VARIABLE
        elif piece.text == "PWD":
            first = next(one for one in word.pieces if one.text) is piece
            yield Construct.QUOTED if piece.quoted and is_text and not first else Construct.VARIABLE


def _is_single(script: Compound | None) -> bool:
    """Return whether a substitution runs one simple command."""
    if script is None or len(script.parts) != 1 or not isinstance(script.parts[0], Simple):
        return False
    return all(one is Construct.QUOTED for one in constructs_of(script))


def _is_message(script: Compound | None) -> bool:
    """Return whether a substitution is `cat` of a literal here-document, the usual way to write a message."""
    only = script.parts[0] if script is not None and document_in(script) is not None else None
    if not isinstance(only, Simple) or only.redirections[0].here is None:
        return False
    return only.redirections[0].operator == "<<" and only.redirections[0].here.literal


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
    prefix, inside = common((one.prefix or "", other.prefix or ""), inside=one.inside and other.inside)
    several = one.several or other.several
    return Word(one.raw, None, prefix=prefix, several=several, inside=inside, operand=one.operand and other.operand)


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

"""Known values of variables, and the effects of a part of the tree on them."""

from __future__ import annotations

from typing import Final

from ledger.policy.shell.grammar.nodes import Simple, SyntaxNode, WrittenWord
from ledger.policy.shell.grammar.values import UNKNOWN, WordValue, either

VariableScope = dict[str, WordValue]

STDIN: Final = "<"
"""The key for the value of each line of standard input; no variable has this name."""


def without(scope: VariableScope, name: str) -> VariableScope:
    return {key: value for key, value in scope.items() if key != name} if name in scope else scope


def merged(one: VariableScope, other: VariableScope) -> VariableScope:
    """Return the values that hold after either branch; a variable that only one branch sets is unknown."""
    if one is other:
        return one
    return {
        name: either(one[name], other[name]) if name in one and name in other else UNKNOWN for name in {*one, *other}
    }


def assigned(node: SyntaxNode) -> frozenset[str]:
    """Return the names that a part of the tree may set."""
    found, stack = set[str](), [node]
    while stack:
        one = stack.pop()
        if isinstance(one, Simple):
            found.update(name for name, _ in one.assignments)
            found.update(_builtin(one.words))
        else:
            found.update({one.name} - {""})
            stack += one.parts
    return frozenset(found)


def _builtin(words: tuple[WrittenWord, ...]) -> list[str]:
    texts = [_text(word) for word in words]
    return [text.partition("=")[0] for text in texts] if {"read", "export"}.intersection(texts) else []


def _text(word: WrittenWord) -> str:
    return "".join(piece.text for piece in word.pieces)


def breaks(node: SyntaxNode) -> bool:
    """Return whether a `break` or `continue` may leave a loop early."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, Simple):
            if any(_text(word) in ("break", "continue") for word in one.words):
                return True
        else:
            stack += one.parts
    return False

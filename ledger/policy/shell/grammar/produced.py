"""Commands that print names of files below the folder, one per line, and filters that pass a subset of them."""

from __future__ import annotations

from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.nodes import PieceKind, Simple, SyntaxNode
from ledger.policy.shell.grammar.values import Knowledge, WordValue

_PATH = r"(?![^\0]*\.\.)[A-Za-z0-9_.][A-Za-z0-9_./*?-]*+"
_REVISION = r"(?![^\0]*/\.\.)[A-Za-z0-9_][^\0]*+"
_TEXT = r"[^-\0][^\0]*+"
_TESTS: Final = (
    rf"-type [fd]|-i?name {_TEXT}|-i?path {_TEXT}|-not|!|-o|\(|\)|-(?:min|max)depth [0-9]++|-empty|-newer {_PATH}"
    r"|-[mc]time [-+]?[0-9]++|-size [-+]?[0-9]++[bckMG]?|-print0?|-prune"
)
_CHANGED: Final = rf"(?: (?:--name-only|--cached|--staged|--format=|--diff-filter=[A-Za-z]++|{_REVISION}))*+"
_PRODUCERS: Final = tuple(
    late_pattern(pattern.replace(" ", "\0"))
    for pattern in (
        rf"find(?: {_PATH})*+(?: (?:{_TESTS}))*+",
        rf"git ls-files(?: (?:-m|-o|--modified|--others|--exclude-standard|--|{_PATH}))*+",
        rf"git (?:diff|show)(?=.* --name-only){_CHANGED}",
        rf"[ef]?grep (?:-[rRiwEFn]*[lL][rRiwEFn]*|-[rR] -[lL]|-l -[rR])(?: --include={_TEXT})*+ {_TEXT}(?: {_PATH})*+",
        rf"rg (?:-[iwF]*l[iwF]*|--files-with-matches|--files)(?: {_TEXT})?+(?: {_PATH})*+",
    )
)
_FILTER = late_pattern(
    "(?:sort(?:\0-[ruz]+)?|uniq|(?:head|tail)(?:\0-n\0?[0-9]+|\0-[0-9]+)?|[ef]?grep(?:\0-[viEFwxz]+)*\0[^-][^\0]*)"
)
_INSIDE: Final = WordValue(Knowledge.PREFIX, inside=True)


def lines_of(node: SyntaxNode, fed: WordValue | None) -> WordValue | None:
    """Return the value of each line that a pipeline stage prints; None if unknown.

    `fed` is the value of each line that it reads.
    """
    if not isinstance(node, Simple) or node.assignments or any(one.operator != "2>" for one in node.redirections):
        return None
    pieces = [piece for word in node.words for piece in word.pieces]
    if any(piece.kind is not PieceKind.TEXT for piece in pieces):
        return None
    words = "\0".join("".join(piece.text for piece in word.pieces) for word in node.words)
    if fed is not None and _FILTER.fullmatch(words):
        return fed
    return _INSIDE if any(one.fullmatch(words) for one in _PRODUCERS) else None

"""Known properties of the output of substitutions: a number, a name, or lines that are paths."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.nodes import Compound, PieceKind, Shape, Simple, SyntaxNode, WrittenWord
from ledger.policy.shell.grammar.values import NAME, NUMBER, UNKNOWN, Knowledge, WordValue, exact

_PATH = r"(?![^\0]*\.\.)[A-Za-z0-9_.*?][A-Za-z0-9_./*?-]*+"
_FROM: Final = rf"(?:(?: {_PATH})*+| (?P<folder>/(?![^\0]*\.\.)[A-Za-z0-9_./-]*+))"
"""Paths below the folder, or one folder by its full path, which then begins every line."""

_COMMIT = r"(?![^\0]*/\.\.)[A-Za-z0-9_][^\0]*+"
_TEXT = r"[^-\0][^\0]*+"
_TESTS: Final = (
    rf"-type [fd]|-i?name {_TEXT}|-i?path {_TEXT}|-not|!|-o|\(|\)|-(?:min|max)depth [0-9]++|-empty|-newer {_PATH}"
    r"|-[mc]time [-+]?[0-9]++|-size [-+]?[0-9]++[bckMG]?|-print0?|-prune"
)
_KEPT: Final = r"(?!(?=.* (?:-o|--others)\b)(?!.* --exclude-standard\b))"  # `-o` alone also lists what git ignores
_CHANGED: Final = rf"(?: (?:--name-only|--cached|--staged|--format=|--diff-filter=[A-Za-z]++|{_COMMIT}))*+"
_PRODUCERS: Final = tuple(
    late_pattern(pattern.replace(" ", "\0"))
    for pattern in (
        rf"find{_FROM}(?: (?:{_TESTS}))*+",
        rf"git ls-files{_KEPT}(?: (?:-m|-o|--modified|--others|--exclude-standard|--|{_PATH}))*+",
        rf"git (?:diff|show)(?=.* --name-only){_CHANGED}",
        rf"[ef]?grep (?:-[rRiwEFn]*[lL][rRiwEFn]*|-[rR] -[lL]|-l -[rR])(?: --include={_TEXT})*+ {_TEXT}{_FROM}",
        rf"rg (?:-[iwF]*l[iwF]*|--files-with-matches|--files)(?: {_TEXT})?+{_FROM}",
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
    words = "\0".join(map(_shown, node.words))
    if fed is not None and _FILTER.fullmatch(words):
        return fed
    found = next((match for one in _PRODUCERS if (match := one.fullmatch(words))), None)
    folder = None if found is None else found.groupdict().get("folder")
    return None if found is None else replace(_INSIDE, text=f"{folder.rstrip('/')}/" if folder else "")


def _shown(word: WrittenWord) -> str:
    """Return the text of a word, marked where it is a pattern that may become an option: no path begins like that."""
    text = "".join(piece.text for piece in word.pieces)
    return f"\1{text}" if word.raw[:1] in ("*", "?") else text


# Each pattern matches the words of one command, joined by blanks; none allows an option that it does not list.
_REVISION = r"(?!\S*\.\.)[A-Za-z0-9][A-Za-z0-9_./~^@{}-]*"
_NUMBERS = late_pattern(r"wc -[lwcm]|nproc|date \+%s|git rev-list --count " + _REVISION + r"|id -[ug]")
_NAMES = late_pattern(
    rf"git merge-base {_REVISION} {_REVISION}"
    rf"|git rev-parse (?:--short(?:=[0-9]+)? |--verify |--abbrev-ref )?{_REVISION}"
    r"|git branch --show-current|git log -1 --(?:format|pretty)=%[hH]|git describe(?: --tags| --always| --abbrev=[0-9]+)*"
    r"|date \+%[A-Za-z%_.T-]+|uname -[smr]|whoami"
)


def output_of(script: Compound) -> WordValue:
    """Return the value of `$(…)`; for `cat` of a here-document, the text."""
    text = document_in(script)
    if text is not None:
        return exact(text)
    last = _last(script) or ""
    if _NUMBERS.fullmatch(last):
        return NUMBER
    if _only(script) is not None and _NAMES.fullmatch(last):
        return NAME
    return _lines(script) or UNKNOWN


def _lines(script: Compound) -> WordValue | None:
    """Return the value of each line if the only command or pipeline lists files; None otherwise."""
    if len(script.parts) != 1:
        return None
    node, lines = script.parts[0], None
    stages = node.parts if isinstance(node, Compound) and node.shape is Shape.PIPE else (node,)
    for stage in stages:
        lines = lines_of(stage, lines)
    return lines


def document_in(script: Compound | None) -> str | None:
    """Return the text of `$(cat <<'EOF' …)`, a usual form of long texts of agents; None for other substitutions."""
    command = None if script is None else _only(script)
    if command is None or command.assignments or [word.raw for word in command.words] != ["cat"]:
        return None
    if len(command.redirections) != 1:
        return None
    only = command.redirections[0]
    if only.here is None or only.here.body is None or (not only.here.literal and "$" in only.here.body):
        return None
    if only.operator not in ("<<", "<<-"):
        return None
    return only.here.body.rstrip("\n")


def _only(script: Compound) -> Simple | None:
    return script.parts[0] if len(script.parts) == 1 and isinstance(script.parts[0], Simple) else None


def _last(script: Compound) -> str | None:
    """Return the words of the only command, or of the last one of a pipeline; None if they are not literal."""
    if len(script.parts) != 1:
        return None
    node: SyntaxNode = script.parts[0]
    if isinstance(node, Compound) and node.shape is Shape.PIPE and not node.redirections:
        node = node.parts[-1]
    if not isinstance(node, Simple) or node.assignments:
        return None
    if any(not _is_quiet(one.operator, one.target.raw) for one in node.redirections):
        return None
    pieces = [piece for word in node.words for piece in word.pieces]
    if any(piece.kind is not PieceKind.TEXT for piece in pieces):
        return None
    return " ".join("".join(piece.text for piece in word.pieces) for word in node.words)


def _is_quiet(operator: str, target: str) -> bool:
    return (operator, target) == ("2>", _NULL) or (operator.lstrip("0") == "<" and bool(target))


_NULL: Final = "/dev/null"

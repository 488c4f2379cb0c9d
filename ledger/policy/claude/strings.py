"""Double-quoted strings as Claude Code reads them: the known text, and pieces that are known only at run time.

It accepts a command although one of its words holds `$?`, `$PWD` or `$(…)`, if enough of that word is text. Commands in
substitutions are judged as sub-commands. A here-document of `cat`, the usual way to write a message, is text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tree_sitter import Node

from ledger.core.late_patterns import late_pattern

UNKNOWN: Final = "\ufffc"
"""Placeholder in a word for a piece that is known only at run time."""

TEXT_MIN: Final = 2
"""Characters of text that a string with unknown pieces must have."""

_KNOWN_LATER: Final = frozenset({
    "?", "$", "!", "#", "-", "BASHPID", "BASH_VERSION", "EUID", "HISTFILE", "HOSTNAME", "IFS", "LINENO", "LOGNAME", "OLDPWD",
    "PATH", "PPID", "PWD", "RANDOM", "SECONDS", "SHELL", "SHLVL", "TMPDIR", "UID", "USER",
})  # fmt: skip
"""Variables that may occur in a string although their values are not known."""

_CAT = late_pattern(r"cat[ \t]*<<")
_NUMBERS = late_pattern(r"\$\(\([0-9+\-*/%<>&|^() \t]*\)\)")
_PLAIN_STATEMENTS: Final = frozenset({"command", "list", "redirected_statement", "negated_command", "if_statement"})
_IN_DOUBLE_QUOTES = late_pattern(r'[\\$`"]')

Span = tuple[int, int]
TextOf = Callable[[Node], str]


def message_of(node: Node, text_of: TextOf) -> str | None:
    """Return the expansion of `$(cat <<'EOF' …)`; None for any other substitution."""
    inner = [child for child in node.named_children if child.type != "comment"]
    if len(inner) != 1 or inner[0].type != "redirected_statement":
        return None
    parts = inner[0].named_children
    if len(parts) != 2 or _CAT.match(text_of(inner[0])) is None or parts[1].type != "heredoc_redirect":
        return None
    here = parts[1]
    if text_of(here.children[0]) != "<<" or not text_of(here.children[1]).startswith(("'", '"', "\\")):
        return None
    if not {child.type for child in here.named_children} <= {"heredoc_start", "heredoc_body", "heredoc_end"}:
        return None
    return "".join(text_of(child) for child in here.named_children if child.type == "heredoc_body").rstrip("\n")


def is_single(substitution: Node) -> bool:
    """Return whether a substitution runs commands that are judged singly: no `;`, pipeline, loop or sub-shell."""
    inner = [child for child in substitution.named_children if child.type != "comment"]
    return len(inner) <= 1 and all(child.type in _PLAIN_STATEMENTS for child in inner)


def is_known_later(piece: Node, text_of: TextOf) -> bool:
    """Return whether a piece of a string may be unknown until the line runs."""
    if piece.type == "simple_expansion":
        return text_of(piece).strip()[1:] in _KNOWN_LATER
    if piece.type == "arithmetic_expansion":
        return _NUMBERS.fullmatch(text_of(piece)) is not None
    return piece.type == "command_substitution" and is_single(piece)


def replaced(text: bytes, start: int, pieces: Mapping[Span, str]) -> str:
    """Return the text of a word that begins at `start`, with each piece replaced by its known text."""
    found, at = [], 0
    for (begin, end), value in sorted(pieces.items()):
        if start + at <= begin and end <= start + len(text):
            found += [text[at : begin - start].decode("utf-8", "replace"), _escaped(value)]
            at = end - start
    return "".join([*found, text[at:].decode("utf-8", "replace")])


def _escaped(value: str) -> str:
    return _IN_DOUBLE_QUOTES.sub(lambda found: "\\" + found[0], value)

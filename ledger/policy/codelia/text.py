"""Parsing of a command line as in Codelia: white space collapsed, split at operators (codelia.md 6.1 and 6.4).

This copies the source, including its blind spots: `&`, newlines, substitutions and here-documents. The hardened profile
analyses the line a second time with `ledger.policy.shell`.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.policy.facts import FileFacts
from ledger.policy.reach import absolute, within

# JavaScript's white space: it holds U+FEFF, and neither U+001C to U+001F nor U+0085, which Python's `\s` has.
_BLANKS: Final = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_BLANK_RUN = late_pattern(f"[{_BLANKS}]+")

REDIRECTS: Final = frozenset({"<", ">", ">>", "2>", "2>>"})

# Operators come longest first. Quoted or escaped text is one piece; an unclosed quote runs to the end.
_PIECE = late_pattern(
    r"""(?P<operator>2>>|\|&|\|\||&&|>>|2>|[|><;])
    |\\.|\\\Z
    |'[^']*+'?
    |"(?:[^"\\]|\\.)*+(?:"|\\?\Z)
    |[^\\'"|&><;2]++
    |.""",
    re.DOTALL | re.VERBOSE,
)


class Segment(NamedTuple):
    """One command of a line. `redirected`: it has a redirection to or from a file."""

    text: str
    redirected: bool = False


class CodeliaLine(NamedTuple):
    """A command line as Codelia parses it. `targets` are the right sides of redirections, which are no commands."""

    text: str
    segments: tuple[Segment, ...]
    operators: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


def normalise(text: str) -> str:
    """Return the text trimmed, with one space for each run of white space, line ends included."""
    return _BLANK_RUN.sub(" ", text).strip(" ")


def split(command: str) -> CodeliaLine:
    """Split a command as given. Empty segments are dropped. Linear in the length of the command."""
    text = normalise(command)
    pieces, operators, start = [], [], 0
    for piece in _PIECE.finditer(text):
        if piece.lastgroup == "operator":
            pieces.append(text[start : piece.start()])
            operators.append(piece.group())
            start = piece.end()
    pieces.append(text[start:])
    return CodeliaLine(text, *_sorted_out(pieces, operators))


def _sorted_out(
    pieces: list[str], operators: list[str]
) -> tuple[tuple[Segment, ...], tuple[str, ...], tuple[str, ...]]:
    """Separate commands and redirection targets. A redirection in front of a command belongs to it."""
    texts: list[str] = []
    targets: list[str] = []
    redirected: set[int] = set()
    for before, piece in zip(["", *operators], pieces, strict=True):
        stripped = piece.strip(" ")
        if before in REDIRECTS:
            targets.append(stripped)
            redirected.add(max(len(texts) - 1, 0))
        elif stripped:
            texts.append(stripped)
    segments = tuple(Segment(text, index in redirected) for index, text in enumerate(texts))
    return segments, tuple(operators), tuple(targets)


def is_cd(segment: str) -> bool:
    return segment == "cd" or segment.startswith("cd ")


def words_of(segment: str) -> list[str] | None:
    """Return the words of a segment without their quotes; None for an unclosed quote."""
    if not _CLOSED.fullmatch(segment):
        return None
    return [_QUOTE.sub(_unquoted, word) for word in _WORD.findall(segment)]


_QUOTED: Final = r"""\\.|'[^']*+'|"(?:[^"\\]|\\.)*+\""""
_CLOSED = late_pattern(rf"""(?:[^'"\\]++|{_QUOTED})*+""", re.DOTALL)
_WORD = late_pattern(rf"""(?:[^ '"\\]++|{_QUOTED})+""", re.DOTALL)
_QUOTE = late_pattern(_QUOTED, re.DOTALL)
_ESCAPE = late_pattern(r"\\(.)", re.DOTALL)


def _unquoted(found: re.Match[str]) -> str:
    text = found.group()
    if text[0] == "\\":
        return text[1]
    return text[1:-1] if text[0] == "'" else _ESCAPE.sub(r"\1", text[1:-1])


# --- the guard of `cd`: a virtual working directory that must not leave the sandbox (codelia.md 7.2) ------------------


# Characters that may expand, or end the word elsewhere than at the next space.
_UNSAFE = late_pattern(r"""["'`$&|;<>(){}\[\]*?!~\\]""")


def virtual_cd(segment: str, directory: str, root: str) -> str | None:
    """Return the target of a segment `cd DIR` by its text alone, as Codelia computes it; None for a `cd` to ask about.

    A folder whose name begins with `..` is asked about, as in the program. An option (`cd -P x`, `cd --`) may lead
    home, so it is asked about too, unlike in the program.
    """
    words = [word for word in segment.split(" ") if word]
    if len(words) != 2 or words[1].startswith("-") or _UNSAFE.search(words[1]):
        return None
    target = absolute(words[1], directory)
    return None if posixpath.relpath(target, absolute(root)).startswith("..") else target


def real_cd(target: str, directory: str, root: str, facts: FileFacts) -> str | None:
    """Return the target of `cd` for a word that a shell has parsed, with links followed.

    The shell keeps the logical path (`cd link/..` leads back), so that path is the base of the next `cd`. Neither the
    logical path nor its real target may be outside at any step.
    """
    lexical = absolute(target, directory)
    real_root = facts.resolve(absolute(root))
    roots = (absolute(root), real_root)
    real = (facts.resolve(lexical), facts.resolve(posixpath.join(directory, target)))
    inside = any(within(lexical, one) for one in roots) and all(within(path, real_root) for path in real)
    return lexical if inside else None

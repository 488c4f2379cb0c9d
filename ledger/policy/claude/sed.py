"""The scripts of `sed` that Claude Code accepts: lines by number, and one plain substitution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern

_QUIET: Final = frozenset({"-n", "--quiet", "--silent"})
_HARMLESS: Final = frozenset({"-E", "-r", "-z", "--posix"})
_IN_PLACE: Final = frozenset({"-i", "--in-place"})
_CLUSTER = late_pattern(r"-[nErz]{2,}")
_SHOWS = late_pattern(r"(?:[0-9]+(?:,[0-9]+)?)?p(?:;(?:[0-9]+(?:,[0-9]+)?)?p)*")
_SUBSTITUTES = late_pattern(r"s/[^/;{}\n]*/[^/;{}\n]*/[gpimIM0-9]*")


def is_quiet(words: Sequence[str]) -> bool:
    """Return whether `sed` writes only the output of its script."""
    return any(word in _QUIET or (_CLUSTER.fullmatch(word) and "n" in word) for word in words)


def only_shows(words: Sequence[str]) -> bool:
    """Return whether `sed` prints lines by number, or substitutes in standard input; `words` follow its name."""
    options, operands = _parted(words)
    if is_quiet(options):
        return bool(operands) and _known(options, _QUIET) and _SHOWS.fullmatch(operands[0]) is not None
    return len(operands) == 1 and _known(options, frozenset()) and _SUBSTITUTES.fullmatch(operands[0]) is not None


def only_substitutes(words: Sequence[str]) -> bool:
    """Return whether `sed` makes one plain substitution, in files or not, or only prints."""
    options, operands = _parted(words)
    if only_shows(words):
        return True
    return bool(operands) and _known(options, _IN_PLACE) and _SUBSTITUTES.fullmatch(operands[0]) is not None


def _parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    options = [word for word in words if word.startswith("-") and word != "-"]
    return options, [word for word in words if word not in options]


def _known(options: Sequence[str], more: frozenset[str]) -> bool:
    harmless = _HARMLESS | more
    return all(
        option in harmless or (_CLUSTER.fullmatch(option) and {"-" + letter for letter in option[1:]} <= harmless)
        for option in options
    )

"""Files among the words of programs that access files, so that `Read(…)` and `Edit(…)` rules match in a line."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.policy.shell import Access
from ledger.policy.shell.tables.files import PROGRAMS


def touched(words: Sequence[str]) -> list[tuple[Access, str]]:
    """Return every word of a command that may be a file, with its possible accesses. For deny and ask rules only.

    The value of a long option counts, and the text after `=` in `dd of=x`. A pattern or script counts as a file too.
    """
    accesses = PROGRAMS.get(words[0].rpartition("/")[2], ()) if words else ()
    found: list[tuple[Access, str]] = []
    ended = False
    for word in words[1:] if accesses else ():
        if word == "--" and not ended:
            ended = True
            continue
        value = word if ended or not word.startswith("-") else word.partition("=")[2]
        operands = [value, value.partition("=")[2]] if not word.startswith("-") else [value]
        found += [(access, operand) for operand in operands if operand for access in accesses]
    return found

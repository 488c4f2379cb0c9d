"""Programs that are about the files they name, so that `Read(…)` and `Edit(…)` rules reach them in a Bash line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.policy.shell import Access

_READ: Final = (Access.READ,)
_EDIT: Final = (Access.EDIT,)
_BOTH: Final = (Access.READ, Access.EDIT)

PROGRAMS: Final[dict[str, tuple[Access, ...]]] = {
    **dict.fromkeys(
        [
            "cat",
            "head",
            "tail",
            "less",
            "more",
            "tac",
            "nl",
            "od",
            "xxd",
            "hexdump",
            "strings",
            "base64",
            "base32",
            "cut",
            "paste",
            "join",
            "comm",
            "cmp",
            "column",
            "fold",
            "fmt",
            "rev",
            "wc",
            "grep",
            "egrep",
            "fgrep",
            "rg",
            "ag",
            "ack",
            "awk",
            "gawk",
            "mawk",
            "sort",
            "uniq",
            "diff",
            "stat",
            "file",
            "ls",
            "find",
            "fd",
            "tree",
            "du",
            "md5sum",
            "sha1sum",
            "sha256sum",
            "cksum",
            "sum",
            "jq",
            "yq",
            "bat",
            "zcat",
            "view",
            "source",
            ".",
            "readlink",
            "realpath",
            "cd",
            "pushd",
            "tr",
            "expand",
            "unexpand",
            "pr",
            "tsort",
        ],
        _READ,
    ),
    **dict.fromkeys(
        [
            "mkdir",
            "touch",
            "rm",
            "rmdir",
            "truncate",
            "chmod",
            "chown",
            "chgrp",
            "unlink",
            "shred",
            "tee",
            "ed",
            "ex",
            "vi",
            "vim",
            "nano",
            "emacs",
            "setfacl",
        ],
        _EDIT,
    ),
    **dict.fromkeys(["cp", "mv", "sed", "ln", "install", "rsync", "scp", "dd", "patch"], _BOTH),
}
"""What each program may do with the files among its words; more rather than less, for deny and ask rules only."""


def touched(words: Sequence[str]) -> list[tuple[Access, str]]:
    """Every word of a command that may be a file, with what may happen to it. For deny and ask rules only.

    The value of a long option counts, and what follows `=` in `dd of=x`; a pattern or script counts as a file too.
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

"""Work limits of one analysis, and the preparation of scripts for the parser.

Pure: steps are counted, no clock is read.
"""

from __future__ import annotations

import re
from typing import Final

from ledger.core.late_patterns import late_pattern

COMMANDS_MAX: Final = 2_000
NODES_MAX: Final = 40_000
# The parser needs quadratic time to give up on some texts (`>&` repeated: 6 s for 64 kB). Its input is therefore
# bounded over all scripts of a line: in bytes outside here-document texts, and in openings.
LIVE_BYTES_MAX: Final = 4 * 1024
OPENINGS_MAX: Final = 1_000
HERE_DOCUMENTS_MAX: Final = 50
_OPENINGS: Final = ("$", "`", "<<", "(", "{", "[[", "case", "|")

# A here-document's text in which nothing runs: its delimiter is quoted, or the text has neither `$` nor a backtick.
_HERE_TEXT = late_pattern(
    r"""<<-?[ \t]*+(?:(?P<quote>['"])(?P<quoted>\w++)(?P=quote)|\\(?P<escaped>\w++)|(?P<word>\w++))[^\n]*+\n
    (?P<text>(?:(?![ \t]*+(?:(?P=quoted)|(?P=escaped)|(?P=word))(?:\n|\Z))[^\n]*+\n)*+)""",
    re.VERBOSE,
)
_BLANK: Final = "\x1a"
_LETTERS = late_pattern(r"[^\n]")

_ASCII_ONLY: Final = bytes(range(128)) + b"x" * 128
_NAME_HASH = late_pattern(rb"((?:\A|[\n;&|(])[ \t]*+[A-Za-z0-9_./-]++)#")
_LEADING_ESCAPE = late_pattern(rb"(\n[ \t]*+)\\(?=[A-Za-z0-9_./-])")


def _blank(found: re.Match[str]) -> str:
    text, body = found.group(), found["text"]
    if found["word"] is not None and ("$" in body or "`" in body):
        return text
    head = text[: len(text) - len(body)]
    return head + _LETTERS.sub(lambda letter: _BLANK * len(letter[0].encode("utf-8", "surrogatepass")), body)


def _safe(source: str) -> bytes:
    """Return the source in bytes, with letters for everything that crashes or misleads the grammar's scanner.

    For parsing only: the length stays the same, and no command's text is sliced from it. The scanner asks the C library
    whether a character is a letter, which reads beyond its table for most of Unicode and has crashed. It also takes a
    backslash at the start of a line for the end of the previous line, and `#` in a name for a comment.
    """
    data = source.encode("utf-8", "surrogatepass").translate(_ASCII_ONLY)
    if b"#" in data:
        data = _NAME_HASH.sub(rb"\1x", data)
    return _LEADING_ESCAPE.sub(rb"\1x", data) if b"\n" in data else data


class Budget:
    """The remaining work of one analysis. `spent` is the reason, a sentence, once a limit is reached; None before."""

    __slots__ = ("bytes", "commands", "nodes", "openings", "spent")

    def __init__(self) -> None:
        self.commands = COMMANDS_MAX
        self.nodes = NODES_MAX
        self.bytes = LIVE_BYTES_MAX
        self.openings = OPENINGS_MAX
        self.spent: str | None = None

    def take_script(self, source: str) -> bytes | None:
        """Return the parser's input for `source`; None when the budget is spent.

        It has the same length; texts of here-documents are blanked.
        """
        if source.count("<<") > HERE_DOCUMENTS_MAX:
            self.spent = "the line holds too many here-documents to analyse"
            return None
        tame = _HERE_TEXT.sub(_blank, source) if "<<" in source and _BLANK not in source else source
        self.bytes -= len(tame.encode("utf-8", "surrogatepass")) - (tame.count(_BLANK) if tame is not source else 0)
        self.openings -= sum(map(tame.count, _OPENINGS))
        if self.spent is None and (self.bytes < 0 or self.openings < 0):
            self.spent = "the line is too long or too complex to analyse"
        return _safe(tame) if self.spent is None else None

    def take_node(self) -> bool:
        self.nodes -= 1
        if self.nodes < 0 and self.spent is None:
            self.spent = "the line is too complex to analyse"
        return self.spent is None

    def take_command(self) -> bool:
        self.commands -= 1
        if self.commands < 0:
            self.spend_commands()
        return self.spent is None

    def spend_commands(self) -> None:
        if self.spent is None:
            self.spent = f"the line would run more than {COMMANDS_MAX:,} commands"

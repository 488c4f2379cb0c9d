"""The command that a person wants to run: its words, or a line for a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ledger.core.errors import InputError
from ledger.masks.own_input import with_own_texts
from ledger.policy.shell.lexer import lex

MEMBER: Final = "command"
"""The member of the tool's input that holds the command line."""

SHELL: Final = ("bash", "-c")
"""The shell of a line: the one by whose grammar rules read it."""


class WantedCommand(NamedTuple):
    """Words that run without a shell, or with `is_line` one line for a shell."""

    words: tuple[str, ...]
    is_line: bool = False

    @property
    def line(self) -> str:
        """Return the command as a line, which is what rules judge and people read."""
        return self.words[0] if self.is_line else shlex.join(self.words)

    @property
    def input(self) -> dict[str, Any]:
        return {MEMBER: self.line}

    def to_run(self, allowed: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the words to start for the input that may run, which a person may have changed.

        Raises InputError for an input that cannot be run as this command is run.
        """
        # Secrets that are masked in the log are our own here.
        runs = with_own_texts(dict(allowed), self.input)
        line = runs.get(MEMBER)
        if runs == self.input:
            return (*SHELL, self.line) if self.is_line else self.words
        if not isinstance(line, str) or set(runs) != {MEMBER}:
            said = json.dumps(runs, ensure_ascii=False)
            raise InputError(f"it was allowed only as {said}, which is more than a command to run; nothing was run")
        return (*SHELL, line) if self.is_line else _plain_words(line)


def _plain_words(line: str) -> tuple[str, ...]:
    """Return the words of a line that means the same with and without a shell. Raises InputError for any other."""
    found = lex(line)
    words = found.commands[0].words if found.plain and len(found.commands) == 1 else ()
    plain = tuple(word.resolved for word in words if word.resolved is not None and not word.glob and not word.tilde)
    if not words or len(plain) != len(words) or found.commands[0].redirects:
        raise InputError(
            f"it was allowed only as `{line}`, which needs a shell; run that with `--shell`; nothing was run"
        )
    return plain

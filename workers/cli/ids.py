"""Types of arguments that are ids, completed by the shell from what the ledger has."""

from __future__ import annotations

import re
from typing import Final

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+,/-]*")
"""Ids that no shell reads as more than a word, and no command as an option."""


class IdParam(StringParamType):
    """A text that a shell completes with ids of one source, and with fixed words."""

    def __init__(self, source: str, words: tuple[str, ...] = ()) -> None:
        self.source = source
        self.words = words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return what may stand here; empty where the ledger cannot be read at once."""
        from workers.cli.id_completion import completed  # noqa: PLC0415 - slow to import, and only shells need it
        from workers.presentation.text import visible  # noqa: PLC0415 - the same

        fixed = [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        found = completed(self.source, incomplete, ctx.params.get("url"))
        # An agent chooses its ids, and bash puts a completion on the line unquoted: `$(…)` in one would run.
        plain = (CompletionItem(name, help=visible(text)) for name, text in found if _PLAIN.fullmatch(name))
        return [*fixed, *plain]


COMPLETED: Final = {
    "request": IdParam("requests"),
    "session": IdParam("sessions"),
    "sessions": IdParam("sessions"),
    "grant": IdParam("grants"),
}
"""Types by the names of parameters, which mean the same in every command."""


def complete_ids(command: click.Command) -> None:
    """Have a shell complete the parameters of a command that are ids."""
    for param in command.params:
        found = COMPLETED.get(param.name or "")
        if found is not None and type(param.type) is StringParamType:
            param.type = found

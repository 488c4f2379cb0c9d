"""Completion of a shell: the script of `completion`, and the types of arguments that are ids."""

from __future__ import annotations

import re
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class
from click.types import StringParamType

from workers.cli.options import DocumentedCommand
from workers.cli.output import CommandOutput
from workers.presentation.text import visible

_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+,/-]*")
"""Ids that no shell reads as more than a word, and no command as an option."""


class IdParam(StringParamType):
    """A text that a shell completes with ids of one source, and with fixed words."""

    def __init__(self, source: str, words: tuple[str, ...] = ()) -> None:
        self.source = source
        self.words = words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return what may stand here; empty where the ledger cannot be read at once."""
        from workers.cli.id_completion import completed  # noqa: PLC0415 - slow to import, and only shells need it

        fixed = [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        found = completed(self.source, incomplete, ctx.params.get("url"))
        # An agent chooses its ids, and bash puts a completion on the line unquoted: `$(…)` in one would run.
        plain = (CompletionItem(name, help=visible(text)) for name, text in found if _PLAIN_ID.fullmatch(name))
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


PROGRAM = "permission-ledger"
VARIABLE = "_PERMISSION_LEDGER_COMPLETE"
"""The variable by which click's script asks the program for completions."""


@click.command(
    cls=DocumentedCommand,
    examples=(
        "permission-ledger completion bash",
        "permission-ledger completion zsh",
        "permission-ledger completion fish",
    ),
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print the script that completes commands, options and ids in a shell.

    bash 4.4 or newer: `eval "$(permission-ledger completion bash)"` in ~/.bashrc. zsh: the same in ~/.zshrc, after compinit.
    fish: `permission-ledger completion fish > ~/.config/fish/completions/permission-ledger.fish`. Ids of pending
    requests, sessions and grants are read from the ledger; no server is started for that.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows all three"
    script = kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source()
    output = CommandOutput()
    for line in script.strip("\n").split("\n"):
        output.line(line)

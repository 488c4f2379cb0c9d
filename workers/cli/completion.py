"""`completion`: the script by which a shell completes commands, options and ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from workers.cli.documented import DocumentedCommand
from workers.cli.output import CommandOutput

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

    bash: `eval "$(permission-ledger completion bash)"` in ~/.bashrc (bash 4.4 or newer). zsh: the same with zsh in ~/.zshrc, after
    compinit. fish: `permission-ledger completion fish > ~/.config/fish/completions/permission-ledger.fish`. Ids of pending
    requests, sessions and grants are read from the ledger while you type; no server is started for that.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows all three"
    script = kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source()
    output = CommandOutput()
    for line in script.strip("\n").split("\n"):
        output.line(line)

"""`policy rules`: a configuration as the program reads it. `policy disabled`: the tools that need not be offered to a model."""

from __future__ import annotations

import click

from ledger.core.errors import InputError
from ledger.policy.dialects import listed_rules
from workers.cli.output import CommandOutput
from workers.cli.policy.options import Choices, policy_command


@policy_command(
    "rules",
    examples=(
        "permission-ledger policy rules --dialect claude",
        "permission-ledger policy rules --config opencode.json --json",
    ),
)
def rules(*, choices: Choices, as_json: bool) -> None:
    """Print the rules in force, lowest layer first, each with its layer and the line where it stands.

    Without --config and --layer the files are those that the source's own program finds here.
    """
    output = CommandOutput(as_json=as_json)
    found = listed_rules(choices.policy(quiet=as_json))
    if as_json:
        output.rows(rule.as_json() for rule in found)
    elif found:
        rows = [(one.action.value, one.permission, one.pattern, one.ref.layer, one.place) for one in found]
        output.table(("ACTION", "PERMISSION", "PATTERN", "LAYER", "WHERE"), rows)
    else:
        output.line(f"there are no rules: {choices.dialect} asks about {choices.spoken.language.asks_about}")


@policy_command(
    "disabled",
    examples=("permission-ledger policy disabled --tools bash,edit,webfetch --config opencode.json",),
)
@click.option("--tools", required=True, metavar="A,B", help="Names of tools, with commas between them.")
def disabled(*, choices: Choices, as_json: bool, tools: str) -> None:
    """List those of the tools that the rules deny whatever their input is, in the order given."""
    output = CommandOutput(as_json=as_json)
    names = [name.strip() for name in tools.split(",")]
    if not all(names):
        raise InputError(f"--tools `{tools}` holds an empty name; write them like `bash,edit`")
    gone = choices.policy(quiet=as_json).disabled(names)
    found = [name for name in dict.fromkeys(names) if name in gone]
    if as_json:
        output.row({"disabled": found})
    for name in () if as_json else found or ["none of them is wholly denied"]:
        output.line(name)

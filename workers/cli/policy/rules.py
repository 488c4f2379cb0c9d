"""`policy rules`: a configuration as the program reads it."""

from __future__ import annotations

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
        output.line(f"there are no rules: {choices.dialect} asks about {choices.spoken.asks_about}")

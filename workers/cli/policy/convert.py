"""`policy convert`: rules of one program in the dialect of another."""

from __future__ import annotations

import json

import click

from ledger.policy.asked import source_of
from ledger.policy.conversion.convert import Converted
from ledger.policy.conversion.convert import convert as converted
from ledger.policy.dialects import DIALECTS
from ledger.policy.neutral import ConversionChange
from workers.cli.output import CommandOutput, talk
from workers.cli.policy.explain import compiled_here
from workers.cli.policy.options import Choices, policy_command


@policy_command(
    "convert",
    examples=(
        "permission-ledger policy convert --from claude --to opencode --config .claude/settings.json",
        "permission-ledger policy convert --from opencode --to claude --config opencode.json --json",
    ),
)
@click.option("--from", "source", required=True, type=click.Choice(sorted(DIALECTS)), help="The dialect of the rules.")
@click.option("--to", "target", required=True, type=click.Choice(sorted(DIALECTS)), help="The dialect to write.")
def convert(*, choices: Choices, as_json: bool, source: str, target: str) -> None:
    """Write rules in another dialect, by what they mean; the configuration goes to stdout.

    A rule with another meaning in the other dialect is named on stderr: an allow that it cannot express is left out, a
    deny grows. With --json that is a member of the one object printed: {"config", "changes"}.
    """
    output = CommandOutput(as_json=as_json)
    given = Choices({**choices.typed, "dialect": source})
    options = given.found()
    if not options.get("layers") and not options.get("config"):
        raise given.no_files()
    found = converted(compiled_here(source_of(options)), DIALECTS[target])
    if as_json:
        output.row({"config": found.config, "changes": [_json(one) for one in found.changes]})
        return
    _tell(output, found)


def _json(change: ConversionChange) -> dict[str, object]:
    ref = change.rule.ref
    return {"rule": ref.text, "file": ref.file, "line": ref.line, "text": change.text}


def _tell(output: CommandOutput, found: Converted) -> None:
    for line in json.dumps(found.config, ensure_ascii=False, indent=2).splitlines():
        output.line(line)
    for one in found.changes:
        talk(f"changed: `{one.rule.ref.text}` ({one.rule.place}): {one.text}")

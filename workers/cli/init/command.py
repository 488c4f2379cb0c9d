"""`init`: finds agents and rules, shows every change, and makes them after one yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

from workers.bridges import settings_file
from workers.cli.base import LedgerCommand, json_option
from workers.cli.config import places
from workers.cli.config.files import ConfigFileError
from workers.cli.config.trust import load, project_file, record_of, require_outside, save, trust_of
from workers.cli.exits import Exit
from workers.cli.init.agents import KNOWN, NAMES, SCOPES, chosen
from workers.cli.init.plan import InitPlan, planned_setup, planned_undo
from workers.cli.output import CommandOutput, talk
from workers.transport.errors import BridgeError
from workers.transport.place import parse_place

SHOWN_LINES: Final = 40
"""The lines of a rule file that are shown; of more the number is."""


@click.command(
    cls=LedgerCommand,
    examples=(
        "permission-ledger init",
        "permission-ledger init --dry-run",
        "permission-ledger init --agent claude --phone https://laptop.example.ts.net",
        "permission-ledger init --undo",
    ),
)
@click.option(
    "--agent", "names", type=click.Choice(NAMES), multiple=True, help="Only this agent (default: all on the PATH)."
)
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="project",
    show_default=True,
    help="Hooks for runs in this project alone, or for every run of the agent.",
)
@click.option("--phone", metavar="URL", help="The https address by which your phone reaches the gateway.")
@click.option("--undo", is_flag=True, help="Remove what init wrote, as far as nobody changed it.")
@click.option("--dry-run", is_flag=True, help="Show the changes, and write nothing.")
@click.option("--yes", is_flag=True, help="Write without asking.")
def init(
    *, names: tuple[str, ...], scope: str, phone: str | None, undo: bool, dry_run: bool, yes: bool, as_json: bool
) -> int | None:
    """Set up the ledger in this project: hooks of your agents, a file of rules, and `permission-ledger.toml`.

    It shows the agents that it found, the rule files that it takes over and a diff of every file, and asks once. What
    exists already stays as it is, so a second run changes nothing. The project's file is trusted with the content that
    you saw.
    """
    output = CommandOutput(as_json=as_json)
    folder = Path.cwd().resolve()
    try:
        if phone is not None:
            _check_phone(phone)
        plan = planned_undo(folder, scope) if undo else planned_setup(folder, chosen(names), scope, phone)
        if not undo:
            _show_found(plan, output)
        code = _carry_out(plan, output, dry_run=dry_run, yes=yes, undo=undo)
    except BridgeError as error:
        raise click.ClickException(error.text) from error
    if code == Exit.DONE and not (undo or dry_run or as_json):
        _show_next(plan, output, phone)
    return code


def _check_phone(url: str) -> None:
    if not url.startswith("https://"):
        raise BridgeError(f"--phone `{url}` is not an https address; a phone's token must not be read on its way")
    parse_place(url, None)


def _carry_out(plan: InitPlan, output: CommandOutput, *, dry_run: bool, yes: bool, undo: bool) -> int:
    """Show the changes, ask once, and make them. Raises BridgeError."""
    for change in plan.needed:
        plan.require_no_way_out(change)
        if output.as_json:
            output.row({"kind": "change", "file": str(change.path), "diff": change.diff()})
        else:
            for line in change.diff().splitlines():
                output.line(line)
            output.line()
    if not plan.needed:
        talk("nothing to change")
        return Exit.DONE
    if plan.writes_settings:
        talk(f"{places.trust_file()}: {'without' if undo else 'with'} {plan.settings}")
    if dry_run:
        talk("nothing was written (--dry-run)")
        return Exit.DONE
    question = f"{'Remove' if undo else 'Write'} {len(plan.needed)} changes?"
    if not yes and not click.confirm(question, default=False, err=True):
        talk("nothing was written")
        return Exit.OUR_FAULT
    if plan.writes_settings:
        require_outside(plan.settings)
    for change in plan.needed:
        plan.require_no_way_out(change)
        settings_file.apply(change)
        if not output.as_json:
            output.line(f"{change.path}: {'removed' if change.after is None else 'written'}")
    _record_trust(plan, undo=undo)
    return Exit.DONE


def _record_trust(plan: InitPlan, *, undo: bool) -> None:
    """Trust the project's file that was written now, with exactly the contents that were shown. Raises ConfigFileError."""
    if not plan.writes_settings:
        return
    records = load()
    records.pop(str(plan.settings), None)
    if not undo and plan.record is not None:
        if record_of(project_file(plan.settings)) != plan.record:
            raise ConfigFileError(
                f"`{plan.settings}`, or a file that it names, was changed meanwhile, so it is not trusted",
                hint=f"read it, then: permission-ledger config trust {plan.settings}",
            )
        records[str(plan.settings)] = plan.record
    save(records)


def _show_found(plan: InitPlan, output: CommandOutput) -> None:
    for agent in KNOWN:
        program = agent.program()
        if output.as_json:
            output.row({"kind": "agent", "name": agent.name, "program": program, "connected": agent in plan.agents})
        elif program is not None or agent in plan.agents:
            output.line(f"found      {agent.title}: {program or 'not on the PATH'}")
    if not (plan.agents or output.as_json):
        output.line("found      no agent on the PATH; `init --agent NAME` connects one that is elsewhere")
    for file in plan.rules:
        if output.as_json:
            output.row({"kind": "rules", "dialect": file.dialect, "file": str(file.path), "new": file.text is not None})
        elif file.text is None:
            output.line(f"rules      {file.path} ({file.dialect}), taken over as they are:")
            lines = json.dumps(file.rules, indent=2, ensure_ascii=False).splitlines()
            for line in lines[:SHOWN_LINES]:
                output.line(f"             {line}")
            if len(lines) > SHOWN_LINES:
                output.line(f"             … and {len(lines) - SHOWN_LINES} more lines")
    for path, why in plan.unusable:
        talk(f"warning: the rules `{path}` are not taken over: {why}")
    if not output.as_json:
        output.line()


def _show_next(plan: InitPlan, output: CommandOutput, phone: str | None) -> None:
    output.line()
    output.line("Next:")
    if not plan.writes_settings and trust_of(project_file(plan.settings), load())[0] != "trusted":
        _show_step(output, "permission-ledger config trust", "use permission-ledger.toml, after reading it")
    _show_step(output, "permission-ledger up", "start the ledger, in another terminal")
    _show_step(output, "permission-ledger inbox --open", "answer in a browser on this machine")
    if phone is not None and not plan.writes_settings:
        output.line(
            f'  # {plan.settings.name} stays as it is; the phone\'s address belongs below [up]: host = ["{phone}"]'
        )
    if phone is None:
        _show_step(output, "permission-ledger init --help", "--phone URL: answer on a phone, over https")
    else:
        link = f"permission-ledger inbox --role approver --as phone --gateway {phone}"
        _show_step(output, link, "print the link to open on the phone")
    for agent in plan.agents:
        if agent.start is not None:
            _show_step(output, agent.start, f"start {agent.title} through the ledger")
        if agent.then is not None:
            why = f"make {agent.title} use the hook: it leaves out one that it does not trust, and says nothing"
            _show_step(output, agent.then(plan.scope), why)


def _show_step(output: CommandOutput, line: str, why: str) -> None:
    output.line(f"  {line:<36}  # {why}")


init.params.append(json_option())

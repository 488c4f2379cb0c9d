"""`init`: finds agents and rules, plans the changes of files, shows every one, and makes them after one yes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ledger.core.errors import LedgerError
from ledger.policy.dialects import DEFAULT_DIALECT
from workers.bridges import settings_file
from workers.bridges.hooks.settings import LIMIT_SECONDS
from workers.bridges.options import BridgeOptions, read_rules
from workers.bridges.settings_file import SettingsChange, planned, read_text
from workers.cli.base import command
from workers.cli.config_applied import load, project_file, record_of, require_outside, save, trust_of
from workers.cli.config_files import ConfigFileError
from workers.cli.hook import CLAUDE, CODEX, GEMINI, QWEN, HookedAgent
from workers.cli.output import CommandOutput, Exit, talk
from workers.transport.place import BridgeError, parse_place
from workers.transport.trusted import PROJECT_FILE, TrustRecord, trust_file
from workers.transport.trusted import digest_of_file as digest_of

SCOPES: Final = ("project", "user")
"""For runs in this project alone; for every run of the agent."""


class KnownAgent(NamedTuple):
    """An agent that the ledger can be put before.

    `rules` are the files in a project that hold rules of its dialect. Agents without a `hook` are started through a
    bridge, by the line `start`. `project_scope`: the scope of settings for this project alone. `then`: the line that is
    needed after the hook is written to a scope.
    """

    name: str
    title: str
    dialect: str
    rules: tuple[str, ...] = ()
    hook: HookedAgent | None = None
    project_scope: str = "project"
    start: str | None = None
    then: str | None = None

    def program(self) -> str | None:
        """Return the path of the program on the PATH."""
        return shutil.which(self.name)

    def changes(self, scope: str, *, remove: bool = False) -> list[SettingsChange]:
        """Return the changes of the agent's settings, and those of other files that removing the hook brings with it.

        Raises BridgeError.
        """
        if self.hook is None:
            return []
        of = self.project_scope if scope == "project" else scope
        path = self.hook.path(of)
        entries = None if remove else self.hook.entries(BridgeOptions(dialect=self.dialect), LIMIT_SECONDS, of)
        change = planned(path, self.name, entries, comments=self.hook.takes_comments)
        return [change, *(self.hook.left_behind(path) if remove else ())]


KNOWN: Final = (
    # `local`: the settings of one person in a project, which nobody commits.
    KnownAgent("claude", "Claude Code", "claude", (".claude/settings.json",), CLAUDE, "local"),
    # Codex alone can compute the hash that it compares.
    KnownAgent(
        "codex", "Codex", "opencode", hook=CODEX, then="permission-ledger hook codex --install --trust --scope {scope}"
    ),
    KnownAgent("gemini", "Gemini CLI", "opencode", hook=GEMINI),
    KnownAgent("qwen", "Qwen Code", "opencode", hook=QWEN),
    KnownAgent(
        "opencode",
        "OpenCode",
        "opencode",
        ("opencode.json", "opencode.jsonc"),
        start="permission-ledger bridge opencode -- opencode serve --port 4096",
    ),
    KnownAgent(
        "codelia",
        "Codelia",
        "codelia",
        (".codelia/config.json",),
        start="permission-ledger bridge codelia -- bun PATH/packages/runtime/src/index.ts",
    ),
    KnownAgent("copilot", "Copilot CLI", "opencode", start="permission-ledger bridge acp -- copilot --acp"),
)
"""Zed and other editors start an agent through `bridge acp`; they have a guide instead."""

NAMES: Final = tuple(agent.name for agent in KNOWN)


def chosen(names: tuple[str, ...]) -> tuple[KnownAgent, ...]:
    """Return the agents of these names, else those whose program is on the PATH."""
    return tuple(agent for agent in KNOWN if (agent.name in names if names else agent.program() is not None))


STARTERS: Final = Path(__file__).resolve().parents[1] / "data" / "starter-rules"
"""A file for each dialect that has one: reading is allowed, secrets are denied, everything else asks a person."""


class RuleFile(NamedTuple):
    """A file of rules of one dialect. `text`: what is written, None for a file that is there already.

    `digest` is the SHA-256 of the content that is shown, and trusted.
    """

    dialect: str
    path: Path
    text: str | None
    rules: Any
    digest: str

    def option(self, folder: Path) -> str:
        """Return it in the form of `--rules`, relative to the project."""
        return f"{self.dialect}={self.path.relative_to(folder)}"


Unusable = tuple[Path, str]
"""A file that looks like rules and cannot be used, with the reason."""


def rule_files(folder: Path, agents: tuple[KnownAgent, ...]) -> tuple[list[RuleFile], list[Unusable]]:
    """Return one file for each dialect of the agents, or for OpenCode's where there is no agent."""
    found: dict[str, RuleFile] = {}
    unusable: list[Unusable] = []
    dialects = dict.fromkeys(agent.dialect for agent in agents) or [DEFAULT_DIALECT]
    for dialect in dialects:
        for path in (folder / name for agent in KNOWN if agent.dialect == dialect for name in agent.rules):
            file = _existing(path, dialect, unusable)
            if file is not None:
                found.setdefault(dialect, file)
        if dialect not in found and dialect in starter_dialects():
            found[dialect] = starter(folder, dialect)
    return list(found.values()), unusable


def starter_dialects() -> list[str]:
    return sorted(path.stem for path in STARTERS.glob("*.json"))


def starter(folder: Path, dialect: str) -> RuleFile:
    text = (STARTERS / f"{dialect}.json").read_text(encoding="utf-8")
    path = folder / f"permission-ledger.{dialect}.json"
    return RuleFile(dialect, path, text, json.loads(text), hashlib.sha256(text.encode()).hexdigest())


def _existing(path: Path, dialect: str, unusable: list[Unusable]) -> RuleFile | None:
    if not path.exists():
        return None
    from workers.gateway.own_rules import read_rule_files  # noqa: PLC0415 - slow to import

    try:
        digest = digest_of(str(path))
        rules = read_rules(str(path), dialect)
        asyncio.run(read_rule_files([f"{dialect}={path}"]))
    except (BridgeError, LedgerError) as error:
        unusable.append((path, error.text))
        return None
    if digest_of(str(path)) != digest:
        unusable.append((path, "it was changed while it was read"))
        return None
    return RuleFile(dialect, path, None, rules, digest) if any(_section(rules)) else None


def _section(rules: Any) -> list[Any]:
    return list(rules.values()) if isinstance(rules, dict) else rules


_HEAD: Final = """\
# Settings of permission-ledger in this project. It counts after `permission-ledger config trust`,
# also after each change of this file or of a file that it names.
"""


class InitPlan(NamedTuple):
    """The agents that were found, and the changes of files. `settings` is the project's file.

    `record` trusts it with the content that is shown; None where it stays as it is.
    """

    agents: tuple[KnownAgent, ...]
    rules: tuple[RuleFile, ...]
    unusable: tuple[Unusable, ...]
    changes: tuple[SettingsChange, ...]
    settings: Path
    scope: str
    record: TrustRecord | None = None

    @property
    def needed(self) -> tuple[SettingsChange, ...]:
        return tuple(change for change in self.changes if change.is_needed)

    @property
    def writes_settings(self) -> bool:
        return any(change.path == self.settings for change in self.needed)

    def require_no_way_out(self, change: SettingsChange) -> None:
        """Raise BridgeError for a file in the project that is, or is inside, a link out of it: an agent may have made that.

        The files that are ours are no links at all.
        """
        folder, path = self.settings.parent, change.path
        if not path.is_relative_to(folder):
            return
        is_ours = path.parent == folder
        if (is_ours and path.is_symlink()) or not path.resolve().is_relative_to(folder):
            raise BridgeError(
                f"`{path}` is a link to `{path.resolve()}`, which `init` neither writes nor removes; remove the link"
            )


def planned_setup(folder: Path, agents: tuple[KnownAgent, ...], scope: str, phone: str | None) -> InitPlan:
    """Return the changes that set a project up. What is there already stays. Raises BridgeError."""
    rules, unusable = rule_files(folder, agents)
    settings = folder / PROJECT_FILE
    text = settings_text([file.option(folder) for file in rules], phone)
    changes = [_new(file.path, file.text) for file in rules if file.text is not None]
    changes.append(_new(settings, text))
    changes += [change for agent in agents for change in agent.changes(scope)]
    record = TrustRecord(_sha256(text), {str(file.path): file.digest for file in rules})
    return InitPlan(agents, tuple(rules), tuple(unusable), tuple(changes), settings, scope, record)


def planned_undo(folder: Path, scope: str) -> InitPlan:
    """Return the changes that remove what `init` wrote, as long as nobody changed it since. Raises BridgeError."""
    settings = folder / PROJECT_FILE
    record = load().get(str(settings))
    before = read_text(settings)
    ours = record is not None and before is not None and before.startswith(_HEAD) and record.digest == _sha256(before)
    changes = [SettingsChange(settings, before, None if ours else before)]
    for dialect in starter_dialects():
        file = starter(folder, dialect)
        written = read_text(file.path)
        changes.append(SettingsChange(file.path, written, None if written == file.text else written))
    changes += [change for agent in KNOWN for change in agent.changes(scope, remove=True)]
    return InitPlan((), (), (), tuple(changes), settings, scope)


def settings_text(rules: list[str], phone: str | None) -> str:
    """Return the text of a new project's file."""
    lines = [_HEAD, f"rules = {json.dumps(rules)}"]
    if phone is not None:
        lines += ["", "[up]", f"host = {json.dumps([phone])}"]
    return "\n".join(lines) + "\n"


def _new(path: Path, text: str) -> SettingsChange:
    """Return the change that writes a file, or none where it exists: its content is somebody's own."""
    before = read_text(path)
    return SettingsChange(path, before, text if before is None else before)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


SHOWN_LINES: Final = 40
"""The lines of a rule file that are shown; of more the number is."""


@command(
    "permission-ledger init",
    "permission-ledger init --dry-run",
    "permission-ledger init --agent claude --phone https://laptop.example.ts.net",
    "permission-ledger init --undo",
    with_url=False,
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
    if phone is not None and not phone.startswith("https://"):
        text = f"--phone `{phone}` is not an https address; a phone's token must not be read on its way"
        raise click.ClickException(text)
    try:
        if phone is not None:
            parse_place(phone, None)
        plan = planned_undo(folder, scope) if undo else planned_setup(folder, chosen(names), scope, phone)
        if not undo:
            _show_found(plan, output)
        code = _carry_out(plan, output, dry_run=dry_run, yes=yes, undo=undo)
    except BridgeError as error:
        raise click.ClickException(error.text) from error
    if code == Exit.DONE and not (undo or dry_run or as_json):
        _show_next(plan, output, phone)
    return code


def _carry_out(plan: InitPlan, output: CommandOutput, *, dry_run: bool, yes: bool, undo: bool) -> int:
    for change in plan.needed:
        plan.require_no_way_out(change)
        diff = change.diff()
        output.result({"kind": "change", "file": str(change.path), "diff": diff}, *diff.splitlines(), "")
    if not plan.needed:
        talk("nothing to change")
        return Exit.DONE
    if plan.writes_settings:
        talk(f"{trust_file()}: {'without' if undo else 'with'} {plan.settings}")
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
    _show_step(output, "permission-ledger up --detach", "start the ledger; --service: after each reboot, too")
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
            _show_step(output, agent.then.format(scope=plan.scope), why)


def _show_step(output: CommandOutput, line: str, why: str) -> None:
    output.line(f"  {line:<36}  # {why}")

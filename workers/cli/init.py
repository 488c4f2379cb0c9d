"""`init`: finds agents and rules, plans the changes of files, sums them up, and makes them after one yes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import sys
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
from workers.cli.installing import CLAUDE, CODEX, GEMINI, QWEN, HookedAgent
from workers.cli.output import CommandOutput, Exit, talk
from workers.runtime import service
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import BridgeError, parse_place
from workers.transport.trusted import PROJECT_FILE, TrustRecord, trust_file
from workers.transport.trusted import digest_of_file as digest_of

SCOPES: Final = ("project", "user")
"""For runs in this project alone; for every run of the agent."""


NextStep = tuple[str, str]
"""A line to type, and the reason."""

_START: Final = ("permission-ledger up --service", "start the ledger, now and after each reboot; --detach: now alone")
_START_ONCE: Final = (
    "permission-ledger up --detach",
    "start the ledger; without systemd and launchd, `up --service` prints the line for a reboot",
)


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
        "codex",
        "Codex",
        "opencode",
        hook=CODEX,
        then="permission-ledger bridge codex --install --trust --scope {scope}",
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
    """Return one file for each dialect of the agents, or for OpenCode's in a new project without an agent."""
    found: dict[str, RuleFile] = {}
    unusable: list[Unusable] = []
    is_set_up = (folder / PROJECT_FILE).exists()
    dialects = dict.fromkeys(agent.dialect for agent in agents) or ([] if is_set_up else [DEFAULT_DIALECT])
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

    def name_of(self, change: SettingsChange) -> str:
        """Return a file's name, within the project if it is there."""
        folder, path = self.settings.parent, change.path
        return str(path.relative_to(folder) if path.is_relative_to(folder) else path)

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


@command(
    "permission-ledger init",
    "permission-ledger init --diff --dry-run",
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
@click.option("--diff", is_flag=True, help="Show the rules that are taken over, and a diff of every file.")
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option(
    "--service/--no-service",
    "as_service",
    default=None,
    help="Start the ledger as `up --service` does, or not (default: a question at a terminal, without --yes).",
)
def init(
    *,
    names: tuple[str, ...],
    scope: str,
    phone: str | None,
    undo: bool,
    diff: bool,
    dry_run: bool,
    yes: bool,
    as_service: bool | None,
    as_json: bool,
) -> int | None:
    """Set up the ledger in this project: hooks of your agents, a file of rules, and `permission-ledger.toml`.

    It says in six lines what it found and would write, and asks once; --diff shows every file. What exists already stays
    as it is, so a second run changes nothing, and says what is next.
    """
    output = CommandOutput(as_json=as_json)
    folder = Path.cwd().resolve()
    if as_service and (undo or as_json):
        raise click.UsageError(f"give --service or {'--undo' if undo else '--json'}, not both")
    if phone is not None and not phone.startswith("https://"):
        text = f"--phone `{phone}` is not an https address; a phone's token must not be read on its way"
        raise click.ClickException(text)
    try:
        if phone is not None:
            parse_place(phone, None)
        plan = planned_undo(folder, scope) if undo else planned_setup(folder, chosen(names), scope, phone)
        if not undo:
            _show_found(plan, output, diff=diff)
        code = _carry_out(plan, output, diff=diff, dry_run=dry_run, yes=yes, undo=undo)
        if code == Exit.DONE and not (undo or dry_run or as_json):
            steps = _open_steps(plan)
            if _wants_service(steps, as_service, may_ask=not yes):
                code = _start_service()
                steps = _open_steps(plan)
            _show_next(plan, steps, output, phone)
    except BridgeError as error:
        raise click.ClickException(error.text) from error
    return code


def _carry_out(plan: InitPlan, output: CommandOutput, *, diff: bool, dry_run: bool, yes: bool, undo: bool) -> int:
    for change in plan.needed:
        plan.require_no_way_out(change)
        text = change.diff()
        lines = (*text.splitlines(), "") if diff else ()
        output.result({"kind": "change", "file": str(change.path), "diff": text}, *lines)
    if not plan.needed:
        talk("nothing to change")
        return Exit.DONE
    if diff and plan.writes_settings:
        talk(f"{trust_file()}: {'without' if undo else 'with'} {plan.settings}")
    if dry_run:
        talk("nothing was written (--dry-run)")
        return Exit.DONE
    names = ", ".join(map(plan.name_of, plan.needed))
    if not yes and not click.confirm(f"{'Remove' if undo else 'Write'} {names}?", default=False, err=True):
        talk("nothing was written")
        return Exit.OUR_FAULT
    if plan.writes_settings:
        require_outside(plan.settings)
    for change in plan.needed:
        plan.require_no_way_out(change)
        settings_file.apply(change)
    if not output.as_json:
        output.line(f"{'removed' if undo else 'written'}    {names}")
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


def _show_found(plan: InitPlan, output: CommandOutput, *, diff: bool) -> None:
    if output.as_json:
        for agent in KNOWN:
            found = {"name": agent.name, "program": agent.program(), "connected": agent in plan.agents}
            output.row({"kind": "agent", **found})
        for file in plan.rules:
            output.row({"kind": "rules", "dialect": file.dialect, "file": str(file.path), "new": file.text is not None})
    else:
        for line in _summary(plan):
            output.line(line)
    for path, why in plan.unusable:
        talk(f"warning: the rules `{path}` are not taken over: {why}")
    for file in plan.rules:
        if diff and file.text is None and not output.as_json:
            shown = json.dumps(file.rules, indent=2, ensure_ascii=False).splitlines()
            for line in ("", f"{file.path}, as it is:", *shown):
                output.line(line)
    if not output.as_json:
        output.line()


def _summary(plan: InitPlan) -> list[str]:
    """Return the six lines on what was found, and what would be written."""
    folder = plan.settings.parent
    hooked = ", ".join(agent.title for agent in plan.agents if agent.hook)
    bridged = ", ".join(agent.title for agent in plan.agents if agent.start)
    agents = [f"{hooked} by a hook"] if hooked else []
    agents += [f"{bridged} by a bridge, which starts it"] if bridged else []
    taken = [file.option(folder) for file in plan.rules if file.text is None]
    new = [file.option(folder) for file in plan.rules if file.text is not None]
    rules = [f"{', '.join(taken)} as they are"] if taken else []
    rules += [f"{', '.join(new)}: looking is allowed, secrets are denied, the rest asks"] if new else []
    return [
        f"project    {folder}",
        f"agents     {'; '.join(agents) or 'none on the PATH; `--agent NAME` connects one that is elsewhere'}",
        f"rules      {'; '.join(rules) or f'those that {plan.settings.name} names'}",
        f"writes     {', '.join(map(plan.name_of, plan.needed)) or 'nothing: all is there'}",
        f"trusts     {f'{plan.settings.name}, and these rules as they are now' if plan.writes_settings else 'nothing new'}",
        "details    permission-ledger init --diff --dry-run",
    ]


def _wants_service(steps: list[NextStep], wanted: bool | None, *, may_ask: bool) -> bool:
    """Return whether the ledger is to be started as a service: by the option, else by the answer at a terminal.

    A service that runs serves all projects, and stays with the options that it has.
    """
    if wanted is not None:
        return wanted and (service.installed() is None or _START in steps)
    if not may_ask or steps[:1] != [_START] or service.installed() or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm("Start the ledger now and at each login, as a service of yours?", default=False, err=True)


def _start_service() -> int:
    """Run `up --service` with the settings of this project, which are written by now; return its exit code."""
    from workers.cli.up import up  # noqa: PLC0415 - rarely needed

    with up.make_context("up", ["--service"], parent=click.get_current_context().find_root()) as context:
        return int(up.invoke(context))


def _show_next(plan: InitPlan, open_steps: list[NextStep], output: CommandOutput, phone: str | None) -> None:
    """Print the one step without which no call is asked; else how to answer, and how to start the other agents."""
    for line, why in open_steps[:1] or _uses(plan, phone):
        output.line(f"next       {line}  # {why}")
    if open_steps:
        words = [f" --agent {name}" for name in click.get_current_context().params["names"]]
        words += [f" --scope {plan.scope}"] * (plan.scope != SCOPES[0]) + [f" --phone {phone}"] * (phone is not None)
        output.line(f"then       permission-ledger init{''.join(words)}  # it says what is next")
    if plan.writes_settings:
        return
    there, folder = read_text(plan.settings) or "", plan.settings.parent
    lacking = [
        f'to its rules belongs: "{file.option(folder)}"'
        for file in plan.rules
        if str(file.path.relative_to(folder)) not in there
    ]
    if phone is not None and phone not in there:
        lacking.append(f'below [up] belongs: host = ["{phone}"]')
    for text in lacking:
        output.line(f"note       {plan.settings.name} stays as it is; {text}")


def _open_steps(plan: InitPlan) -> list[NextStep]:
    steps = []
    if not plan.writes_settings and trust_of(project_file(plan.settings), load())[0] != "trusted":
        steps.append(("permission-ledger config trust", f"use {plan.settings.name}, after reading it"))
    for agent in plan.agents:
        if agent.then is not None and agent.hook is not None:
            path = agent.hook.path(plan.scope)
            if not all(note.ok for note in agent.hook.notes(path)):
                why = f"{agent.title} leaves out a hook that it does not trust, and says nothing"
                steps.append((agent.then.format(scope=plan.scope), why))
    if not asyncio.run(_is_running()):
        steps.append(_START if service.path_of_unit() else _START_ONCE)
    return steps


async def _is_running() -> bool:
    try:
        async with GatewayClient(grace=0) as client:
            return bool((await client.call("GET", "/healthz")).get("ok"))
    except BridgeError:
        return False


def _uses(plan: InitPlan, phone: str | None) -> list[NextStep]:
    link = f"permission-ledger inbox --role approver --as phone --gateway {phone}"
    answer = (link, "print the link to open on the phone")
    if phone is None:
        answer = ("permission-ledger inbox --open", "answer in a browser; `init --phone URL`: on a phone, over https")
    starts = [(agent.start, f"start {agent.title} through the ledger") for agent in plan.agents if agent.start]
    return [answer, *starts]

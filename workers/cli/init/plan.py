"""The changes that `init` makes in a project, and those that undo them. Nothing is written here."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledger.core.errors import LedgerError
from ledger.policy.dialects import DEFAULT_DIALECT
from workers.bridges.options import read_rules
from workers.bridges.settings_file import SettingsChange, read_text
from workers.cli.config import places
from workers.cli.config.trust import load
from workers.cli.init.agents import KNOWN, KnownAgent
from workers.transport.errors import BridgeError
from workers.transport.trusted import TrustRecord
from workers.transport.trusted import digest_of_file as digest_of

STARTERS: Final = Path(__file__).resolve().parents[2] / "data" / "starter-rules"
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


class Unusable(NamedTuple):
    """A file that looks like rules and cannot be used, with the reason."""

    path: Path
    why: str


def rule_files(folder: Path, agents: tuple[KnownAgent, ...]) -> tuple[list[RuleFile], list[Unusable]]:
    """Return one file for each dialect of the agents, or for OpenCode's where there is no agent."""
    found: dict[str, RuleFile] = {}
    unusable: list[Unusable] = []
    dialects = dict.fromkeys(agent.dialect for agent in agents) or [DEFAULT_DIALECT]
    for dialect in dialects:
        for path in _candidates(folder, dialect):
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


def _candidates(folder: Path, dialect: str) -> list[Path]:
    return [folder / name for agent in KNOWN if agent.dialect == dialect for name in agent.rules]


def _existing(path: Path, dialect: str, unusable: list[Unusable]) -> RuleFile | None:
    """Return a file that holds rules and that the gateway can read."""
    if not path.exists():
        return None
    try:
        digest = digest_of(str(path))
        rules = read_rules(str(path), dialect)
        asyncio.run(_read_by_the_gateway(dialect, path))
    except (BridgeError, LedgerError) as error:
        unusable.append(Unusable(path, error.text))
        return None
    if digest_of(str(path)) != digest:
        unusable.append(Unusable(path, "it was changed while it was read"))
        return None
    return RuleFile(dialect, path, None, rules, digest) if any(_section(rules)) else None


def _section(rules: Any) -> list[Any]:
    return list(rules.values()) if isinstance(rules, dict) else rules


async def _read_by_the_gateway(dialect: str, path: Path) -> None:
    from workers.gateway.own_rules import read_rule_files  # noqa: PLC0415 - slow to import

    await read_rule_files([f"{dialect}={path}"])


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
    settings = folder / places.FILE
    text = settings_text([file.option(folder) for file in rules], phone)
    changes = [_new(file.path, file.text) for file in rules if file.text is not None]
    changes.append(_new(settings, text))
    changes += [change for agent in agents if (change := agent.change(scope)) is not None]
    record = TrustRecord(_sha256(text), {str(file.path): file.digest for file in rules})
    return InitPlan(agents, tuple(rules), tuple(unusable), tuple(changes), settings, scope, record)


def planned_undo(folder: Path, scope: str) -> InitPlan:
    """Return the changes that remove what `init` wrote, as long as nobody changed it since. Raises BridgeError."""
    settings = folder / places.FILE
    record = load().get(str(settings))
    before = read_text(settings)
    ours = record is not None and before is not None and before.startswith(_HEAD) and record.digest == _sha256(before)
    changes = [SettingsChange(settings, before, None if ours else before)]
    for dialect in starter_dialects():
        file = starter(folder, dialect)
        written = read_text(file.path)
        changes.append(SettingsChange(file.path, written, None if written == file.text else written))
    for agent in KNOWN:
        if (change := agent.change(scope, remove=True)) is not None:
            changes += [change, *(agent.left_behind(scope) if agent.left_behind is not None else ())]
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

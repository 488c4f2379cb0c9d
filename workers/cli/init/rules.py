"""The rule files of a project: those that agents have already, and starter files where a dialect has none."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledger.core.errors import LedgerError
from ledger.policy.dialects import DEFAULT_DIALECT
from workers.bridges.options import read_rules
from workers.cli.init.agents import KNOWN, KnownAgent
from workers.transport.errors import BridgeError
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
    from workers.gateway.rule_options import read_rule_files  # noqa: PLC0415 - slow to import

    await read_rule_files([f"{dialect}={path}"])

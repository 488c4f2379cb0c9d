"""The option `--rules [DIALECT=]FILE` of `serve` and `up`: the rules of the gateway itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ledger.client.policy_files import PolicyFiles
from ledger.core.errors import InputError
from ledger.policy.dialects import DEFAULT_DIALECT, DIALECTS
from workers.gateway.own_rules import rule_file


async def read_rule_files(texts: Sequence[str]) -> dict[str, PolicyFiles]:
    """Return the rules by dialect, each file read once. Raises InputError and PolicyError for unusable rules."""
    policies: dict[str, PolicyFiles] = {}
    for text in texts:
        dialect, file = _named(text)
        if dialect in policies:
            raise InputError(f"--rules names two files of dialect `{dialect}`; give one file a dialect")
        policies[dialect] = rule_file(dialect, file)
        await policies[dialect].current()
    return policies


def _named(text: str) -> tuple[str, Path]:
    dialect, equals, file = text.partition("=")
    if not equals:
        return DEFAULT_DIALECT, Path(text)
    if dialect not in DIALECTS:
        raise InputError(f"`{dialect}` is not a dialect; use one of {', '.join(sorted(DIALECTS))}")
    return dialect, Path(file)

"""The option `--rules [DIALECT=]FILE` of `serve` and `up`: the rules of the gateway itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ledger.client.policy_files import PolicyFiles
from ledger.core.errors import InputError
from workers.gateway.own_rules import rule_file
from workers.runtime.project_rules import named_rules


async def read_rule_files(texts: Sequence[str]) -> dict[str, PolicyFiles]:
    """Return the rules by dialect, each file read once. Raises InputError and PolicyError for unusable rules."""
    policies: dict[str, PolicyFiles] = {}
    for text in texts:
        dialect, file = named_rules(text)
        if dialect in policies:
            raise InputError(f"--rules names two files of dialect `{dialect}`; give one file a dialect")
        policies[dialect] = rule_file(dialect, Path(file))
        await policies[dialect].current()
    return policies

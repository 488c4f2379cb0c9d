"""Conversion of a policy to a configuration of another dialect. Pure."""

from __future__ import annotations

from typing import Any

from ledger.core.policy import Policy
from ledger.policy.conversion.codelia import codelia_config, codelia_rules
from ledger.policy.conversion.flat import flat_config, flat_rules, same_rules
from ledger.policy.conversion.model import ConversionChange, Converted
from ledger.policy.conversion.order import by_strictness, reachable
from ledger.policy.conversion.outside import inside_the_project, without_guarded
from ledger.policy.conversion.paths import named_in_commands
from ledger.policy.conversion.tools import tool_config, tool_rules
from ledger.policy.conversion.verbatim import between_tool_rules
from ledger.policy.neutral import neutral_rules

TOOL_RULES = ("betcode", "claude")
LAST_MATCH = ("opencode", "brutus")


def convert(policy: Policy, dialect: str) -> Converted:
    """Write the rules of a policy in another dialect."""
    changes: list[ConversionChange] = []
    origin = policy.source.dialect
    config: dict[str, Any]
    if origin in TOOL_RULES and dialect in TOOL_RULES:
        config = between_tool_rules(policy, dialect, changes)
    elif origin in LAST_MATCH and dialect in LAST_MATCH:
        config = flat_config(same_rules(policy, dialect, changes), dialect, changes)
    else:
        if origin in LAST_MATCH:
            rules = reachable(without_guarded(neutral_rules(policy), policy, changes))
            rules = inside_the_project(rules, policy)
        else:
            rules = reachable(named_in_commands(neutral_rules(policy)))
        if dialect in LAST_MATCH:
            config = flat_config(flat_rules(rules, dialect, changes), dialect, changes)
        elif dialect == "codelia":
            config = codelia_config(codelia_rules(by_strictness(rules, dialect, changes), changes))
        else:
            config = tool_config(tool_rules(by_strictness(rules, dialect, changes), dialect, changes))
    return Converted(config, tuple(dict.fromkeys(changes)))

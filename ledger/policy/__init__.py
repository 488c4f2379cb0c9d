"""Policies: rules, matching, and the dialects that judge a tool call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ledger.core.policy import (
        Call,
        Evaluation,
        Grant,
        Layer,
        Part,
        Policy,
        PolicySource,
        Rule,
        RuleRef,
        Verdict,
        strictest,
    )
    from ledger.policy.dialects import DIALECTS, compile_policy
    from ledger.policy.errors import PolicyError
    from ledger.policy.loader import EDIT_TOOLS, disabled, evaluate, from_config, load_rules, merge
    from ledger.policy.stored_rules import digest

__all__ = [
    "DIALECTS", "EDIT_TOOLS", "Call", "Evaluation", "Grant", "Layer", "Part", "Policy", "PolicyError", "PolicySource",
    "Rule", "RuleRef", "Verdict", "compile_policy", "digest", "disabled", "evaluate", "from_config", "load_rules",
    "merge", "strictest",
]  # fmt: skip

_MODULES = {
    "ledger.core.policy": (
        *("Call", "Evaluation", "Grant", "Layer", "Part", "Policy", "PolicySource", "Rule", "RuleRef", "Verdict"),
        "strictest",
    ),
    "ledger.policy.dialects": ("DIALECTS", "compile_policy"),
    "ledger.policy.stored_rules": ("digest",),
    "ledger.policy.errors": ("PolicyError",),
    "ledger.policy.loader": ("EDIT_TOOLS", "disabled", "evaluate", "from_config", "load_rules", "merge"),
}
"""The modules of the public names. Each is imported when one of its names is used first: the dialects take a while."""

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # a checker would accept every name

    def __getattr__(name: str) -> object:
        from importlib import import_module  # noqa: PLC0415 - only where a name is used first

        if name not in _MODULE_OF:
            raise AttributeError(f"module `ledger.policy` has no attribute `{name}`")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

"""The dialect `codelia`: allow and deny lists by tool, command, glob and skill; others are asked (codelia.md)."""

from __future__ import annotations

from ledger.policy.codelia.confirm import ConfirmRequest, confirm_request
from ledger.policy.codelia.judge import system_layer
from ledger.policy.codelia.loader import config_files, load_config, load_layers, remembered, write_remembered
from ledger.policy.codelia.policy import CodeliaPolicy, RuleObject

__all__ = [
    "CodeliaPolicy",
    "ConfirmRequest",
    "RuleObject",
    "config_files",
    "confirm_request",
    "load_config",
    "load_layers",
    "remembered",
    "system_layer",
    "write_remembered",
]

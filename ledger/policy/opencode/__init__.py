"""The dialect of OpenCode: permission and pattern rules, the last match decides (opencode.md, opencode-zh.md)."""

from __future__ import annotations

from ledger.policy.loader import permission_of
from ledger.policy.opencode.layers import child_rules
from ledger.policy.opencode.loader import config_files, load_layers
from ledger.policy.opencode.policy import OpenCodePolicy
from ledger.policy.opencode.requests import ACTION_ONLY, PERMISSIONS, OpenCodeRequest, unknown_permissions

__all__ = [
    "ACTION_ONLY",
    "PERMISSIONS",
    "OpenCodePolicy",
    "OpenCodeRequest",
    "child_rules",
    "config_files",
    "load_layers",
    "permission_of",
    "unknown_permissions",
]

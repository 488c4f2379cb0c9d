"""The object of the dialect `opencode`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ledger.core.policy import Layer, Policy, PolicySource
from ledger.policy.named_entries import NamedEntry
from ledger.policy.opencode.loader import config_files, load_layers
from ledger.policy.opencode.names import ACTION_ONLY
from ledger.policy.opencode.policy import OpenCodePolicy
from ledger.policy.wildcard_dialect import WildcardDialect


class OpenCodeDialect(WildcardDialect):
    """OpenCode (opencode.md, opencode-zh.md)."""

    name = "opencode"
    options = ("profile", "cwd", "home", "fs", "sandbox_root", "agent", "defaults", "edition", "order", "compat")
    takes_comments = True
    asked_as: ClassVar[Mapping[str, str]] = {"write": "edit"}
    joins_server_names = True

    def compile(self, source: PolicySource) -> Policy:
        return OpenCodePolicy(source)

    def searched(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Path, ...]:
        return config_files(project, environ, home=home)

    def find(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Layer, ...]:
        return load_layers(project, environ, home=home)

    def corrected(self, message: str, source: PolicySource) -> str:
        if source.options.get("edition") == "opencode.md":
            return f"The user rejected permission with feedback: {message}"
        return super().corrected(message, source)

    def named_pattern(self, permission: str, text: str) -> NamedEntry:
        return super().named_pattern(permission, "*" if permission in ACTION_ONLY else text)

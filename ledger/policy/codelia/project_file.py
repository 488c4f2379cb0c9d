"""The rules that a "remember" adds to Codelia's project file, besides its grant (codelia.md 8).

Writing is idempotent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ledger.core.policy import Layer, PolicySource
from ledger.policy.checks import shown
from ledger.policy.codelia.loader import PROJECT_CONFIG, load_config, write_remembered
from ledger.policy.codelia.policy import CodeliaPolicy
from ledger.policy.codelia.remember import not_allowed_yet, remembered_rules
from ledger.policy.codelia.rule import read_layers, rule_text
from ledger.policy.errors import PolicyError


def project_file(source: PolicySource, folder: str | Path | None) -> Path | None:
    """Return the file of the session's own layer, else that of the session's folder; no folder is created."""
    loaded = next((layer.file for layer in reversed(source.layers) if _is_projects(layer)), None)
    if loaded is not None:
        return Path(loaded)
    named = source.options.get("sandbox_root") or source.options.get("cwd") or folder
    return Path(named) / PROJECT_CONFIG if named is not None and Path(named).is_absolute() else None


def _is_projects(layer: Layer) -> bool:
    file = layer.file
    return layer.name == "project" and file is not None and file.startswith("/") and file.endswith(f"/{PROJECT_CONFIG}")


def remember_in(file: Path, source: PolicySource, permission: str, entries: Sequence[str]) -> str | None:
    """Add the rules of granted entries; return them in words, or None where the rules or the file had all of them."""
    rules = not_allowed_yet(remembered_rules(permission, entries), CodeliaPolicy(source).rules.allow)
    if not rules:
        return None
    project = file.parent.parent
    if not project.is_dir():
        # The session may belong to another machine; a folder created here would be no project.
        raise PolicyError(f"there is no folder {shown(str(project))} on this machine", file=str(file))
    allowed = read_layers((load_config(file, strict=False),), strict=False).allow if file.exists() else ()
    new = not_allowed_yet(rules, allowed)
    if not new or not write_remembered(file, new):
        return None
    return f"remembered in `{file}`: {', '.join(map(rule_text, new))}"

"""Loading of `Tool(specifier)` rules: BetCode's files, and Claude Code's settings from their usual locations.

An unreadable file is an error, never a policy without rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ledger.core.policy import Layer
from ledger.policy.checks import RuleOrigin, shown
from ledger.policy.demands import demands_in
from ledger.policy.errors import PolicyError
from ledger.policy.rule_files import parse_document, read_text
from ledger.policy.toolrules.rule import check_config

SECTION: Final = "permissions"
USER_SETTINGS: Final = ".claude/settings.json"
PROJECT_SETTINGS: Final = ".claude/settings.json"
LOCAL_SETTINGS: Final = ".claude/settings.local.json"
MANAGED_SETTINGS: Final = "/etc/claude-code/managed-settings.json"
_IN_THE_PROJECT: Final = ("project", "local")


def load_settings(
    project: str | Path,
    *,
    home: str | None = None,
    flag: str | Path | None = None,
    managed: str | Path = MANAGED_SETTINGS,
    trusted: bool = True,
) -> tuple[Layer, ...]:
    """Return the layers of Claude Code whose files exist, lowest first: user, project, local, flag, managed.

    `flag` is the file of `--settings`, which must then exist. `trusted` concerns the project's folder: without it the
    allow rules of its two files do not count. Raises PolicyError with file and line.
    """
    *own, (highest, last) = settings_files(project, home=home, managed=managed)
    layers = [
        load_tool_rules(path, name=name, trusted=trusted or name not in _IN_THE_PROJECT)
        for name, path in own
        if _is(path)
    ]
    if flag is not None:
        layers.append(load_tool_rules(flag, name="flag"))
    if _is(last):
        layers.append(load_tool_rules(last, name=highest))
    return tuple(layers)


def settings_files(
    project: str | Path, *, home: str | None = None, managed: str | Path = MANAGED_SETTINGS
) -> tuple[tuple[str, Path], ...]:
    """Return the settings files of Claude Code, existing or not, each with the name of its layer, lowest first."""
    folder = Path(project)
    user = (("user", Path(home, USER_SETTINGS)),) if home else ()
    own = ("project", folder / PROJECT_SETTINGS), ("local", folder / LOCAL_SETTINGS)
    return (*user, *own, ("managed", Path(managed)))


def load_tool_rules(
    path: str | Path, *, name: str = "project", trusted: bool = True, content: bytes | None = None
) -> Layer:
    """Return one layer from a file with `{"permissions": {"allow": […], "ask": […], "deny": […]}}`.

    Only that member is kept, so that no key or token of the file reaches the log. A settings file without it has no
    rules. `.jsonc` files may hold comments. `content` is what was read from the file already. Raises PolicyError with file and line.
    """
    file = str(path)
    document = parse_document(file, read_text(file, content), comments=file.endswith(".jsonc"))
    config = _kept(file, document.value)
    lines = {where: line for where, line in document.lines.items() if where.split("/")[1:2] == [SECTION]}
    check_config(config, RuleOrigin(name, file, lines))
    demands = demands_in(document.value, RuleOrigin(name, file, document.lines))
    return Layer(name, config=config, file=file, trusted=trusted, lines=lines, demands=demands)


def _kept(file: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PolicyError(f"{shown(file)} must hold an object with `{SECTION}`", file=file)
    return {SECTION: value.get(SECTION, {})}


def _is(path: Path) -> bool:
    """Return whether a path exists; an inaccessible one counts, so that reading it raises an error."""
    try:
        return path.exists() or path.is_symlink()
    except OSError:
        return True

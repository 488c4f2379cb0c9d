"""Find and read the configuration files of any dialect, through the dialects' own loaders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ledger.core.policy import Layer
from ledger.policy.checks import shown
from ledger.policy.codelia import config_files as codelia_files
from ledger.policy.codelia import load_config, load_layers
from ledger.policy.errors import PolicyError
from ledger.policy.loader import load_rules
from ledger.policy.opencode import config_files as opencode_files
from ledger.policy.opencode import load_layers as load_opencode_layers
from ledger.policy.toolrules.loader import load_settings, load_tool_rules, settings_files

DEFAULT_NAME: Final = "project"
_OPENCODE_FILES: Final = ("opencode.json", "opencode.jsonc")
_BETCODE_FILE: Final = "betcode.json"


def load_layer(dialect: str, path: str | os.PathLike[str], *, name: str = DEFAULT_NAME, strict: bool = True) -> Layer:
    """Return one layer from a file in the dialect's own format.

    `strict=False` accepts rules that only the hardened profile refuses. Raises PolicyError with file and line.
    """
    if dialect == "codelia":
        return load_config(path, name=name, strict=strict)
    if dialect in ("betcode", "claude"):
        return load_tool_rules(Path(path), name=name)
    return load_rules(path, name=name)


def find_layers(
    dialect: str, project: str, environ: Mapping[str, str], *, home: str | None = None
) -> tuple[Layer, ...]:
    """Return the layers that the source's own program would find from the folder `project`, lowest first.

    Raises PolicyError for a file that exists and cannot be read.
    """
    if dialect == "claude":
        return load_settings(project, home=home)
    if dialect == "codelia":
        return load_layers(project, environ, home=home)
    if dialect == "betcode":
        return _existing(dialect, project, (_BETCODE_FILE,))
    if dialect == "opencode":
        return load_opencode_layers(project, environ, home=home)
    if dialect == "brutus":
        return _existing(dialect, project, _OPENCODE_FILES)
    raise PolicyError(f"no files of the dialect {shown(dialect)} are known", key="dialect")


def searched_files(
    dialect: str, project: str, environ: Mapping[str, str], *, home: str | None = None
) -> tuple[str, ...]:
    """Return the files where the source's own program looks for rules, existing or not."""
    if dialect == "claude":
        found = [path for _, path in settings_files(project, home=home)]
    elif dialect == "codelia":
        found = [path for _, path in codelia_files(project, environ, home=home)]
    elif dialect == "opencode":
        found = [*opencode_files(project, environ, home=home)]
    else:
        names = (_BETCODE_FILE,) if dialect == "betcode" else _OPENCODE_FILES
        found = [Path(project, name) for name in names]
    return tuple(dict.fromkeys(map(str, found)))


def _existing(dialect: str, project: str, names: tuple[str, ...]) -> tuple[Layer, ...]:
    paths = (Path(project, name) for name in names)
    return tuple(load_layer(dialect, path) for path in paths if path.exists())

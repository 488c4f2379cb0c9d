"""The paths of configuration files. Only `os` is imported: every command looks for them."""

from __future__ import annotations

import os

FILE = "permission-ledger.toml"
"""The name of a project's file, in a project's folder."""

USER_FILE = "config.toml"
TRUST_FILE = "trusted.json"

SWITCH = "PERMISSION_LEDGER_CONFIG"
"""The variable that, set to `none`, makes a command read no configuration file."""

NONE = "none"


def config_folder() -> str:
    """Return the folder of the user's own configuration: `permission-ledger` in the desktop standard's folder."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - pathlib is slow to import
        base = f"{os.path.expanduser('~')}/.config"  # noqa: PTH111 - as above
    return f"{base}/permission-ledger"


def user_file() -> str:
    """Return the path of the user's own file, which need not exist."""
    return f"{config_folder()}/{USER_FILE}"


def trust_file() -> str:
    """Return the path of the list of trusted files, which need not exist."""
    return f"{config_folder()}/{TRUST_FILE}"


def folders_above(folder: str) -> list[str]:
    """Return the folder and all folders above it, the nearest first."""
    found = [folder]
    while (above := os.path.dirname(found[-1])) != found[-1]:  # noqa: PTH120 - as above
        found.append(above)
    return found


def files_are_read() -> bool:
    return os.environ.get(SWITCH) != NONE


def is_anything_here() -> bool:
    """Return whether a file exists that a command in the working folder has to look at."""
    try:
        here = os.getcwd()  # noqa: PTH109 - as above
    except FileNotFoundError:
        return False
    candidates = [user_file(), trust_file(), *(f"{folder}/{FILE}" for folder in folders_above(here))]
    return any(os.path.lexists(path) for path in candidates)

"""The paths of configuration files. Little is imported: every command looks for them."""

from __future__ import annotations

import os

from workers.transport.trusted import NONE, SWITCH, config_folder, folders_above, trust_file
from workers.transport.trusted import PROJECT_FILE as FILE

__all__ = ["FILE", "config_folder", "files_are_read", "folders_above", "is_anything_here", "trust_file", "user_file"]

USER_FILE = "config.toml"


def user_file() -> str:
    """Return the path of the user's own file, which need not exist."""
    return f"{config_folder()}/{USER_FILE}"


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

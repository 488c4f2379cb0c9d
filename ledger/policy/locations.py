"""The agent's working folder and home directory as options of its rules. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ledger.core.policy import PolicySource

_ROOT: Final = "/"


def placed(source: PolicySource, *, cwd: str | None, home: str | None) -> PolicySource:
    """Return the source with the session's folder and home as options, unless its own options name others.

    A session that works in `/` has no project: every path would be inside it. A home in the project is left out, since
    `~` would then resolve inside the project for every file.
    """
    known = source.options
    if cwd is not None and cwd.rstrip("/") == "":
        cwd = None
    folder = known.get("cwd", cwd)
    if isinstance(folder, str) and home is not None and _is_in(home, folder):
        home = None
    found = {name: value for name, value in (("cwd", cwd), ("home", home)) if value is not None and name not in known}
    return replace(source, options={**known, **found}) if found else source


def _is_in(path: str, folder: str) -> bool:
    base = folder.rstrip("/")
    return path.rstrip("/") == base or path.startswith(f"{base}/")


def home_of(source: PolicySource) -> str | None:
    """Return the home directory by which a placed source judges; None while it is unknown."""
    home = source.options.get("home")
    return home if isinstance(home, str) else None

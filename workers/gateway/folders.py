"""The folders in which an agent that brings no rules may work: those of its token, and that of its session.

Rules about files are relative to the folder of a call. Paths belong to the machine where the calls run, which may be
another machine, so they are compared as text, after `.` and `..` are resolved.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final

from ledger.core.requests import check_folder
from ledger.session.state import SessionState
from workers.gateway.principals import ForbiddenError, Principal

ROOT: Final = "/"


def folder_to_open(principal: Principal, stated: str | None) -> str | None:
    """Return the folder of a session to be opened. Raises ForbiddenError, InputError."""
    folder = check_folder(stated, "working directory")
    if principal.brings_rules or not principal.folders:
        return folder
    if folder is None:
        return principal.folders[0] if len(principal.folders) == 1 else None
    if not _is_in_any(folder, principal.folders):
        raise ForbiddenError(
            f"this token works in {_named(principal.folders)}, not in `{folder}`", folders=list(principal.folders)
        )
    return folder


def require_folder(principal: Principal, state: SessionState, stated: str | None) -> None:
    """Raise ForbiddenError for an ask in a folder outside those of its session and its token."""
    folder = check_folder(stated, "working directory")
    if principal.brings_rules or folder is None or folder == state.cwd:
        return
    own = [] if state.cwd is None or _normal(state.cwd) == ROOT else [state.cwd]
    if not _is_in_any(folder, own) or not _is_in_any(folder, principal.folders or own):
        where = f"works in {_named(own)}" if own else "has no folder"
        raise ForbiddenError(
            f"session `{state.session_id}` {where}, and a call of it cannot run in `{folder}`: this token brings no rules; "
            "open a session with that `cwd`, or leave `cwd` out",
            session=state.session_id,
            folders=own,
        )


def _is_in_any(folder: str, others: Sequence[str]) -> bool:
    path = _normal(folder)
    return any(path == base or path.startswith(f"{base.rstrip('/')}/") for base in map(_normal, others))


def _normal(path: str) -> str:
    """Return an absolute path without `.`, `..` and double slashes, also at the start, where POSIX permits two."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _named(folders: Sequence[str]) -> str:
    return " or ".join(f"`{one}`" for one in folders)

"""Our hooks in a settings file on disk: shown as a diff first, written whole or not at all."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from workers.bridges.errors import BridgeError
from workers.bridges.hook_entries import Settings, events_of_ours


class Change(NamedTuple):
    """What a file says, and what it is to say; `after` None: it goes, since it would say nothing."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        before, after = (self.before or "").splitlines(), (self.after or "").splitlines()
        name = str(self.path)
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))


def planned(path: Path, change: Callable[[Settings], Settings]) -> Change:
    """What `change` makes of a file. Nothing is written. Raises BridgeError for a file that cannot be read as JSON."""
    before = _text(path)
    settings = _parsed(path, before)
    after = change(settings)
    if after == settings:
        return Change(path, before, before)
    return Change(path, before, _written(after, before) if after else None)


def apply(change: Change) -> None:
    """Write beside, then put in place: whoever reads meanwhile finds the old file or the new one. Raises BridgeError."""
    path = change.path.resolve()
    if _text(path) != change.before:
        raise BridgeError(f"`{path}` was changed by somebody else meanwhile; try again")
    try:
        if change.after is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(change.after)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise BridgeError(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}") from error


def installed_in(path: Path, agent: str) -> list[str]:
    """The events for which a file has hooks of ours. Raises BridgeError."""
    return events_of_ours(_parsed(path, _text(path)), agent)


def status(path: Path, agent: str, wanted: Sequence[str] = ()) -> str:
    """One line on whether our hooks stand in a file; `wanted` are the events that should have one."""
    found = installed_in(path, agent)
    if not found:
        return f"{path}: not installed"
    missing = [event for event in wanted if event not in found]
    return f"{path}: installed for {', '.join(found)}" + (f"; missing: {', '.join(missing)}" if missing else "")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BridgeError(f"`{path}` cannot be read: {error}") from error


def _parsed(path: Path, text: str | None) -> dict[str, Any]:
    if text is None or not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BridgeError(
            f"`{path}` is no plain JSON ({error}); put it right first, or, where the agent takes comments in it, write "
            "the hooks there by hand: comments would be lost"
        ) from error
    if not isinstance(found, dict):
        raise BridgeError(f"`{path}` must hold a JSON object")
    return found


def _written(settings: Settings, before: str | None) -> str:
    """In the file's own indentation, so that a diff shows what changed and no more."""
    indent: int | str = 2
    for line in (before or "").splitlines()[1:]:
        margin = line[: len(line) - len(line.lstrip())]
        if margin:
            indent = margin
            break
    return json.dumps(settings, indent=indent, ensure_ascii=False) + "\n"

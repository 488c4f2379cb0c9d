"""Our hooks in a settings file on disk: shown as a diff first, written whole or not at all, undone byte for byte."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from ledger.core.regular_files import read_regular
from ledger.policy.json_edit import comments_in
from ledger.policy.jsonc import JsonSyntaxError
from workers.bridges import hook_text, install_record
from workers.bridges.hook_entries import Entries, Settings, events_of_ours, with_entries, without_entries
from workers.bridges.install_record import InstallRecord
from workers.transport.errors import BridgeError

SETTINGS_BYTES_MAX: Final = 16 * 1024 * 1024


class SettingsChange(NamedTuple):
    """A file's text before and after; None is no file. `record` is the information to undo it."""

    path: Path
    before: str | None
    after: str | None
    record: InstallRecord | None = None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        before, after = (self.before or "").splitlines(), (self.after or "").splitlines()
        name = str(self.path)
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))


def planned(path: Path, agent: str, entries: Entries | None, *, comments: bool = False) -> SettingsChange:
    """Return the change that installs these hooks instead of older ones of ours, or removes all (`entries` None).

    `comments`: the agent accepts comments in its settings. Nothing is written. Raises BridgeError for a file that
    cannot be read as the agent's settings.
    """
    before = read_text(path)
    settings = _settings(path, before, comments=comments)
    wanted = without_entries(settings, agent) if entries is None else with_entries(settings, agent, entries)
    if wanted == settings:
        return SettingsChange(path, before, before, install_record.load(path))
    record = install_record.load(path) if events_of_ours(settings, agent) else None
    created = before is None or (record is not None and record.created)
    bare = "" if before is None else _without_ours(before, agent, record)
    if entries is None:
        return SettingsChange(path, before, None if created and hook_text.is_blank(bare) else bare)
    after, edits = hook_text.installed(bare, agent, entries)
    return SettingsChange(path, before, after, InstallRecord.of(after, edits, created=created))


def apply(change: SettingsChange) -> None:
    """Write beside, then rename: a concurrent reader finds the old file or the new one. Raises BridgeError."""
    if read_text(change.path) != change.before:
        raise BridgeError(f"`{change.path}` was changed by another program meanwhile; try again")
    if change.record is not None:
        install_record.save(change.path, change.record)
    write_text(change.path, change.after)
    if change.record is None:
        install_record.forget(change.path)


def installed_in(path: Path, agent: str) -> list[str]:
    """Return the events for which a file has hooks of ours. Raises BridgeError."""
    return events_of_ours(read_settings(path), agent)


def read_settings(path: Path) -> Settings:
    """Return the settings of an agent. Raises BridgeError."""
    return _settings(path, read_text(path), comments=True)


def status(path: Path, agent: str, wanted: Callable[[Sequence[str]], Sequence[str]] = tuple) -> str:
    """Return one line about our hooks in a file; `wanted` returns the events that need one, given those found."""
    found = installed_in(path, agent)
    if not found:
        return f"{path}: not installed"
    missing = [event for event in wanted(found) if event not in found]
    return f"{path}: installed for {', '.join(found)}" + (f"; missing: {', '.join(missing)}" if missing else "")


def read_text(path: Path) -> str | None:
    """Return a file's text with its own line ends; None without a file. Raises BridgeError."""
    try:
        return read_regular(path, SETTINGS_BYTES_MAX).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BridgeError(f"`{path}` cannot be read: {error}") from error


def write_text(path: Path, text: str | None) -> None:
    """Replace a file atomically, with its permissions; a link stays one. None removes it. Raises BridgeError."""
    target = path.resolve()
    try:
        if text is None:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o600
        descriptor, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            Path(beside).replace(target)
        except BaseException:
            with suppress(OSError):
                Path(beside).unlink()
            raise
    except OSError as error:
        raise BridgeError(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}") from error


def _without_ours(text: str, agent: str, record: InstallRecord | None) -> str:
    """Return the original text if the record holds it and no other hook of ours is there; else remove our hooks."""
    bare = hook_text.removed(text, agent)
    undone = None if record is None else record.undone(text)
    if undone is None:
        return bare
    try:
        found = hook_text.read(undone, comments=True)
    except (JsonSyntaxError, TypeError):
        return bare
    if comments_in(undone) != comments_in(text):
        return bare
    same = hook_text.essence(found) == hook_text.essence(hook_text.read(bare, comments=True))
    return undone if same else bare


def _settings(path: Path, text: str | None, *, comments: bool) -> Settings:
    try:
        return hook_text.read(text or "", comments=comments)
    except JsonSyntaxError as error:
        hint = "the agent accepts no comments in it" if "comments are allowed" in error.text else error.text
        raise BridgeError(f"`{path}`, line {error.line}, is not JSON: {hint}; correct it first") from error
    except TypeError as error:
        raise BridgeError(f"`{path}` must hold a JSON object") from error

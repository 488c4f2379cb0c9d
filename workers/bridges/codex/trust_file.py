"""Our hooks' trust entries in Codex's `config.toml`: removed again, while everything else stays.

Codex writes `[hooks.state."FILE:EVENT:GROUP:HOOK"]` itself, on request; it has no request to remove it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from ledger.policy.json_edit import Edit
from workers.bridges import install_record, settings_file
from workers.bridges.hook_entries import is_ours
from workers.bridges.install_record import InstallRecord
from workers.bridges.settings_file import SettingsChange
from workers.transport.errors import BridgeError

_BY_HAND = 'take its `[hooks.state."…"]` out by hand'


@contextmanager
def remembering(config: Path, hooks: Path) -> Iterator[None]:
    """Record what Codex writes to its configuration about our hooks in the file `hooks` during the block."""
    before = forgetting(config, hooks)
    yield
    after = settings_file.read_text(config)
    if after is not None and after != before.before:
        edit = _difference(before.after or "", after)
        install_record.save(config, InstallRecord.of(after, (edit,), created=before.after is None))


def forgetting(config: Path, hooks: Path) -> SettingsChange:
    """Return the change of Codex's configuration that removes the trust in our hooks of `hooks`. Raises BridgeError."""
    text = settings_file.read_text(config)
    if text is None:
        return SettingsChange(config, None, None)
    found = _parsed(config, text)
    record = install_record.load(config)
    ours = _keys_of_ours(found, hooks, "" if record is None else "".join(edit.inserted for edit in record.edits))
    if not ours:
        return SettingsChange(config, text, text, record)
    undone = None if record is None else record.undone(text)
    if undone is None or _parsed(config, undone) != _without(found, ours):
        undone = _edited(config, text, ours)
    is_gone = record is not None and record.created and not undone.strip()
    return SettingsChange(config, text, None if is_gone else undone)


def _keys_of_ours(config: dict[str, Any], hooks: Path, written: str) -> list[str]:
    """Return the keys of our hooks' trust entries in a file, and those that Codex was seen to write."""
    standing = _places_of_ours(hooks)
    keys = [key for key in _state(config) if Path(key.rsplit(":", 3)[0]).resolve() == hooks.resolve()]
    return [key for key in keys if key.split(":")[-3:] in standing or key in written]


def _places_of_ours(hooks: Path) -> list[list[str]]:
    """Return event, group and hook of each of our hooks, as Codex counts them."""
    found = settings_file.read_settings(hooks).get("hooks")
    lists = found if isinstance(found, dict) else {}
    return [
        [_snake(event), str(group), str(number)]
        for event, entries in lists.items()
        if isinstance(entries, list)
        for group, entry in enumerate(entries)
        for number, hook in enumerate(entry.get("hooks") or () if isinstance(entry, dict) else ())
        if is_ours(hook, "codex")
    ]


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _state(config: dict[str, Any]) -> dict[str, Any]:
    hooks = config.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    return state if isinstance(state, dict) else {}


def _without(config: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """Return the configuration without these keys, and without tables that become empty."""
    kept = deepcopy(config)
    for key in keys:
        del kept["hooks"]["state"][key]
    if not kept["hooks"]["state"]:
        del kept["hooks"]["state"]
    if not kept["hooks"]:
        del kept["hooks"]
    return kept


def _edited(path: Path, text: str, keys: list[str]) -> str:
    try:
        edited = tomlkit.dumps(_without(tomlkit.parse(text), keys))
    except TOMLKitError as error:
        raise BridgeError(f"`{path}` cannot be edited ({error}); {_BY_HAND}") from error
    if _parsed(path, edited) != _without(_parsed(path, text), keys):
        raise BridgeError(f"`{path}` cannot be edited safely; {_BY_HAND}")
    return edited


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise BridgeError(f"`{path}` is not valid TOML: {error}; correct it first") from error


def _difference(before: str, after: str) -> Edit:
    """Return the one edit that turns the first text into the second."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    left = shorter - start
    end = next((at for at in range(left) if before[-1 - at] != after[-1 - at]), left)
    return Edit(start, before[start : len(before) - end], after[start : len(after) - end])

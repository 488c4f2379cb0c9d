"""Codex's trust in our hooks, asked of Codex itself, which silently skips hooks that nobody trusted; and removed again.

Codex writes `[hooks.state."FILE:EVENT:GROUP:HOOK"]` into its `config.toml` itself, on request; it has no request to
remove it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError

from ledger.policy.jsonc import Edit
from workers.bridges import settings_file
from workers.bridges.hook_entries import is_ours
from workers.bridges.settings_file import InstallRecord, SettingsChange
from workers.bridges.stdio import Message, parse
from workers.transport.place import BridgeError

_OUT_BY_HAND: Final = 'take its `[hooks.state."…"]` out by hand'


@contextmanager
def remembering(config: Path, hooks: Path) -> Iterator[None]:
    """Record what Codex writes to its configuration about our hooks in the file `hooks` during the block."""
    before = forgetting(config, hooks)
    yield
    after = settings_file.read_text(config)
    if after is not None and after != before.before:
        edit = _difference(before.after or "", after)
        settings_file.save(config, InstallRecord.of(after, (edit,), created=before.after is None))


def forgetting(config: Path, hooks: Path) -> SettingsChange:
    """Return the change of Codex's configuration that removes the trust in our hooks of `hooks`. Raises BridgeError."""
    text = settings_file.read_text(config)
    if text is None:
        return SettingsChange(config, None, None)
    found = _parsed_config(config, text)
    record = settings_file.load(config)
    ours = _keys_of_ours(found, hooks, "" if record is None else "".join(edit.inserted for edit in record.edits))
    if not ours:
        return SettingsChange(config, text, text, record)
    undone = None if record is None else record.undone(text)
    if undone is None or _parsed_config(config, undone) != _without(found, ours):
        undone = _edited(config, text, ours)
    is_gone = record is not None and record.created and not undone.strip()
    return SettingsChange(config, text, None if is_gone else undone)


def _keys_of_ours(config: dict[str, Any], hooks: Path, written: str) -> list[str]:
    """Return the keys of our hooks' trust entries in a file, and those that Codex was seen to write."""
    standing = _places_of_ours(hooks)
    keys = [key for key in _state(config) if Path(key.rsplit(":", 3)[0]).resolve() == hooks.resolve()]
    return [key for key in keys if key.split(":")[-3:] in standing or key in written]


def _places_of_ours(hooks: Path) -> list[list[str]]:
    found = settings_file.read_settings(hooks).get("hooks")
    lists = found if isinstance(found, dict) else {}
    return [
        [re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower(), str(group), str(number)]
        for event, entries in lists.items()
        if isinstance(entries, list)
        for group, entry in enumerate(entries)
        for number, hook in enumerate(entry.get("hooks") or () if isinstance(entry, dict) else ())
        if is_ours(hook, "codex")
    ]


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
        raise BridgeError(f"`{path}` cannot be edited ({error}); {_OUT_BY_HAND}") from error
    if _parsed_config(path, edited) != _without(_parsed_config(path, text), keys):
        raise BridgeError(f"`{path}` cannot be edited safely; {_OUT_BY_HAND}")
    return edited


def _parsed_config(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise BridgeError(f"`{path}` is not valid TOML: {error}; correct it first") from error


def _difference(before: str, after: str) -> Edit:
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    left = shorter - start
    end = next((at for at in range(left) if before[-1 - at] != after[-1 - at]), left)
    return Edit(start, before[start : len(before) - end], after[start : len(after) - end])


PATIENCE_SECONDS: Final = 30.0
"""The time Codex may take in all; then it is killed."""

_BY_HAND: Final = "trust the hook in Codex by hand: `/hooks`"


def trust_of(path: Path, folder: Path) -> list[str]:
    """Return the trust of each of our hooks in a file, seen from a folder: `trusted`, `untrusted`, `modified` …

    Raises BridgeError when Codex cannot be asked.
    """
    with _codex(folder) as server:
        return [str(hook.get("trustStatus")) for hook in server.ours(path)]


def trust_hooks(path: Path, folder: Path, config: Path) -> None:
    """Make Codex trust our hooks in a file as they are now; Codex keeps that in its file `config`.

    Raises BridgeError when Codex does not accept it.
    """
    with remembering(config, path), _codex(folder) as server:
        ours = server.ours(path)
        if not ours:
            raise BridgeError(f"Codex does not read `{path}` here, as in a folder that it does not trust; {_BY_HAND}")
        value = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in ours}
        edit = {"keyPath": "hooks.state", "value": value, "mergeStrategy": "upsert"}
        server.call("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})
        if {hook.get("trustStatus") for hook in server.ours(path)} != {"trusted"}:
            raise BridgeError(f"Codex did not take it; {_BY_HAND}")


class _Server:
    """Codex's app-server, asked one request at a time."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._count = 0
        self.call("initialize", {"clientInfo": {"name": "permission-ledger", "title": "hooks", "version": "1"}})
        self._say({"method": "initialized"})

    def ours(self, path: Path) -> list[Message]:
        """Return our hooks in a file, as Codex lists them."""
        listed = self.call("hooks/list", {"cwds": [str(self._folder)]})
        hooks = [hook for one in listed.get("data", []) for hook in one.get("hooks", [])]
        return [
            hook
            for hook in hooks
            if is_ours(hook, "codex") and Path(str(hook.get("sourcePath"))).resolve() == path.resolve()
        ]

    def call(self, method: str, params: Message) -> Message:
        """Return the result of a request. Raises BridgeError."""
        self._count += 1
        self._say({"id": self._count, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = parse(line) or {}
            if message.get("id") == self._count and "method" not in message:
                result = message.get("result")
                if isinstance(result, dict):
                    return result
                raise BridgeError(f"Codex refuses `{method}`: {json.dumps(message.get('error'))[:500]}; {_BY_HAND}")
        raise BridgeError(f"Codex ended, or took more than {PATIENCE_SECONDS:g} seconds; {_BY_HAND}")

    def _say(self, message: Message) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise BridgeError(f"Codex ended at once; {_BY_HAND}") from error


@contextmanager
def _codex(folder: Path) -> Iterator[_Server]:
    program = shutil.which("codex")
    if program is None:
        raise BridgeError(f"there is no `codex` on the PATH that could be asked; {_BY_HAND}")
    process = subprocess.Popen(  # noqa: S603 - the user's own program
        [program, "app-server"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    late = threading.Timer(PATIENCE_SECONDS, process.kill)
    late.start()
    try:
        yield _Server(process, folder)
    finally:
        late.cancel()
        process.kill()
        process.communicate()

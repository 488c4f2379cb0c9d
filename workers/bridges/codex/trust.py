"""Codex's trust in our hooks, asked of Codex itself: it silently skips hooks that nobody trusted."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from workers.bridges.codex import trust_file
from workers.bridges.hook_entries import is_ours
from workers.transport.errors import BridgeError

PATIENCE_SECONDS: Final = 30.0
"""The time Codex may take in all; then it is killed."""

_BY_HAND: Final = "trust the hook in Codex by hand: `/hooks`"

Message = dict[str, Any]


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
    with trust_file.remembering(config, path), _codex(folder) as server:
        _trust(server, path)


def _trust(server: _Server, path: Path) -> None:
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
            message = _parsed(line)
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


def _parsed(line: bytes) -> Message:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

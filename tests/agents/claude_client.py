"""The real Claude Code under a test's control: started with or without the bridge, driven as a host drives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.agents.anthropic_model import Model
from tests.support.processes import ROOT
from tests.support.waiting import wait_until

STDIO: Final = (
    "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
    "--permission-prompt-tool", "stdio",
)  # fmt: skip
BRIDGE: Final = (sys.executable, "-m", "workers.cli", "bridge", "claude")
LONG_S: Final = 45.0


class Room:
    """A folder with all files of a client: home, settings, work. Several runs may share it."""

    def __init__(self, folder: Path, program: Path, model: Model, work: Path | None = None) -> None:
        self.folder = folder
        self.program = program
        self.model = model
        self.work = work or folder / "work"
        self.config = folder / "config"
        for path in (self.work, self.config, folder / "home", folder / "tmp"):
            path.mkdir(parents=True, exist_ok=True)
        trusted = {str(self.work): {"hasTrustDialogAccepted": True}}
        (self.config / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True, "projects": trusted}))

    def has_written(self, session: str, text: str) -> bool:
        """Return whether the client's own record of a session, from which it resumes, holds a text."""
        records = self.config.glob(f"projects/*/{session}.jsonl")
        return any(text in record.read_text() for record in records)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder / "home"),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            **more,
        }

    def start(self, *words: str, wrapper: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Client:
        """Start `claude` as a host does, behind `wrapper` if given."""
        command = [*wrapper, *(["--"] if wrapper else []), str(self.program), *STDIO, *words]
        return Client(command, self.work, self.environment(environment or {}))


class Client:
    """A running client, or the bridge around it; its output is kept line by line."""

    def __init__(self, command: Sequence[str], work: Path, environment: dict[str, str]) -> None:
        self.raw: list[bytes] = []
        self.errors: list[bytes] = []
        self._process = subprocess.Popen(
            command,
            cwd=work,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout
        assert self._process.stderr
        self._readers = [
            threading.Thread(target=lambda: self.raw.extend(self._process.stdout or ()), daemon=True),
            threading.Thread(target=lambda: self.errors.extend(self._process.stderr or ()), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.raw)]

    @property
    def session(self) -> str:
        """Return the client's own session id, once it has reported it."""

        def said() -> str:
            found = [one for one in self.messages if one.get("subtype") == "init"]
            return str(found[0]["session_id"]) if found else ""

        return wait_until(said, "the client's session", LONG_S)

    def send(self, message: Any) -> None:
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, line: bytes) -> None:
        assert self._process.stdin
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def say(self, text: str) -> None:
        """Send a message of the user."""
        message = {"role": "user", "content": text}
        self.send({"type": "user", "session_id": "", "parent_tool_use_id": None, "message": message})

    def control(self, control_id: str, **request: Any) -> None:
        self.send({"type": "control_request", "request_id": control_id, "request": request})

    def requests(self) -> list[dict[str, Any]]:
        """The permission requests that reached the host."""
        return [one for one in self.messages if one.get("request", {}).get("subtype") == "can_use_tool"]

    def answer(self, control_id: str, response: Any) -> None:
        told = {"subtype": "success", "request_id": control_id, "response": response}
        self.send({"type": "control_response", "response": told})

    def result(self) -> dict[str, Any]:
        """Return the message that ends a turn."""

        def ended() -> list[dict[str, Any]]:
            found = [one for one in self.messages if one.get("type") == "result"]
            assert found or self._process.poll() is None, b"".join(self.errors).decode()
            return found

        return wait_until(ended, "the end of the turn", LONG_S)[-1]

    def end(self) -> int:
        """Close stdin; return the exit code."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        return self._ended()

    def kill(self, *, whole_group: bool = True) -> None:
        with suppress(ProcessLookupError):
            if whole_group:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def wait(self) -> int:
        return self._ended()

    def close(self) -> None:
        self.kill()
        self._ended()

    def _ended(self) -> int:
        code = self._process.wait(timeout=LONG_S)
        for reader in self._readers:
            reader.join(timeout=LONG_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()
        return code

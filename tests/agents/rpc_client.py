"""Real clients driven line by line under a test's control: behind the bridge or not, as an editor drives them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.support.ends import End, Message
from tests.support.processes import ROOT
from tests.support.waiting import wait_until

LONG_S: Final = 60.0
MODEL: Final = "gpt-5.5"
OPENCODE_OFFLINE: Final = (
    "MODELS_FETCH", "AUTOUPDATE", "SHARE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "PRUNE", "CLAUDE_CODE",
    "EXTERNAL_SKILLS", "EMBEDDED_WEB_UI", "TERMINAL_TITLE",
)  # fmt: skip
CODELIA_MODEL: Final = "kimi-k2.5"


class Home:
    """A folder with all files of a client."""

    def __init__(self, folder: Path, work: Path | None = None) -> None:
        self.folder = folder
        self.work = work or folder / "work"
        for path in (self.work, folder / "home", folder / "tmp"):
            path.mkdir(parents=True, exist_ok=True)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            # After all others the folder of our command, which a hook in a project's settings names.
            "PATH": f"{os.environ['PATH']}:{Path(sys.executable).parent}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "NO_PROXY": "127.0.0.1,localhost",
            **more,
        }

    def gemini(self, url: str, hook: str | None = None) -> dict[str, str]:
        """Write settings for Gemini CLI with the model at `url`; return its environment."""
        kept = self.folder / "home" / ".gemini"
        kept.mkdir(exist_ok=True)
        settings: dict[str, Any] = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "model": {"name": "gemini-2.5-pro"},
            "ide": {"enabled": False},
        }
        if hook is not None:
            entry = {"type": "command", "command": hook, "timeout": 60_000}
            settings["hooks"] = {"BeforeTool": [{"matcher": "*", "hooks": [entry]}]}
        (kept / "settings.json").write_text(json.dumps(settings))
        return self.environment(
            {
                "GEMINI_API_KEY": "none",
                "GOOGLE_GEMINI_BASE_URL": url,
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
                "GEMINI_CLI_NO_RELAUNCH": "true",
                "NODE_NO_WARNINGS": "1",
            }
        )

    def codex(self, url: str, hooks: Any = None, features: Sequence[str] = ()) -> dict[str, str]:
        """Write settings for Codex with the model at `url`, and with its features enabled; return its environment."""
        kept = self.folder / "home" / ".codex"
        kept.mkdir(exist_ok=True)
        (kept / "config.toml").write_text(
            f'model = "{MODEL}"\nmodel_provider = "test"\ncheck_for_update_on_startup = false\n'
            'web_search = "disabled"\n'
            f'[model_providers.test]\nname = "Test"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
            'env_key = "TEST_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
            f'[analytics]\nenabled = false\n[projects."{self.work}"]\ntrust_level = "trusted"\n'
            + "".join(["[features]\n", *(f"{name} = true\n" for name in features)])
        )
        if hooks is not None:
            (kept / "hooks.json").write_text(json.dumps(hooks))
        return self.environment({"CODEX_HOME": str(kept), "TEST_KEY": "none"})

    def codelia(self, url: str) -> dict[str, str]:
        """Write settings for Codelia's runtime with the model at `url` (chat completions); return its environment."""
        kept = self.folder / "home" / ".codelia"
        (kept / "cache").mkdir(parents=True, exist_ok=True)
        limits = {"contextWindow": 200_000, "inputTokens": 200_000, "outputTokens": 8192}
        about = {"provider": "moonshot", "modelId": CODELIA_MODEL, "limits": limits}
        (kept / "config.json").write_text(
            json.dumps({"version": 1, "model": {"provider": "moonshot", "name": CODELIA_MODEL}})
        )
        # The list of models; without it the runtime first reads it from the network.
        known = {"version": 1, "cachedAt": "2026-01-01T00:00:00Z", "expiresAt": "2099-01-01T00:00:00Z"}
        entries = {"moonshot": {CODELIA_MODEL: about}}
        (kept / "cache" / "models.dev.json").write_text(json.dumps({**known, "entries": entries}))
        return self.environment({"MOONSHOT_BASE_URL": url, "MOONSHOT_API_KEY": "none"})

    def opencode(self, url: str) -> dict[str, str]:
        """Write settings for OpenCode with the model at `url`; return its environment."""
        model = {"name": "Scripted", "tool_call": True, "limit": {"context": 200_000, "output": 8192}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {"baseURL": url, "apiKey": "none"},
            "models": {"scripted": model},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
            "model": "test/scripted",
            "small_model": "test/scripted",
            "enabled_providers": ["test"],
            "provider": {"test": provider},
            "permission": {"bash": "ask", "edit": "ask"},
        }
        kept = self.folder / "home" / ".config" / "opencode"
        kept.mkdir(parents=True, exist_ok=True)
        (kept / "opencode.json").write_text(json.dumps(settings))
        if not (self.work / ".git").exists():
            subprocess.run(["git", "init", "-q", "-b", "main"], cwd=self.work, check=True)
        places = {"CONFIG": "home/.config", "DATA": "data", "STATE": "state", "CACHE": "cache"}
        return self.environment(
            {
                "NO_COLOR": "1",
                **{f"XDG_{name}_HOME": str(self.folder / place) for name, place in places.items()},
                **{f"OPENCODE_DISABLE_{name}": "1" for name in OPENCODE_OFFLINE},
            }
        )


class RpcClient:
    """A running client, or the bridge around it."""

    def __init__(self, command: Sequence[str], home: Home, environment: dict[str, str]) -> None:
        self._log = (home.folder / "errors").open("ab")
        self._process = subprocess.Popen(
            command,
            cwd=home.work,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        self.end = End(self._process.stdout, self._process.stdin)
        self._count = 0

    def begin(self, method: str, params: Message) -> int:
        """Send a request; return its id."""
        self._count += 1
        self.end.say({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        return self._count

    def ended(self, rpc_id: int) -> Message:
        """Return the result of a request of ours."""

        def found() -> list[Message]:
            return [one for one in self.end.messages if one.get("id") == rpc_id and "method" not in one]

        [answer, *_] = wait_until(found, f"the end of {rpc_id}; received {self.end.lines[-5:]}", LONG_S)
        assert "result" in answer, answer
        result: Message = answer["result"]
        return result

    def call(self, method: str, params: Message) -> Message:
        return self.ended(self.begin(method, params))

    def received(self, method: str, count: int = 1) -> list[Message]:
        """Return the client's messages of a method, after waiting for at least `count` of them."""

        def found() -> list[Message]:
            return [one for one in self.end.messages if one.get("method") == method]

        return wait_until(
            lambda: found() if len(found()) >= count else [], f"{count} {method}; {self.end.lines[-5:]}", LONG_S
        )

    def said(self, method: str) -> list[Message]:
        return [one for one in self.end.messages if one.get("method") == method]

    def kill(self, *, whole_group: bool = True) -> None:
        with suppress(ProcessLookupError):
            if whole_group:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def close(self) -> None:
        self.kill()
        self._process.wait(LONG_S)
        self.end.close()
        self.end.join()
        assert self._process.stdout
        self._process.stdout.close()
        self._log.close()


def bridge(name: str, *options: str) -> list[str]:
    """Return the words of our bridge, which precede an agent's command."""
    return [sys.executable, "-m", "workers.cli", "bridge", name, *options, "--"]


def hook_settings(agent: str, *words: str) -> Message:
    """Return the output of `bridge AGENT --settings`."""
    program = [sys.executable, "-m", "workers.cli", "bridge", agent, "--settings", *words]
    printed = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: Message = json.loads(printed)
    return found


def hook_command(agent: str, home: Home, environment: Mapping[str, str], *words: str, code: int = 0) -> str:
    """Return the output of `bridge AGENT --install …` for a client with this home."""
    return command(home, environment, "bridge", agent, *words, code=code)


def command(home: Home, environment: Mapping[str, str], *words: str, code: int = 0) -> str:
    """Return the output of one of our commands, run in the client's working folder."""
    done = subprocess.run(
        [sys.executable, "-m", "workers.cli", *words],
        cwd=home.work,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def start_program(words: Sequence[str], home: Home, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a client that is driven by its command line."""
    return subprocess.Popen(
        words,
        cwd=home.work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

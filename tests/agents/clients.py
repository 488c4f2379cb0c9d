"""The real clients that the journeys drive: pinned, and installed into a folder that is kept."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final

from tests.agents.installing import InstallError, NpmClient, SourceClient

OFFLINE_VARIABLE: Final = "PERMISSION_LEDGER_TEST_OFFLINE"
"""Set to 1, clients that are not installed are left out and reported; otherwise they fail their tests."""

FOLDER_VARIABLE: Final = "PERMISSION_LEDGER_TEST_CLIENTS"
"""The variable that names the folder of installed clients; the default is a folder of the user's cache."""

NODE: Final = "node@22.23.3"
"""For clients that want Node.js 22 or newer."""

CLIENTS: Final[dict[str, NpmClient | SourceClient]] = {
    "claude": NpmClient("@anthropic-ai/claude-code", "2.1.330", "claude"),
    # A version still in use: it asks for each call where the newest one starts in mode `auto`.
    "claude-older": NpmClient("@anthropic-ai/claude-code", "2.1.197", "claude"),
    "opencode": NpmClient("opencode-ai", "1.18.33", "opencode", needs=("git",)),
    "opencode-sdk": NpmClient("@opencode-ai/sdk", "1.19.3", None, needs=("node",)),
    "codex": NpmClient("@openai/codex", "0.169.0", "codex"),
    "gemini": NpmClient("@google/gemini-cli", "0.61.0", "gemini", ("node",)),
    "qwen": NpmClient("@qwen-code/qwen-code", "0.24.4", "qwen", beside=(NODE,)),
    "copilot": NpmClient("@github/copilot", "1.0.102", "copilot"),
    "kimi": NpmClient("@moonshot-ai/kimi-code", "2.1.0", "kimi", beside=(NODE,)),
    # Claude Code and Codex as editors speak with them: each adapter brings its agent.
    "claude-acp": NpmClient("@agentclientprotocol/claude-agent-acp", "0.101.0", "claude-agent-acp", beside=(NODE,)),
    "codex-acp": NpmClient("@agentclientprotocol/codex-acp", "2.6.0", "codex-acp", needs=("node",)),
    # No agent: people sign in there.
    "oidc-provider": NpmClient("oidc-provider", "9.13.3", None, beside=(NODE,)),
    # In no registry: its runtime is run from its sources. Without them it is left out and reported.
    "codelia": SourceClient(
        "https://github.com/kousw/codelia",
        "48e27ff086d8a3579ee8935658d5fbcf06b3cb30",
        "0.1.80",
        bun="1.3.9",
        package="@codelia/runtime",
        entry="packages/runtime/src/index.ts",
    ),
}


def clients_folder() -> Path:
    base = os.environ.get(FOLDER_VARIABLE)
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) if base else Path(cache_home) / "permission-ledger" / "clients"


def folder_of(name: str) -> Path:
    return clients_folder() / f"{name}-{CLIENTS[name].version}"


def is_installed(name: str) -> bool:
    """Return whether the pinned version and its requirements are installed."""
    return CLIENTS[name].is_installed(folder_of(name))


@cache
def installed(name: str) -> Path:
    """Return the client's program, installed if needed; fails with the installer's message when that is impossible."""
    client, folder = CLIENTS[name], folder_of(name)
    if not is_installed(name):
        assert not is_offline(), f"{client.label} is not installed, and {OFFLINE_VARIABLE}=1"
        client.install(folder)
    return client.program_in(folder)


def is_offline() -> bool:
    return os.environ.get(OFFLINE_VARIABLE) == "1"


@cache
def why_left_out(name: str) -> str | None:
    """Return why a client's journeys cannot run (not installed, and not installable here), or None when they can."""
    if is_installed(name):
        return None
    if is_offline():
        return f"not installed, and {OFFLINE_VARIABLE}=1"
    if not isinstance(CLIENTS[name], SourceClient):
        return None
    try:
        installed(name)
    except InstallError as error:
        return f"cannot be installed here: {error}"
    return None

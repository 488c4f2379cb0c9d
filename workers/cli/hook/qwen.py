"""`hook qwen`: to try it by hand, and for the settings that run it fast."""

from __future__ import annotations

import os
from pathlib import Path

from workers.bridges.hooks import qwen as hook
from workers.bridges.hooks.settings import LIMIT_SECONDS
from workers.bridges.options import BridgeOptions
from workers.cli.bridge.base import bridge_command
from workers.cli.hook.before_tool import before_tool
from workers.cli.hook.hook_run import limit_option, settings_option
from workers.cli.hook.installation import InstallOptions, install_options


@bridge_command(
    "qwen",
    dialect="opencode",
    examples=(
        "permission-ledger hook qwen --install",
        "permission-ledger hook qwen --uninstall",
        "permission-ledger hook qwen --install --scope project --rules opencode.json",
        "permission-ledger hook qwen --on-unreachable agent",
    ),
)
@limit_option(LIMIT_SECONDS)
@settings_option("~/.qwen/settings.json")
@install_options
def qwen(*, options: BridgeOptions, limit: float, settings: bool, wanted: InstallOptions) -> int:
    """Answer one hook event of Qwen Code: PreToolUse.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    With --install every run of Qwen Code asks.
    """
    return before_tool(hook, settings_path, options, limit, settings=settings, wanted=wanted)


def settings_path(scope: str) -> Path:
    """Return the path of Qwen Code's settings of a scope: `user` or `project`."""
    if scope == "project":
        return Path.cwd() / ".qwen" / "settings.json"
    named = os.environ.get("QWEN_HOME")
    return (Path(named).expanduser() if named else Path.home() / ".qwen") / "settings.json"

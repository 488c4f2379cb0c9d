"""`hook gemini`: to try it by hand, and for the settings that run it fast."""

from __future__ import annotations

import os
from pathlib import Path

from workers.bridges.hooks import gemini as hook
from workers.bridges.hooks.settings import LIMIT_SECONDS
from workers.bridges.options import BridgeOptions
from workers.cli.bridge.base import bridge_command
from workers.cli.hook.before_tool import before_tool
from workers.cli.hook.hook_run import limit_option, settings_option
from workers.cli.hook.installation import InstallOptions, install_options


@bridge_command(
    "gemini",
    dialect="opencode",
    examples=(
        "permission-ledger hook gemini --install",
        "permission-ledger hook gemini --uninstall",
        "permission-ledger hook gemini --install --scope project --rules opencode.json",
        "permission-ledger hook gemini --on-unreachable agent",
    ),
)
@limit_option(LIMIT_SECONDS)
@settings_option("~/.gemini/settings.json")
@install_options
def gemini(*, options: BridgeOptions, limit: float, settings: bool, wanted: InstallOptions) -> int:
    """Answer one hook event of Gemini CLI: BeforeTool.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    With --install every run of Gemini CLI asks.
    """
    return before_tool(hook, settings_path, options, limit, settings=settings, wanted=wanted)


def settings_path(scope: str) -> Path:
    """Return the path of Gemini CLI's settings of a scope: `user` or `project`."""
    named = os.environ.get("GEMINI_CLI_HOME")
    home = Path(named) if named else Path.home()
    return (home if scope == "user" else Path.cwd()) / ".gemini" / "settings.json"

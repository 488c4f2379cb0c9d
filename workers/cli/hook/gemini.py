"""`hook gemini`: for trying it by hand, and for the settings that run it fast."""

from __future__ import annotations

from workers.bridges.hooks import gemini as hook
from workers.bridges.hooks.settings import LIMIT_SECONDS, HookSettings
from workers.bridges.options import Options
from workers.cli.bridge.base import bridge_command
from workers.cli.hook.running import hook_line, limit_option, print_settings, run_hook, settings_option

_MILLISECONDS = 1000


@bridge_command(
    "gemini",
    dialect="opencode",
    examples=(
        "permission-ledger hook gemini --settings",
        "permission-ledger hook gemini --settings --rules opencode.json",
        "permission-ledger hook gemini --on-unreachable agent",
    ),
)
@limit_option(LIMIT_SECONDS)
@settings_option("~/.gemini/settings.json")
def gemini(*, options: Options, limit: float, settings: bool) -> int:
    """Answer one hook event of Gemini CLI: BeforeTool.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    """
    if settings:
        line = hook_line("gemini", options, limit)
        print_settings([hook.EVENT], {"type": "command", "command": line, "timeout": int(limit * _MILLISECONDS)}, "*")
        return 0
    return run_hook(hook.run, HookSettings("opencode"), options, limit)

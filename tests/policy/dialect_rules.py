"""The same rules in all five dialects, and a shell line judged by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ledger.core.policy import Evaluation
from ledger.policy import Call, Layer, PolicySource, compile_policy
from ledger.policy.check_questions import with_facts
from ledger.policy.dialects import dialect_named
from ledger.policy.facts import FileFacts

FOLDER: Final = "/srv/shop"
FIVE: Final = ("betcode", "brutus", "claude", "codelia", "opencode")


def allowing(dialect: str, programs: Sequence[str] = ()) -> dict[str, Any]:
    """Return a configuration that allows these programs, edits and reads; without programs, every command."""
    if dialect in ("claude", "betcode"):
        commands = [f"Bash({one}:*)" for one in programs] or ["Bash"]
        return {"permissions": {"allow": [*commands, "Edit", "Write", "Read"]}}
    if dialect == "codelia":
        rules = [{"tool": "bash", "command": one} for one in programs] or [{"tool": "bash"}]
        return {"permissions": {"allow": rules}}
    bash = {"*": "ask", **{f"{one} *": "allow" for one in programs}} if programs else {"*": "allow"}
    return {"permission": {"bash": bash, "edit": "allow", "read": "allow"}}


def evaluated(
    dialect: str, line: str, config: dict[str, Any], facts: FileFacts | None = None, **options: Any
) -> Evaluation:
    """Return the evaluation of a shell line that runs in `FOLDER`."""
    source = PolicySource(dialect, (Layer("project", config=config),), {"cwd": FOLDER, "home": "/home/ann", **options})
    known = dialect_named(dialect)
    call = Call(known.shell_permission, (), known.language.shell, {"command": line}, FOLDER)
    return with_facts(compile_policy(source), facts).evaluate(call)

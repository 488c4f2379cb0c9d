"""Fuzz the dialects by coverage: `python -m tests.fuzz.fuzz_dialects -max_total_time=300 [CORPUS_FOLDER]`.

Like `fuzz_shell`, for each dialect's verdict on a line. Needs `atheris`; `test_fuzz_dialects.py` makes the same checks.
"""

from __future__ import annotations

import gc
import importlib
import sys
from types import FunctionType
from typing import Any, Final

from ledger.policy import Call, Evaluation, Layer, Policy, PolicySource, Verdict, compile_policy, strictest
from tests.fuzz.fuzz_shell import line_of

DIALECTS: Final = ("ledger.policy.opencode", "ledger.policy.brutus", "ledger.policy.claude", "ledger.policy.betcode")
ANALYSED: Final = (*DIALECTS, "ledger.policy.codelia", "ledger.policy.toolrules", "ledger.policy.shell")
BY_PERMISSION: Final = {
    "permission": {"bash": {"*": "ask", "ls *": "allow", "git *": "allow", "echo *": "allow", "rm *": "deny"}}
}
BY_TOOL: Final = {
    "permissions": {
        "allow": ["Bash(ls *)", "Bash(git *)", "Bash(echo *)", "Read(src/**)"],
        "deny": ["Bash(rm *)", "Edit(/etc/**)", "Read(.env)"],
    }
}
BY_WORD: Final = {
    "permissions": {
        "allow": [
            {"tool": "bash", "command": "ls"},
            {"tool": "bash", "command_glob": "git *"},
            {"tool": "bash", "command": "echo"},
        ],
        "deny": [{"tool": "bash", "command": "rm"}],
    }
}
RULES: Final[dict[str, Any]] = {
    "opencode": BY_PERMISSION,
    "brutus": BY_PERMISSION,
    "claude": BY_TOOL,
    "betcode": BY_TOOL,
    "codelia": BY_WORD,
}
STRICTNESS: Final = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


def compiled(dialect: str, profile: str) -> Policy:
    options = {"profile": profile, "cwd": "/repo", "home": "/home/user", "fs": {}}
    return compile_policy(PolicySource(dialect, (Layer("project", config=RULES[dialect]),), options))


POLICIES: Final = {dialect: (compiled(dialect, "faithful"), compiled(dialect, "hardened")) for dialect in RULES}


def evaluated(policy: Policy, line: str) -> Evaluation:
    tool = "Bash" if policy.source.dialect in ("betcode", "claude") else "bash"
    return policy.evaluate(Call(tool, (), tool, {"command": line}, "/repo"))


def check(line: str) -> None:
    """Check the properties that hold for every line in every dialect. Raises AssertionError."""
    for dialect, (faithful, hardened) in POLICIES.items():
        found = evaluated(hardened, line)
        assert not looser(found.verdict, evaluated(faithful, line).verdict), f"{dialect}: hardened is never looser"
        assert found.verdict is not Verdict.DENY or found.message, f"{dialect}: a denial has a message"
        assert not looser(found.verdict, strictest(part.verdict for part in found.parts)), f"{dialect}: parts count"
        if found.verdict is Verdict.ALLOW:
            # Only then is the line complete, so that the addition is a command of its own.
            more = evaluated(hardened, line + "\nrm x").verdict
            assert more is not Verdict.ALLOW, f"{dialect}: adding a denied command never stays allowed"


def looser(one: Verdict, other: Verdict) -> bool:
    return STRICTNESS.index(one) < STRICTNESS.index(other)


def main() -> None:
    atheris: Any = importlib.import_module("atheris")
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and str(found.__module__).startswith(ANALYSED):
            atheris.instrument_func(found)
    atheris.Setup(sys.argv, lambda data: check(line_of(data)))
    atheris.Fuzz()


if __name__ == "__main__":
    main()

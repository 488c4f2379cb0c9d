"""The file that an installed hook names: whatever fails in it blocks the call."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from workers.bridges.hooks import run

FAILURES: Final = {
    "no agent": ((), ""),
    "an unknown agent": (("nobody",), ""),
    "an unknown option": (("claude", "--no-such", "option"), "{}"),
    "no JSON": (("claude",), "PreToolUse"),
    "an unknown event": (("qwen",), '{"hook_event_name": "Unheard"}'),
}


def test_every_failure_ends_in_exit_code_2_and_without_an_answer() -> None:
    assert run.__file__ is not None
    wrong = {}
    for what, (words, event) in FAILURES.items():
        command = [sys.executable, "-I", run.__file__, *words]
        done = subprocess.run(command, input=event, capture_output=True, text=True, check=False, timeout=60)
        if (done.returncode, done.stdout) != (2, "") or "so the tool does not run" not in done.stderr:
            wrong[what] = done
    assert wrong == {}

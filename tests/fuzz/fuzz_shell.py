"""Fuzz the shell analysis by coverage: `python -m tests.fuzz.fuzz_shell -max_total_time=300 [CORPUS_FOLDER]`.

Needs `atheris`, which is not among the locked packages; `test_fuzz_shell.py` checks the same without it.
Add findings to `tests/data/policy/shell_fuzz.json`.
"""

from __future__ import annotations

import gc
import importlib
import sys
import time
from types import FunctionType
from typing import Any, Final

from ledger.core.policy import Evaluation, Verdict
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.lexer import lex
from tests.policy.shell.simple_rules import ROOT, SimpleRules, verdict

ANALYSER: Final = "ledger.policy.shell"
CHECK_SECONDS_MAX: Final = 10.0
ALLOW: Final = ["prefix ls", "prefix git status", "prefix rg", "glob echo *", "prefix timeout"]
DENY: Final = ["prefix rm", "prefix git push --force"]
PIECES: Final = (
    *["ls ", "rm ", "git ", "git push ", "--force ", "echo ", "sudo ", "timeout 5 ", "a", "x=1 ", "-", "/", "1", "é"],
    *[" ", "\t", "\n", ";", "&", "&&", "|", "||", "|&", ">", "<", ">&", "2>", "<<A\n", "\nA\n", "<<<", "<(", "$(", ")"],
    *[
        "`",
        "${",
        "}",
        "{",
        "(",
        "((",
        "))",
        "[[ ",
        " ]]",
        "$",
        "'",
        '"',
        "$'",
        "\\",
        "\\\n",
        "#",
        "=",
        "!",
        "*",
        "?",
        "[",
    ],
    *["if ", "; then ", "; fi", "for x in ", "; do ", "; done", "case ", " in ", ";; ", "esac", "eval ", "sh -c ", "~"],
)
"""The piece of shell that each byte of a fuzzer's input stands for: pieces get further than single letters."""


def line_of(data: bytes) -> str:
    """Return a line for the input: half of the inputs are read as pieces, the others as text."""
    if data[:1] < b"\x80":
        return "".join(PIECES[byte % len(PIECES)] for byte in data[1:])
    return data[1:].decode("utf-8", "surrogateescape")


def check(line: str) -> None:
    """Check the properties that hold for every line. Raises AssertionError."""
    began = time.perf_counter()
    analysis = analyse(line)
    assert analysis.plain is (analysis.reason is None), "a line that is not plain has a reason"
    assert analysis.plain <= (lex(line).plain or analysis.flow is not None), "only our own readers make a line plain"
    if not analysis.plain:
        allowed = hardened(line, Evaluation(Verdict.ALLOW), SimpleRules(ALLOW, DENY), ROOT)
        assert allowed.verdict is not Verdict.ALLOW or analysis.redirects_only, "only plain lines are allowed"
    before = verdict(line, ALLOW, DENY)
    if before is Verdict.ALLOW:
        names = {command.words[0].resolved for command in analysis.commands if command.words}
        assert "rm" not in names, "what is denied is never allowed"
        assert verdict(line + "\nrm x", ALLOW, DENY) is not Verdict.ALLOW, "adding a denied part never loosens"
    assert time.perf_counter() - began < CHECK_SECONDS_MAX, "a line is judged in bounded time"


def main() -> None:
    atheris: Any = importlib.import_module("atheris")
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and str(found.__module__).startswith(ANALYSER):
            atheris.instrument_func(found)
    atheris.Setup(sys.argv, lambda data: check(line_of(data)))
    atheris.Fuzz()


if __name__ == "__main__":
    main()

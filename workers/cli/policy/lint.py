"""`policy lint`: mistakes in rules."""

from __future__ import annotations

import os

import msgspec

from ledger.core.limits import POLICY_BYTES
from ledger.core.regular_files import read_regular
from ledger.policy.dialect import Dialect
from ledger.policy.errors import PolicyError
from ledger.policy.lint import LintFinding, lint_rules, lint_text
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput, talk
from workers.cli.policy.explain import compiled_here
from workers.cli.policy.options import Choices, policy_command


@policy_command(
    "lint",
    examples=(
        "permission-ledger policy lint --config opencode.json",
        "permission-ledger policy lint --dialect claude --json",
    ),
)
def lint(*, choices: Choices, as_json: bool) -> int:
    """Find rules that never decide, are lifted or not honoured, and names and keys that mean nothing.

    Without --config and --layer the files are those that the source's own program finds here; the files that were read
    are named on stderr. The exit code is 11 when anything was found, and 12 when there is no file to read.
    """
    output = CommandOutput(as_json=as_json)
    files = _files(choices)
    found = _findings(choices, files)
    if as_json:
        output.rows(msgspec.to_builtins(one) for one in found)
    for one in () if as_json else found:
        output.line(f"{_place(one)}: {one.severity}: {one.text} [{one.code}]")
        output.line(f"  {one.fix}")
    talk(f"read: {', '.join(files)}")
    if not found and not as_json:
        output.line("nothing is wrong with these rules")
    return Exit.FINDINGS if found else Exit.DONE


def _place(found: LintFinding) -> str:
    return f"{found.file}:{found.line}" if found.file and found.line else found.file or "-"


def _files(choices: Choices) -> list[str]:
    """Return the files to check: those typed, or those where the source's program looks."""
    if choices.has_files:
        return choices.files
    found = [place for place in choices.places() if os.path.lexists(place)]
    if not found:
        raise choices.no_files()
    return found


def _findings(choices: Choices, files: list[str]) -> list[LintFinding]:
    found = [one for file in files for one in lint_text(choices.spoken, _read(file), file)]
    if choices.has_files and any(one.severity == "error" for one in found):
        return found
    try:
        policy = choices.policy(quiet=True)
    except PolicyError as problem:
        if isinstance(problem.__cause__, OSError):
            raise
        broken = _broken(choices.spoken, problem)
        return found if broken in found else [*found, broken]
    return found + lint_rules(policy, compiled_here)


def _broken(dialect: Dialect, problem: PolicyError) -> LintFinding:
    """Return a finding for an unusable file."""
    file, line = problem.data.get("file"), problem.data.get("line")
    if isinstance(file, str):
        better = [one for one in lint_text(dialect, _read(file), file) if one.severity == "error"]
        if better:
            return better[0]
    return LintFinding(
        file, line, "invalid", "error", str(problem), "correct it; until then nothing starts with this file"
    )


def _read(file: str) -> str:
    try:
        return read_regular(file, POLICY_BYTES).decode("utf-8-sig", "replace")
    except (OSError, ValueError) as error:
        cause = (getattr(error, "strerror", None) or str(error)).lower()
        raise PolicyError(f"`{file}` cannot be read: {cause}", file=file) from error

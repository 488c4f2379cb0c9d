"""Checks of a file before it is parsed as rules, and of unknown members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from ledger.core.policy import Layer, PolicySource
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import dialect_of
from ledger.policy.jsonc import JsonSyntaxError, parse, pointer
from ledger.policy.lint.findings import LintFinding
from ledger.policy.lint.names import ALIKE


def lint_text(dialect: Dialect, text: str, file: str) -> list[LintFinding]:
    """Return the problems of a file before it is parsed as rules: invalid syntax and unknown sections."""
    try:
        document = parse(text, comments=dialect.language.takes_comments or file.endswith(".jsonc"))
    except JsonSyntaxError as problem:
        return [_syntax(text, file, problem)]
    section = dialect.language.section
    if not isinstance(document.value, dict) or section in document.value:
        return []
    return [
        LintFinding(file, document.lines.get(pointer(name)), "unknown-key", "warning",
            f"`{name}` is not read by {dialect.name}, so its rules are ignored", f"rename it to `{section}`")
        for name in get_close_matches(section, document.value, n=1, cutoff=ALIKE)
    ]  # fmt: skip


def _syntax(text: str, file: str, problem: JsonSyntaxError) -> LintFinding:
    try:
        parse(text, comments=True)
    except JsonSyntaxError:
        return LintFinding(file, problem.line, "syntax", "error", problem.text, "write valid JSON")
    what = "a comma after the last member, or a comment,"
    dropped = f"{what} makes programs silently ignore this file and all its rules"
    return LintFinding(file, problem.line, "trailing-comma", "error", dropped, "take it out")


def no_rules(source: PolicySource) -> LintFinding:
    """Return the finding for a configuration without rules."""
    file = next((layer.file for layer in source.layers if layer.file), None)
    text = f"there is no rule here, so {source.dialect} decides everything by itself"
    return LintFinding(
        file, None, "no-rules", "warning", text, f"write rules under `{dialect_of(source).language.section}`"
    )


def unknown_members(dialect: Dialect, layer: Layer) -> Iterator[LintFinding]:
    """Find members beside the rules that the dialect does not read."""
    known = dialect.language.members
    section: Any = layer.config.get("permissions") if isinstance(layer.config, Mapping) else None
    if not known or not isinstance(section, Mapping):
        return
    for name in section:
        if name not in known:
            near = get_close_matches(str(name), known, n=1, cutoff=ALIKE)
            fix = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{one}`' for one in known)}"
            line = layer.lines.get(pointer("permissions", str(name)))
            text = f"`permissions` has no member `{name}`, so its content is ignored"
            yield LintFinding(layer.file, line, "unknown-key", "warning", text, fix)

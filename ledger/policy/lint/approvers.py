"""Demands for several approvers that nobody can meet."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.policy import Layer
from ledger.policy.lint.findings import LintFinding, joined


def too_few_named(layer: Layer) -> Iterator[LintFinding]:
    """Find demands that name fewer people than must approve: their calls are never allowed."""
    for index, demand in enumerate(layer.demands):
        people = {name.casefold(): name for name in demand.among}
        if demand.approvers is None or not people or len(people) >= demand.approvers:
            continue
        text = (
            f"{demand.approvers} people must approve `{demand.permission}` `{demand.pattern}`, and `among` names "
            f"{len(people)} ({joined(list(people.values()))}): no such call is ever allowed"
        )
        line = layer.lines.get(f"/demands/{index}")
        yield LintFinding(layer.file, line, "too-few-approvers", "error", text, "name more people, or demand fewer")

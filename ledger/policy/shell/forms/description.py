"""A normal form in words and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.policy.shell.forms.nodes import Given, NormalForm, OperandKind
from ledger.policy.shell.forms.reduction import form_of


def form_json(form: NormalForm | None) -> dict[str, Any] | None:
    """Return a form as a JSON object, its options ordered by name; None for a program without a table."""
    if form is None:
        return None
    inner = form_of(form.inner) if form.inner is not None else None
    return {
        "program": form.program,
        "path": list(form.path),
        "options": [_option_json(one) for one in _sorted(form.options)],
        "operands": [{"text": one.text, "kind": one.kind.value, "known": one.is_known} for one in form.operands],
        "means": sorted(form.means),
        "unclear": [{"text": one.text, "reason": one.reason} for one in form.unclear],
        **({} if form.inner is None else {"runs": form.inner.text, "inner": form_json(inner)}),
    }


def _option_json(given: Given) -> dict[str, Any]:
    return {"name": given.name, "effect": given.effect.value, "value": given.value}


def _sorted(given: Sequence[Given]) -> list[Given]:
    return sorted(given, key=lambda one: one.name)


def form_text(form: NormalForm) -> str:
    """Return a form as one line: program, sub-commands, options by name, and operands by kind."""
    words = [form.program, *form.path, *(_option_text(one) for one in _sorted(form.options))]
    kinds: dict[OperandKind, list[str]] = {}
    for one in form.operands:
        kinds.setdefault(one.kind, []).append(one.text)
    told = [
        f"{kind.value} {' '.join(f'`{text}`' for text in texts)}"
        for kind, texts in kinds.items()
        if kind is not OperandKind.PROGRAM or form.inner is None
    ]
    if form.inner is not None:
        told.append(f"runs `{form.inner.text}`")
    if form.means:
        told.append(f"means {' '.join(sorted(form.means))}")
    return "; ".join([" ".join(words), *told])


def _option_text(given: Given) -> str:
    return given.name if given.value is None else f"{given.name}={given.value}"

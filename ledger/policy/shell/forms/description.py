"""A normal form in words and as JSON, and the contents of a program's table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ledger.policy.shell.forms.model import Given, NormalForm
from ledger.policy.shell.forms.nodes import Effect, OperandKind, ProgramNode
from ledger.policy.shell.forms.programs import program_table
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


class Covered(msgspec.Struct, frozen=True):
    """The contents of a program's or sub-command's table: options by effect, kinds of operands, names of sub-commands.

    The counts include everything below. `spelled` is true if only a rule that names the command allows it, `whole` if
    only a rule that spells the whole command does.
    """

    program: str
    version: str
    options: dict[str, list[str]]
    operands: str | None
    commands: tuple[str, ...]
    options_count: int
    commands_count: int
    spelled: bool = False
    whole: bool = False


def covered(words: Sequence[str]) -> Covered | None:
    """Return the contents of the table of a program, or of the sub-command that the words name; None if unknown."""
    top = program_table(words[0]) if words else None
    node, names = top, [top.name] if top is not None else []
    for word in words[1:]:
        if top is None or node is None or (node := _below(top, node, word)) is None:
            return None
        names.append(node.name)
    if top is None or node is None:
        return None
    options: dict[str, list[str]] = {}
    for option in {one.name: one for one in node.options.values()}.values():
        options.setdefault(option.effect.value, []).append(option.name)
    effects = [one.value for one in Effect]
    return Covered(
        " ".join(names),
        top.version,
        {effect: sorted(options[effect]) for effect in effects if effect in options},
        _operands_text(node),
        tuple(sorted({one.name for one in node.commands.values()})),
        _options_count(node) + sum(map(_options_count, _all_commands(node))),
        sum(1 for _ in _all_commands(node)),
        node.spell,
        node.always,
    )


def _options_count(node: ProgramNode) -> int:
    return len({one.name for one in node.options.values()})


def _below(top: ProgramNode, node: ProgramNode, word: str) -> ProgramNode | None:
    """Return the sub-command with any of its names, following `same`."""
    found = node.commands.get(word.lower() if node.caseless else word)
    if found is None or not found.same:
        return found
    target: ProgramNode | None = top
    for name in found.same:
        target = target.commands.get(name) if target is not None else None
    return target


def _operands_text(node: ProgramNode) -> str | None:
    kinds = node.operands
    if kinds is None:
        return None
    many = [f"{kinds.many.value}*"] if kinds.many else []
    return " ".join([*(one.value for one in kinds.first), *many, *(one.value for one in kinds.last)])


def _all_commands(node: ProgramNode) -> Iterator[ProgramNode]:
    """Yield the sub-commands of a program at any depth, each once."""
    for one in {id(below): below for below in node.commands.values()}.values():
        yield one
        yield from _all_commands(one)

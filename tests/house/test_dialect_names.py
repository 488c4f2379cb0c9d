"""A dialect is asked through its object: no module outside its folder and the registry compares its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from typing import Final

import pytest

from ledger.policy.dialects import DIALECTS
from tests.house.sources import PACKAGES, files, nodes_of

NAMES: Final = frozenset({*DIALECTS, "own"})
HOMES: Final = (
    "ledger/policy/dialects.py",
    *(f"ledger/policy/{name}{rest}" for name in sorted(NAMES) for rest in ("/*", ".py")),
)

# Not comparisons of dialects, each with its reason.
EXCEPTIONS: Final = {
    "workers/bridges/hook_entries.py": "the agent's name in the line of its hook",
    "workers/bridges/hooks/run.py": "names of hooks, one for each agent",
    "workers/bridges/hooks/settings.py": "a hook imports no ledger; its agent, Claude Code, reads rules of two dialects",
    "workers/bridges/options.py": "a bridge imports no ledger; a test holds its table against the registry",
    "workers/cli/bridge.py": "names of commands, one for each agent; Claude Code reads rules of two dialects",
    "workers/cli/hook.py": "names of commands, one for each agent; Claude Code reads rules of two dialects",
    "workers/gateway/principals.py": "a channel: OpenCode's own routes",
}


def names_compared(nodes: Sequence[ast.AST]) -> list[int]:
    """Return the lines that compare a dialect's name: by operator, pattern, collection or key."""
    constants = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    compared = (value for node in nodes for value in _compared(node, constants))
    return sorted({value.lineno for value in compared if _is_name(value)})


def _compared(node: ast.AST, constants: dict[str, ast.expr]) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            for value in (node.left, *node.comparators):
                yield constants.get(value.id, value) if isinstance(value, ast.Name) else value
        case ast.MatchValue():
            yield node.value
        case ast.Tuple() | ast.List() | ast.Set():
            yield from node.elts
        case ast.Dict():
            yield from (key for key in node.keys if key is not None)
        case _:
            pass


def _is_name(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in NAMES


@pytest.mark.parametrize(
    "text",
    [
        'dialect == "codelia"',
        '"claude" != dialect',
        'dialect in ("betcode", "claude")',
        'dialect in {"betcode"}',
        'TABLE = {"opencode": 1}',
        'TOOL_RULES = ("betcode", "claude")',
        'match dialect:\n    case "brutus":\n        pass',
        'NAME: str = "codelia"\nsource.dialect == NAME',
    ],
)
def test_each_way_to_compare_a_name_is_seen(text: str) -> None:
    assert names_compared(list(ast.walk(ast.parse(text)))) != []


def test_a_name_that_is_only_given_is_no_comparison() -> None:
    assert names_compared(list(ast.walk(ast.parse('PolicySource("codelia", layers=())\nname = "claude"\n')))) == []


def test_no_module_but_the_registry_and_the_dialects_own_compares_a_dialect_by_name() -> None:
    checked = [file for file in files(*PACKAGES) if not any(fnmatch(file, home) for home in HOMES)]
    found = {file: lines for file in checked if (lines := names_compared(nodes_of(file)))}
    assert {file: lines for file, lines in found.items() if file not in EXCEPTIONS} == {}
    assert sorted(EXCEPTIONS) == sorted(file for file in EXCEPTIONS if file in found)

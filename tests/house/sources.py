"""The project's own files and their contents, for the rules of this folder."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("ledger", "projections", "workers")
WRITTEN: Final = (*PACKAGES, "tests", "bench", "examples", "docs", "scripts", ".ci", ".")


def files(*folders: str, suffix: str = ".py") -> list[str]:
    """Return the paths below the folders, relative to the checkout, in order. A rule about no file is a failure."""
    paths = (path for folder in folders for path in _below(ROOT / folder) if path.name.endswith(suffix))
    found = sorted(path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts)
    assert found, f"no file ends in `{suffix}` below {', '.join(folders)}"
    return found


def _below(folder: Path) -> Iterator[Path]:
    """Yield all files; of the checkout's root only the top level, since its other folders are not project files."""
    return (path for path in (folder.iterdir() if folder == ROOT else folder.rglob("*")) if path.is_file())


def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def tree_of(file: str) -> ast.Module:
    tree = ast.parse(text_of(file), file)
    # All trees together are two million objects that stay: a collection after any later test would look at each of them.
    gc.freeze()
    return tree


@cache
def nodes_of(file: str) -> list[ast.AST]:
    return list(ast.walk(tree_of(file)))


def module_of(file: str) -> str:
    """`ledger/policy/__init__.py` is the module `ledger.policy`."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports_of(file: str) -> list[tuple[int, str]]:
    """Return line and dotted name of every import of a file, `from a import b` as `a` and as `a.b`."""
    package = module_of(file).split(".")
    if not file.endswith("__init__.py"):
        package.pop()
    found: list[tuple[int, str]] = []
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found += [(node.lineno, base), *((node.lineno, f"{base}.{name.name}") for name in node.names)]
    return found


def names_used(file: str) -> list[tuple[int, str]]:
    """Return line and full dotted name of every reference in a file, aliases resolved: `t.sleep` is `time.sleep`."""
    meaning: dict[str, str] = {}
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            meaning |= {
                n.asname or n.name.partition(".")[0]: n.name if n.asname else n.name.partition(".")[0]
                for n in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            meaning |= {n.asname or n.name: f"{node.module}.{n.name}" for n in node.names}
    return [
        (node.lineno, name)
        for node in nodes_of(file)
        if isinstance(node, ast.Attribute | ast.Name) and (name := _dotted(node, meaning))
    ]


def _dotted(node: ast.expr, meaning: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return meaning.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value, meaning)):
        return f"{before}.{node.attr}"
    return None


def strings_in(file: str) -> list[tuple[int, str]]:
    """Return line and text of every string, the fixed parts of f-strings included."""
    return [
        (node.lineno, node.value)
        for node in nodes_of(file)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


@cache
def written_tests() -> frozenset[str]:
    """Return the names of all tests."""
    return frozenset(name for file in files("tests") for name in re.findall(r"def (test_\w+)\(", text_of(file)))


def shown_by(page: str) -> set[str]:
    """Return the tests that a page cites as evidence."""
    return set(re.findall(r"`(test_\w+)`", text_of(page)))

"""Globs of the shell against patterns of rules: where a file may match both, they meet."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.policy.matching import (
    UNKNOWN,
    compile_normalised,
    ignore_glob,
    ignore_meets,
    ignore_reaches,
    is_glob,
    wildcard_meets,
)

NAMES: Final = tuple("".join(one) for length in range(1, 5) for one in product("ae./", repeat=length))
pieces = st.lists(st.sampled_from(["a", "e", ".", "/", "*", "?", "[ae]"]), min_size=1, max_size=5).map("".join)


def shell_matches(glob: str, path: str) -> bool:
    """Return whether bash expands the glob to this path: name by name; a leading dot is matched by a dot alone."""
    names, parts = path.split("/"), glob.split("/")
    return len(names) == len(parts) and all(map(_name_matches, parts, names))


def _name_matches(glob: str, name: str) -> bool:
    if name.startswith(".") and not glob.startswith("."):
        return False
    return re.fullmatch(glob.replace(".", r"\.").replace("*", ".*").replace("?", "."), name) is not None


@given(pattern=pieces, glob=pieces)
def test_a_wildcard_and_a_glob_that_one_path_matches_meet(pattern: str, glob: str) -> None:
    matches = compile_normalised(pattern)
    common = [name for name in NAMES if matches(name) and shell_matches(glob, name)]
    assert not common or "[" in pattern or wildcard_meets(pattern, glob)


@given(pattern=pieces, glob=pieces)
def test_a_pattern_of_gitignore_and_a_glob_that_one_name_matches_meet(pattern: str, glob: str) -> None:
    matches = ignore_glob(pattern)
    plain = [name for name in NAMES if name.strip("/") == name and "//" not in name]
    last = [name for name in plain if matches(name) and shell_matches(glob, name)]
    # A folder that a wildcard alone reaches counts for patterns of folders only.
    direct = [name for name in last if not matches(name.rpartition("/")[0] or "\0")]
    assert not direct or ignore_meets(pattern)(glob)


@pytest.mark.parametrize(
    ("pattern", "glob", "meet"),
    [
        (".env", ".e*", True),
        (".env", "?env", True),
        (".env", "*", False),
        (".env", "src/*.ts", False),
        (".env", "**/*.ts", False),
        (".env", f"{UNKNOWN}v", True),
        (".env", f"{UNKNOWN}.ts", False),
        ("*.pem", "*", True),
        ("*.pem", "src/*/a.ts", False),
        ("secret/**", "sec*/key", True),
        ("secret/**", "**/key", True),
        ("secret/**", f"{UNKNOWN}/key", True),
        ("!x", "*", False),
        ("**", "*", True),
    ],
)
def test_a_glob_meets_what_it_may_become(pattern: str, glob: str, meet: bool) -> None:
    assert ignore_reaches(pattern)(glob) is meet


def test_what_is_longer_than_a_path_meets_everything() -> None:
    assert wildcard_meets("a" * 5_000, "*")
    assert is_glob("a*")
    assert not is_glob("a")

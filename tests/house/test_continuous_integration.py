"""Continuous integration starts from a machine on which nothing is installed."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Final

import pytest

from tests.house.sources import ROOT

RUN: Final = (ROOT / ".ci/run").read_text()
PARTS: Final = re.findall(r"^(?:\w+=\S+ )?part (\S+) (.+)$", RUN, re.MULTILINE)
BROUGHT: Final = ("chromium", "redis-server", "node", "npm")


def test_the_two_commands_of_the_readme_come_first_and_on_a_bare_machine() -> None:
    commands = re.findall(r"^(make \w+) +#", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands == ["make demo", "make test"]
    assert PARTS[0] == ("stranger", f"scripts/as-a-stranger sh -c '{' && '.join(commands)}'")
    assert RUN.index(PARTS[0][1]) < RUN.index("scripts/ci-tools")


def test_no_slow_part_is_in_the_gate() -> None:
    names = [name for name, _ in PARTS]
    assert names == ["stranger", "check", "tools", "stores"]
    assert not any(name in RUN for name in ("make test-all &", "make site", "make packages", "slow or"))


@pytest.mark.slow
def test_a_stranger_has_nothing_of_what_is_brought_and_nothing_of_this_shell() -> None:
    look = "pwd; ls -A $HOME; env | cut -d= -f1 | sort; " + "; ".join(f"command -v {name}" for name in BROUGHT)
    done = subprocess.run(
        [ROOT / "scripts/as-a-stranger", "sh", "-c", f"{look}; git log -1 --format=%H; exit 7"],
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SECRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7, "a failure of its command is its exit code"
    head = subprocess.run(["git", "log", "-1", "--format=%H"], cwd=ROOT, capture_output=True, text=True, check=True)
    folder, *names, commit = done.stdout.split()
    assert folder.endswith("/clone")
    assert names == ["HOME", "LANG", "PATH", "PWD"]
    assert commit == head.stdout.strip()


def test_what_make_starts_keeps_bytecode_even_where_the_shell_forbids_it() -> None:
    done = subprocess.run(
        ["make", "--eval=shown: ; @env", "shown"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "KEPT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.partition("=")[0] for line in done.stdout.splitlines()]
    assert "KEPT" in names
    assert "PYTHONDONTWRITEBYTECODE" not in names

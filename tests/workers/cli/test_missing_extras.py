"""Without an extra, every command names the extra that it needs and the command to install it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from ledger.core import extras
from ledger.core.extras import PACKAGES
from ledger.stores.embedded import stop
from tests.support.bare_python import python_without
from tests.support.command_line import ROOT
from tests.support.processes import environment_without_settings

NOTIFY: Final = """
[[people]]
name = "ann"
services = ["ntfy://example.com/topic"]
"""


class Bare:
    """Runs commands in an environment without any extra."""

    def __init__(self, python: Path, home: Path) -> None:
        self.home = home
        self.python = python
        self.environment: Mapping[str, str] = {
            **environment_without_settings(),
            "PERMISSION_LEDGER_HOME": str(home / "data"),
            "HOME": str(home),
        }

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, "-P", *words],
            cwd=self.home,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **environment: str) -> tuple[int, str, str]:
        with self.start(*words, **environment) as process:
            out, err = process.communicate(timeout=60)
            return process.returncode, out, err


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_without(tmp_path_factory.mktemp("bare") / "venv", *PACKAGES)


@pytest.fixture
def bare(python: Path, tmp_path: Path) -> Iterator[Bare]:
    yield Bare(python, tmp_path)
    stop(tmp_path / "data")


@pytest.fixture
def bare_with_server(tmp_path: Path) -> Iterator[Bare]:
    python = python_without(tmp_path / "venv", *(extra for extra in PACKAGES if extra != "embedded"))
    yield Bare(python, tmp_path)
    stop(tmp_path / "data")


def told(extra: str) -> str:
    return f'needs the extra `{extra}`: pip install "{ROOT}[{extra}]"'


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("gateway", ["serve"]),
        ("gateway", ["up", "--listen", "127.0.0.1:0"]),
        ("notify", ["worker", "notifier", "--config", "notify.toml"]),
        ("notify", ["up", "--notify", "notify.toml"]),
        ("mcp", ["bridge", "claude", "--prompt-tool"]),
    ],
    ids=lambda one: one if isinstance(one, str) else " ".join(one),
)
def test_a_command_names_the_extra_that_it_needs(bare: Bare, extra: str, words: list[str]) -> None:
    (bare.home / "notify.toml").write_text(NOTIFY)
    code, out, err = bare.run("-m", "workers.cli", *words)
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(told(extra))
    assert (code, out) == (12, "")


def test_a_command_with_json_names_the_extra_in_json(bare: Bare) -> None:
    code, _, err = bare.run("-m", "workers.cli", "pending", "--json", PATH="/nowhere", PERMISSION_LEDGER_SERVER="")
    error = json.loads(err)
    assert (code, error["code"]) == (12, "NO_SERVER")
    assert f"an embedded server {told('embedded')}" in error["error"]


def test_sealing_names_the_extra_that_it_needs(bare: Bare) -> None:
    words = ("archive", "--to", str(bare.home / "archive"), "--url", "memory://bare")
    code, out, err = bare.run("-m", "workers.cli", *words)
    assert (code, out) == (12, "")
    assert err.splitlines()[-1] == f"error: an archive {told('archive')}"


@pytest.mark.parametrize(
    ("extra", "program"),
    [
        (
            "claude-sdk",
            "from workers.bridges.claude.sdk import ledger_can_use_tool; ledger_can_use_tool()",
        ),
        (
            "langgraph",
            "from ledger.guarding.langgraph import asks_ledger; asks_ledger(None)",
        ),
    ],
)
def test_a_library_function_names_the_extra_that_it_needs(bare: Bare, extra: str, program: str) -> None:
    code, _, err = bare.run("-c", program)
    assert code == 1
    assert err.splitlines()[-1] == f"ledger.core.errors.MissingExtraError: this {told(extra)}"


@pytest.mark.slow
def test_up_runs_without_the_gateway_and_says_so(bare_with_server: Bare) -> None:
    with bare_with_server.start("-m", "workers.cli", "up") as up:
        assert up.stdout is not None
        assert up.stderr is not None
        said = ""
        for line in up.stdout:
            said += line
            if "Ctrl-C ends it" in line:
                break
        assert f"  gateway    not started: it {told('gateway')}\n" in said
        up.send_signal(signal.SIGINT)
        assert up.wait(timeout=60) == 0
        assert up.stderr.read() == ""


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        ('{"url": "file:///srv/wheels/p.whl"}', 'pip install "permission-ledger[push] @ file:///srv/wheels/p.whl"'),
        ('{"url": "ssh://git@host/p.git"}', 'pip install "permission-ledger[push] @ ssh://git@host/p.git"'),
        (None, 'pip install "permission-ledger[push] @ file:///PATH/OF/ITS/WHEEL"'),
    ],
)
def test_an_installed_program_is_installed_again_from_where_it_came_and_from_no_index(
    origin: str | None, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, _name: str) -> str | None:
            return origin

    monkeypatch.setattr(extras, "__file__", str(tmp_path / "site-packages" / "ledger" / "core" / "extras.py"))
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())
    assert extras.install_command("push") == line

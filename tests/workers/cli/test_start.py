"""The modules that a command imports before it does anything: they are most of the time that a short one takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import ledger
import ledger.policy
from ledger.policy.dialects import DIALECTS
from tests.support.command_line import CommandLine
from tests.support.processes import ROOT, environment_without_settings
from tests.support.servers import RealServer
from workers.cli import COMMANDS
from workers.cli.policy import COMMANDS as OF_POLICY

KNOWS_SERVERS: Final = ("doctor", "server-user")
"""Commands that look into a server in other ways than the ledger does."""

DIALECT_MODULES: Final = frozenset(type(dialect).__module__ for dialect in DIALECTS.values())

PROGRAM: Final = """
import atexit, sys
atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
sys.argv = ["permission-ledger", *sys.argv[1:]]
from workers.cli import main
main()
"""


def imported_by(*words: str, **environment: str) -> set[str]:
    """Return the modules that a command has imported at its end."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=ROOT,
        env={**environment_without_settings(), "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(ran.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["completion", "bash"]], ids=" ".join)
def test_what_says_nothing_of_a_ledger_imports_neither_the_ledger_nor_redis(words: list[str]) -> None:
    assert imported_by(*words) & {"redis", "ledger", "msgspec", "asyncio"} == set()


def test_the_completion_of_a_command_imports_neither_the_ledger_nor_redis() -> None:
    variables = {"COMP_WORDS": "permission-ledger re", "COMP_CWORD": "1"}
    found = imported_by(_PERMISSION_LEDGER_COMPLETE="bash_complete", **variables)
    assert found & {"redis", "ledger", "msgspec", "asyncio"} == set()


OF_HELP: Final = """
import sys
from workers.cli import main
heavy, seen = set(sys.argv[1].split()), set()
for words in sys.argv[2:]:
    sys.argv = ["permission-ledger", *words.split(), "--help"]
    main()
    came = heavy & set(sys.modules) - seen
    seen |= came
    if came:
        print(words, "imports", *came, file=sys.stderr)
"""
"""A program that says which command's help is the first that imports a heavy module."""


@pytest.mark.parametrize(
    ("commands", "heavy"),
    [
        ([one for one in COMMANDS if one not in KNOWS_SERVERS], "redis hiredis"),
        ([f"policy {one}" for one in OF_POLICY if one != "stored"], "redis ledger.client.ledger ledger.session"),
    ],
    ids=["every command", "commands about rules"],
)
def test_the_help_of_a_command_imports_no_client(commands: list[str], heavy: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OF_HELP, heavy, *commands], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    assert ran.stdout.count("Usage: permission-ledger ") == len(commands)


def test_rules_are_judged_without_a_client() -> None:
    assert imported_by("policy", "shell", "ls") & {"redis", "ledger.client.ledger"} == set()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["sessions"], ["log", "--all"], ["streams"], ["approved"], ["doctor"]], ids=" ".join)
def test_what_only_reads_imports_no_rules(server: RealServer, words: list[str]) -> None:
    found = imported_by(*words, PERMISSION_LEDGER_URL=server.url)
    assert "ledger.client.ledger" in found
    assert found & {"ledger.policy.shell", "ledger.session.decide", *DIALECT_MODULES} == set()


@pytest.mark.parametrize("words", [["pending"], ["show", "ses_1"], ["reply", "per_1", "once"]], ids=" ".join)
def test_what_describes_no_call_reads_no_shell_lines(server: RealServer, words: list[str]) -> None:
    found = imported_by(*words, PERMISSION_LEDGER_URL=server.url)
    assert "ledger.client.ledger" in found
    assert found & {"ledger.policy.shell", "ledger.session.would_run.description"} == set()


def test_an_answer_that_was_given_already_imports_no_rules(server: RealServer) -> None:
    url = {"PERMISSION_LEDGER_URL": server.url}
    line = CommandLine(server.url)
    line("ask", "ses_1", "bash", "make", "--id", "per_1", "--no-wait", code=7)
    line("reply", "per_1", "once", code=0)
    found = imported_by("reply", "per_1", "once", **url)
    assert "ledger.client.session" in found
    judging = {"ledger.policy.shell", "ledger.client.policies", "ledger.session.decide", *DIALECT_MODULES}
    assert found & judging == set()


def test_who_asks_imports_the_dialect_of_the_rules_alone(server: RealServer, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps([{"permission": "bash", "pattern": "*", "action": "allow"}]))
    asked = ("ask", "ses_1", "bash", "ls", "--rules", str(rules), "--dialect", "brutus")
    found = imported_by(*asked, PERMISSION_LEDGER_URL=server.url)
    assert found & DIALECT_MODULES == {"ledger.policy.brutus"}


def test_an_allowed_ask_at_the_embedded_server_imports_no_redis(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps([{"permission": "bash", "pattern": "*", "action": "allow"}]))
    asked = ("ask", "ses_1", "bash", "git status", "--rules", str(rules))
    found = imported_by(*asked, PERMISSION_LEDGER_HOME=str(tmp_path / "home"))
    assert "ledger.policy.shell" in found
    assert "redis" not in found


def test_importing_the_package_imports_nothing_of_it() -> None:
    program = "import sys, ledger, json; print(json.dumps([one for one in sys.modules if one.startswith('ledger.')]))"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == []


@pytest.mark.parametrize("package", [ledger, ledger.policy], ids=["ledger", "ledger.policy"])
def test_every_public_name_is_found_where_it_is_said_to_be(package: Any) -> None:
    assert sorted(package._MODULE_OF) == sorted(package.__all__)
    for name, module in package._MODULE_OF.items():
        assert getattr(package, name) is getattr(sys.modules[module], name)
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute `Leger`"):
        package.Leger  # noqa: B018

"""`verify --judge`: recorded verdicts judged again, counted as same, different or not decidable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

import pytest
import redis

from tests.support.command_line import CommandLine
from tests.support.folders import make_project
from tests.support.forging import Payload, forge
from tests.support.processes import ROOT
from tests.support.servers import RealServer
from tests.workers.cli.filling import names

AGENTS: Final = ROOT / "tests" / "data" / "agents"


@pytest.fixture
def ledger(server: RealServer) -> CommandLine:
    return CommandLine(server.url)


def ask_in(ledger: CommandLine, project: Path, path: str) -> None:
    rules = project / "opencode.json"
    rules.write_text(json.dumps({"permission": {"*": "ask", "read": "allow"}}))
    asked = json.dumps({"filePath": path})
    ledger("ask", "ses_1", "--tool", "read", "--input", asked, "--rules", rules, "--cwd", project, "--no-wait")


def test_verdicts_are_the_same_when_the_folder_is_gone(ledger: CommandLine, tmp_path: Path) -> None:
    project = make_project(tmp_path.resolve() / "base")
    for path in ("a.ts", "innocent.txt", "out/key"):
        ask_in(ledger, project, path)
    shutil.rmtree(project)
    ran = ledger("verify", "ses_1", "--judge", "--json", code=0)
    counts = {name: ran.rows[0]["judged"][name] for name in ("different", "not_decidable")}
    assert counts == {"different": 0, "not_decidable": 0}
    assert ran.rows[0]["judged"]["same"] >= 3
    assert "0 different, 0 not decidable" in ran.err


def test_a_verdict_that_its_rules_do_not_give_is_found(ledger: CommandLine, server: RealServer, tmp_path: Path) -> None:
    project = make_project(tmp_path.resolve() / "base")
    ask_in(ledger, project, "out/key")
    with redis.Redis.from_url(server.url) as intruder:
        (key,) = names(intruder, "*}:s:ses_1")
    forge(server.url, key, allowed)
    assert all(row["ok"] for row in ledger("verify", "ses_1", "--json", code=0).rows)
    ran = ledger("verify", "ses_1", "--judge", "--json", code=11)
    [event] = ran.rows[0]["judged"]["events"]
    assert event["result"] == "different"
    assert event["reason"] == "the verdict with the deciders' opinions was `allow`, and is `ask` judged again"
    told = ledger("verify", "ses_1", "--judge", code=11)
    assert "different: session ses_1, version 2 (asked " in told.out
    assert "1 different, 0 not decidable" in told.err


def allowed(payload: Payload) -> None:
    """Record an ask as allowed, in a stream that is rewritten whole."""
    if payload["event"]["type"] == "asked":
        payload["event"]["verdict"] = "allow"

"""The steps of `docs/guides/run-for-a-team.md` without containers: its commands unchanged, as real processes."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.journeys.processes import ROOT, Process
from tests.support.command_line import CommandLine
from tests.support.processes import free_port
from tests.support.servers import RealServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

GUIDE: Final = (ROOT / "docs" / "guides" / "run-for-a-team.md").read_text()


def commands_below(heading: str) -> list[list[str]]:
    """Return the `permission-ledger` lines of a section, as the words that a shell would pass on."""
    section = GUIDE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = [text for kind, text in re.findall(r"```(\w*)\n(.*?)```", section, re.DOTALL) if kind == "sh"]
    inline = re.findall(r"`(permission-ledger [a-z][^`]*--[^`]*)`", section)
    lines = [line for block in blocks for line in block.splitlines()] + inline
    return [shlex.split(line)[1:] for line in lines if line.startswith("permission-ledger ")]


def block_below(heading: str, kind: str) -> str:
    """Return the first block of a kind in a section: a file that the guide shows."""
    found = re.search(rf"```{kind}\n(.*?)```", GUIDE.split(f"\n## {heading}\n")[1], re.DOTALL)
    assert found is not None
    return found[1]


class Team:
    """A server, an empty home, and the processes that the guide starts."""

    def __init__(self, url: str, home: Path) -> None:
        self.home = home
        self.environment = {
            "PERMISSION_LEDGER_HOME": str(home / "data"),
            "HOME": str(home),
            "PERMISSION_LEDGER_URL": url,
        }
        self.run = CommandLine(url, self.environment)
        self.port = free_port()

    def typed(self, words: list[str]) -> list[str]:
        """Return the words with this machine's port, and with files in this home."""
        files = {"opencode.json", "notify.toml", "archive", "ledger.jsonl", "heads.jsonl"}
        here = [str(self.home / word) if word in files else word for word in words]
        return [word.replace("127.0.0.1:8420", f"127.0.0.1:{self.port}") for word in here]

    def start(self, words: list[str]) -> Process:
        # apprise imports a module that is deprecated; the same filter stands in pyproject.toml.
        warnings = {"PYTHONWARNINGS": "error,ignore:'imghdr' is deprecated:DeprecationWarning"}
        return Process(["-m", "workers.cli", *self.typed(words)], {**self.environment, **warnings})


@pytest.fixture
def team(server: RealServer, tmp_path: Path) -> Team:
    team = Team(server.url, tmp_path)
    (tmp_path / "opencode.json").write_text(block_below("1. Start it", "json"))
    (tmp_path / "notify.toml").write_text(block_below("4. Tell people", "toml"))
    return team


def test_every_command_of_the_guide_runs_and_the_gateway_it_starts_is_found(team: Team) -> None:
    started = commands_below("1. Start it")
    assert [words[0] for words in started] == ["up"]
    with ExitStack() as stack:
        running = [team.start(words) for words in started]
        for process in running:
            stack.callback(process.close)
        (whole,) = running
        whole.wait_for_word("signs one browser in")
        workers = {"expiry", "projector", "indexer", "archiver", "gateway", "notifier"}
        assert {line.split()[0] for line in whole.said if " worker, process " in line} == workers
        wait_until((team.home / "data" / "gateway.json").exists, "the gateway to be announced")
        assert team.run("inbox", code=0).out.startswith("https://permits.example.com/sign-in?code=")
        tokens(team)
        export = next(words for words in commands_below("6. Back it up") if words[0] == "export")
        team.run(*team.typed(export), code=0)
        wait_until(lambda: "git push" in team.run("search", "push").out, "the search, from the first minute")
        assert team.run("status", code=0).out.startswith("permission-ledger is up, at a terminal, since ")
        assert whole.end() == 0
        assert [line for process in running for line in process.complained if " error " in line] == []


def tokens(team: Team) -> None:
    """Run section 3, and check the rights of its tokens at the gateway."""
    create_ann, create_ci, create_auditor, listing, revoke = commands_below("3. Hand out tokens")
    made = {words[2]: team.run(*words, code=0).out.strip() for words in (create_ann, create_ci, create_auditor)}
    address = f"http://127.0.0.1:{team.port}"
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {made['ci']}"}) as ci:
        assert ci.put("/v1/sessions/ses_1", json={}).status_code == 201
        rm = ci.post("/v1/sessions/ses_1/asks", json={"permission": "bash", "patterns": ["rm -rf /"]}).json()
        assert rm["outcome"] == "denied", "the rules of the guide judge"
        push = {"permission": "bash", "patterns": ["git push"], "request_id": "r1"}
        assert ci.post("/v1/sessions/ses_1/asks", json=push).json()["outcome"] is None
        assert ci.post("/v1/sessions/ses_1/asks/r1/reply", json={"reply": "once"}).status_code == 403
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {made['ann']}"}) as ann:
        assert ann.post("/v1/sessions/ses_1/asks/r1/reply", json={"reply": "once"}).json()["outcome"] == "allowed"
    metrics = httpx.get(f"{address}/metrics", headers={"Authorization": f"Bearer {made['prometheus']}"})
    assert metrics.status_code == 200
    rows = [json.loads(line) for line in team.run(*listing, "--json", code=0).out.splitlines()]
    ann_id = next(row["token_id"] for row in rows if row["name"] == "ann")
    team.run(*[ann_id if word == "tok_…" else word for word in revoke], code=0)
    refused = httpx.get(f"{address}/v1/me", headers={"Authorization": f"Bearer {made['ann']}"})
    assert refused.status_code == 401


def test_every_metric_of_the_guide_is_served(team: Team) -> None:
    page = (ROOT / "docs" / "guides" / "monitoring.md").read_text()
    named = set(re.findall(r"^\| `(permission_ledger_\w+)", page, re.MULTILINE))
    assert len(named) > 10
    with ExitStack() as stack:
        gateway = team.start(commands_below("1. Start it")[0])
        stack.callback(gateway.close)
        gateway.wait_for_word("signs one browser in")
        token = team.run("token", "create", "prometheus", "--role", "auditor", code=0).out.strip()
        text = httpx.get(f"http://127.0.0.1:{team.port}/metrics", headers={"Authorization": f"Bearer {token}"}).text
    served = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert named <= served | {f"{name}_total" for name in served}

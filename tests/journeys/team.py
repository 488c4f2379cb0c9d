"""The steps of `docs/guides/run-for-a-team.md` without containers: its commands unchanged, as real processes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx

from tests.journeys.newcomers import Newcomer, blocks
from tests.journeys.processes import ROOT, Process
from tests.support.command_line import CommandLine
from tests.support.processes import free_port
from tests.support.waiting import wait_until

GUIDE: Final = (ROOT / "docs" / "guides" / "run-for-a-team.md").read_text()


def section(heading: str) -> str:
    return GUIDE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def commands_below(heading: str) -> list[list[str]]:
    """Return the `permission-ledger` lines of a section, as the words that a shell would pass on."""
    text = section(heading)
    inline = re.findall(r"`(permission-ledger [a-z][^`]*--[^`]*)`", text)
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()] + inline
    return [shlex.split(line)[1:] for line in lines if line.startswith("permission-ledger ")]


class Team:
    """Somebody who sets a team's ledger up in their project, on a server of the team."""

    def __init__(self, person: Newcomer, url: str) -> None:
        self.person = person
        self.run = CommandLine(url, {**person.run.environment, "PERMISSION_LEDGER_URL": url}, person.project)
        self.port = free_port()
        for name, heading, kind in (
            ("opencode.json", "1. Start it", "json"),
            ("notify.toml", "4. Tell people", "toml"),
        ):
            (person.project / name).write_text(blocks(section(heading), kind)[0])

    @contextmanager
    def up(self) -> Iterator[Process]:
        """Start what the guide starts, on a port of this machine."""
        (words,) = commands_below("1. Start it")
        assert words[0] == "up"
        typed = [word.replace("127.0.0.1:8420", f"127.0.0.1:{self.port}") for word in words]
        # apprise imports a module that is deprecated; the same filter stands in pyproject.toml.
        warnings = {"PYTHONWARNINGS": "error,ignore:'imghdr' is deprecated:DeprecationWarning"}
        whole = Process(["-m", "workers.cli", *typed], {**self.run.environment, **warnings}, self.person.project)
        try:
            whole.wait_for_word("signs one browser in")
            yield whole
        finally:
            whole.close()

    def walk(self, whole: Process) -> str:
        """Walk the rest of the guide; return the name of the session that it makes."""
        workers = {"expiry", "projector", "indexer", "archiver", "gateway", "notifier"}
        assert {line.split()[0] for line in whole.said if " worker, process " in line} == workers
        wait_until((self.person.data / "gateway.json").exists, "the gateway to be announced")
        assert self.run("inbox", code=0).out.startswith("https://permits.example.com/sign-in?code=")
        session = f"ses_{self.person.project.name}"
        self._tokens(session)
        self.run(*next(words for words in commands_below("6. Back it up") if words[0] == "export"), code=0)
        assert session in (self.person.project / "ledger.jsonl").read_text()
        wait_until(lambda: session in self.run("search", "push", "--json").out, "the search, from the first minute")
        assert self.run("status", code=0).out.startswith("permission-ledger is up, at a terminal, since ")
        return session

    def _tokens(self, session: str) -> None:
        """Run section 3, and check the rights of its tokens at the gateway."""
        create_ann, create_ci, create_auditor, listing, revoke = commands_below("3. Hand out tokens")
        made = {words[2]: self.run(*words, code=0).out.strip() for words in (create_ann, create_ci, create_auditor)}
        address, asks = f"http://127.0.0.1:{self.port}", f"/v1/sessions/{session}/asks"
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {made['ci']}"}) as ci:
            assert ci.put(f"/v1/sessions/{session}", json={}).status_code == 201
            rm = ci.post(asks, json={"permission": "bash", "patterns": ["rm -rf /"]}).json()
            assert rm["outcome"] == "denied", "the rules of the guide judge"
            push = {"permission": "bash", "patterns": ["git push"], "request_id": "r1"}
            assert ci.post(asks, json=push).json()["outcome"] is None
            assert ci.post(f"{asks}/r1/reply", json={"reply": "once"}).status_code == 403
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {made['ann']}"}) as ann:
            assert ann.post(f"{asks}/r1/reply", json={"reply": "once"}).json()["outcome"] == "allowed"
        metrics = httpx.get(f"{address}/metrics", headers={"Authorization": f"Bearer {made['prometheus']}"})
        assert metrics.status_code == 200
        rows = [json.loads(line) for line in self.run(*listing, "--json", code=0).out.splitlines()]
        (ann_id,) = [row["token_id"] for row in rows if made["ann"].startswith(f"plt_{row['token_id']}_")]
        self.run(*[ann_id if word == "tok_…" else word for word in revoke], code=0)
        refused = httpx.get(f"{address}/v1/me", headers={"Authorization": f"Bearer {made['ann']}"})
        assert refused.status_code == 401

"""The steps of `docs/guides/first-hour.md`, from an empty home to an answer on a phone-sized page."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from ledger.stores.embedded import stop
from tests.journeys.processes import ROOT, Process
from tests.support.browsers import chromium
from tests.support.command_line import CommandLine
from tests.support.processes import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

GUIDE: Final = (ROOT / "docs" / "guides" / "first-hour.md").read_text()
CONSOLE: Final = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
PHONE: Final[dict[str, Any]] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
ARGUMENTS: Final = ["--no-sandbox", "--disable-dev-shm-usage"]
"""Chromium's sandbox cannot be had by root, whom containers and continuous integration run as."""

VARYING: Final = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
    (r"[\w-]+@[\w-]+", "USER"),
    (r"process \d+", "PROCESS"),
    (r"(?:redis|valkey) [\d.]+", "SERVER"),
    (r"plt_tok_[\w-]+", "CODE"),
    (r"127\.0\.0\.1:\d+", "GATEWAY"),
    (r" {2,}", "  "),
)
"""The parts of the output that differ from run to run."""


class Newcomer:
    """Somebody with an empty home and an empty project."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "ann"
        self.project = self.home / "shop"
        self.project.mkdir(parents=True)
        self.data = self.home / ".local" / "share" / "permission-ledger"
        self.environment = {"HOME": str(self.home), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}
        self.run = CommandLine("", self.environment, self.project)

    def start(self, *words: str) -> Process:
        program = f"import os, sys, workers.cli; os.chdir({str(self.project)!r}); sys.exit(workers.cli.main())"
        return Process(["-c", program, *words], self.environment)

    def masked(self, text: str) -> list[str]:
        for pattern, name in ((re.escape(str(self.home)), "/home/ann"), *VARYING):
            text = re.sub(pattern, name, text)
        return [line.strip() for line in text.splitlines() if line.strip()]

    def agrees(self, block: str, output: str) -> None:
        """Check that a block of the guide is this output; `…` stands for lines that it leaves out."""
        wanted, told = self.masked(block), self.masked(output)
        left = [line for line in wanted if line != "…" and not line.startswith("$ ")]
        for line in left:
            assert line in told, f"the guide has `{line}`, the program printed:\n{output}"
            told = told[told.index(line) + 1 :]

    def hook(self) -> str:
        """Return the line that Claude Code runs before a tool, as `init` installed it."""
        settings = json.loads((self.project / ".claude" / "settings.local.json").read_text())
        line: str = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
        return line

    def call(self) -> str:
        (shown,) = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
        return str(shown).replace("/home/ann/shop", str(self.project))


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    newcomer = Newcomer(tmp_path)
    yield newcomer
    stop(newcomer.data)


@pytest.fixture
def phone() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_context(**PHONE).new_page()
        page.set_default_timeout(30_000)
        yield page
        browser.close()


def test_from_an_empty_home_to_an_answer_on_a_phone(newcomer: Newcomer, phone: Page) -> None:
    init, up, link, answer, log = CONSOLE
    newcomer.agrees(init, newcomer.run("init", "--agent", "claude", "--yes", code=0).out)

    running = newcomer.start("up", "--listen", f"127.0.0.1:{free_port()}")
    try:
        running.wait_for_word("Ctrl-C ends it")
        newcomer.agrees(up, "".join(running.said))
        wait_until((newcomer.data / "gateway.json").exists, "the gateway to be announced", 60)

        printed = newcomer.run("inbox", "--role", "approver", "--as", "phone", code=0).out
        newcomer.agrees(link, printed)
        phone.goto(printed.strip())
        phone.get_by_role("button", name="Sign in on this browser").tap()
        expect(phone.get_by_text("live", exact=True)).to_be_visible(timeout=30_000)

        with subprocess.Popen(
            ["sh", "-c", newcomer.hook()],
            cwd=newcomer.project,
            env=newcomer.run.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as agent:
            assert agent.stdin
            agent.stdin.write(newcomer.call())
            agent.stdin.close()
            card = phone.locator("article.card", has_text="git push origin main")
            expect(card).to_be_visible(timeout=30_000)
            button = card.get_by_role("button", name="Allow once", exact=True)
            button.scroll_into_view_if_needed()
            button.tap()
            assert agent.wait(timeout=60) == 0
            assert agent.stdout
            newcomer.agrees(answer, agent.stdout.read())
        wait_until(lambda: "claimed" in newcomer.run("log", "first-hour").out, "the claim of the call")
        newcomer.agrees(log, newcomer.run("log", "first-hour", code=0).out)
    finally:
        running.end()
        running.close()

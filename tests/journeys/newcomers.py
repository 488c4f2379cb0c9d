"""Somebody with an empty home who follows the guides to the letter, and a phone in their hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page, expect, sync_playwright

from tests.journeys.processes import ROOT
from tests.support.browsers import chromium
from tests.support.command_line import CommandLine
from tests.support.service_manager import put_manager
from tests.support.terminals import on_a_terminal
from tests.support.waiting import wait_until

README: Final = (ROOT / "README.md").read_text()
GUIDE: Final = (ROOT / "docs" / "guides" / "first-hour.md").read_text()
PHONE: Final[dict[str, Any]] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
ARGUMENTS: Final = ["--no-sandbox", "--disable-dev-shm-usage"]
"""Chromium's sandbox cannot be had by root, whom containers and continuous integration run as."""

VARYING: Final = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
    (r"[\w-]+@[\w-]+", "USER"),
    (r"plt_tok_[\w-]+", "CODE"),
    (r"127\.0\.0\.1:\d+", "GATEWAY"),
    (r"\b(try|hour)-\d+", "FRESH"),
    (rf"{re.escape(str(Path(sys.executable).parent))}/", ""),
    (r" {2,}", "  "),
)
"""The parts of the output that differ from run to run."""


def blocks(page: str, kind: str) -> list[str]:
    """Return the blocks of a kind in a page."""
    return re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)


class Newcomer:
    """Somebody with a home and a project in it, whose shell finds the command."""

    def __init__(self, home: Path, project: str = "shop") -> None:
        self.home = home
        self.project = home / project
        self.project.mkdir(parents=True)
        self.data = home / ".local" / "share" / "permission-ledger"
        programs = home / "bin"
        programs.mkdir(exist_ok=True)
        put_manager(programs)
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {"HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "PATH": path}
        self.run = CommandLine("", {**variables, "PERMISSION_LEDGER_URL": ""}, self.project)

    @contextmanager
    def shell(self, script: str) -> Iterator[subprocess.Popen[str]]:
        """Run a script in the project, beside the test."""
        process = subprocess.Popen(
            ["sh", "-ec", script],
            cwd=self.project,
            env=self.run.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def masked(self, text: str) -> list[str]:
        for pattern, name in (
            (re.escape(str(self.project)), "/home/ann/shop"),
            (re.escape(str(self.home)), "/home/ann"),
            *VARYING,
        ):
            text = re.sub(pattern, name, text)
        return [line.strip() for line in text.splitlines() if line.strip()]

    def agrees(self, block: str, output: str) -> None:
        """Check that a block of the guide is this output; `…` stands for lines that it leaves out."""
        wanted, told = self.masked(block), self.masked(output)
        left = [line for line in wanted if line != "…" and not line.startswith("$ ")]
        for line in left:
            assert line in told, f"the guide has `{line}`, the program printed:\n{output}"
            told = told[told.index(line) + 1 :]

    def first_hour(self, phone: Page) -> str:
        """Walk the guide to its end; return the name of its session."""
        init, up, link, answer, log = blocks(GUIDE, "console")
        (agent_asks,) = (block for block in blocks(GUIDE, "sh") if "hook claude" in block)
        self.agrees(init, on_a_terminal(self.run, "init", "--agent", "claude", typed="y\nn\n"))
        self.agrees(up, self.run("up", "--detach", code=0).out)
        printed = self.run("inbox", "--role", "approver", "--as", "phone", code=0).out
        self.agrees(link, printed)
        phone.goto(printed.strip())
        phone.get_by_role("button", name="Sign in on this browser").tap()
        expect(phone.get_by_text("live", exact=True)).to_be_visible(timeout=30_000)
        with self.shell(agent_asks) as agent:
            phone.locator(".rows > .entry", has_text="git push origin main").get_by_role("link").tap()
            card = phone.locator("article.card", has_text="git push origin main")
            expect(card).to_be_visible(timeout=30_000)
            button = card.get_by_role("button", name="Allow once", exact=True)
            button.scroll_into_view_if_needed()
            button.tap()
            out, err = agent.communicate(timeout=60)
        assert agent.returncode == 0, err
        self.agrees(answer, out)
        (session,) = re.findall(r'"session_id": "(hour-\d+)"', (self.project / "call.json").read_text())
        wait_until(lambda: "claimed" in self.run("log", session).out, "the claim of the call")
        self.agrees(log, self.run("log", session, code=0).out)
        return str(session)


@contextmanager
def phone_in_hand() -> Iterator[Page]:
    """Open a browser of the size of a phone."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_context(**PHONE).new_page()
        page.set_default_timeout(30_000)
        yield page
        browser.close()

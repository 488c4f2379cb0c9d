"""People who sign in at a real OpenID Connect provider, each with a real browser."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.gateway.inbox.fixtures import browser
from tests.support.gateways import RunningGateway
from tests.support.processes import free_port
from tests.support.servers import RealServer

__all__ = ["browser"]

pytestmark = [
    pytest.mark.agents("oidc-provider"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
]

SCRIPT: Final = Path(__file__).with_name("oidc_provider.mjs")

OIDC: Final = """
issuer = "{issuer}"
client_id = "permission-ledger"
client_secret_file = "oidc-secret"
label = "the shop's directory"

[[roles]]
group = "shop"
role = "approver"
projects = ["shop"]
"""


class Directory:
    """The provider as a process: who is in which group, and its keys."""

    def __init__(self, package: Path, folder: Path) -> None:
        self._package = package
        self._file = folder / "people.json"
        self._port = free_port()
        self.issuer = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[str] | None = None

    def start(self, gateway_url: str, **people: list[str]) -> None:
        """Start the provider; return when it listens."""
        self._uris = {"redirect_uri": f"{gateway_url}/v1/oidc/callback", "sign_out_uri": f"{gateway_url}/sign-in"}
        self.put(**people)
        # Node.js as it was installed beside the package: the machine's may be older than the provider wants.
        node = self._package.parent / ".bin" / "node"
        self._process = subprocess.Popen(
            [str(node), str(SCRIPT), str(self._package), str(self._port), str(self._file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._says("ready")

    def put(self, **people: list[str]) -> None:
        """Replace the groups of each person."""
        known = {name: {"groups": groups} for name, groups in people.items()}
        self._file.write_text(json.dumps({**self._uris, "people": known}))

    def take_new_key(self) -> None:
        """Take a new key; return when the old one is withdrawn."""
        assert self._process
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._says("key-2")

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()

    def _says(self, word: str) -> None:
        """Read up to this line, past the package's own notices."""
        assert self._process
        assert self._process.stdout
        assert word in (line.strip() for line in self._process.stdout), "the provider ended"


@pytest.fixture
def directory(program: Path, tmp_path: Path) -> Iterator[Directory]:
    one = Directory(program, tmp_path)
    yield one
    one.close()


@pytest.fixture
def gateway_of_the_directory(server: RealServer, directory: Directory, tmp_path: Path) -> Iterator[RunningGateway]:
    (tmp_path / "oidc.toml").write_text(OIDC.format(issuer=directory.issuer))
    (tmp_path / "oidc-secret").write_text("a-secret-of-the-test")
    running = RunningGateway(server, "--oidc", str(tmp_path / "oidc.toml"), with_pages=True)
    try:
        directory.start(running.page_url, ann=["shop"], bob=["guests"])
        running.start()
        yield running
    finally:
        running.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context()
    context.set_default_timeout(30_000)
    yield await context.new_page()
    await context.close()


async def goes_to_the_provider(page: Page, gateway: RunningGateway) -> None:
    await page.goto(f"{gateway.page_url}/sign-in")
    await page.get_by_role("link", name="Sign in with the shop's directory").click()


async def types_a_password(page: Page, name: str) -> None:
    """Fill in the provider's own pages: the password, then the consent."""
    await page.locator("input[name=login]").fill(name)
    await page.locator("input[name=password]").fill("any")
    await page.locator("button[type=submit]").click()
    await page.get_by_role("button", name="Continue").click()


async def is_in(page: Page, gateway: RunningGateway) -> None:
    """Return to the gateway, press the button, and check the signed-in person."""
    await page.get_by_role("button", name="Sign in on this browser").click()
    await expect(page.get_by_role("button", name="Sign in on this browser")).to_have_count(0)
    await page.goto(f"{gateway.page_url}/account")
    await expect(page.get_by_role("heading", name="ann@example.com")).to_be_visible()
    await expect(page.get_by_text("Role approver")).to_contain_text("Access to projects shop.")


async def test_a_person_signs_in_and_out_also_after_the_provider_took_a_new_key(
    gateway_of_the_directory: RunningGateway, directory: Directory, page: Page
) -> None:
    gateway = gateway_of_the_directory
    await goes_to_the_provider(page, gateway)
    await types_a_password(page, "ann")
    await is_in(page, gateway)
    await page.get_by_role("button", name="Sign out", exact=True).click()
    # The page goes on by itself, which would interrupt the next step.
    await expect(page.get_by_role("link", name="Sign in with the shop's directory")).to_be_visible()
    directory.take_new_key()
    await goes_to_the_provider(page, gateway)
    await types_a_password(page, "ann")  # with its key the provider has forgotten its own sessions
    await is_in(page, gateway)
    await page.get_by_role("button", name="Sign out here and at the shop's directory").click()
    await page.get_by_role("button", name="Yes, sign me out").click()
    await page.wait_for_url(f"{gateway.page_url}/sign-in**")
    await goes_to_the_provider(page, gateway)
    await expect(page.locator("input[name=login]")).to_be_visible()


async def test_a_person_whose_groups_are_gone_is_refused(
    gateway_of_the_directory: RunningGateway, directory: Directory, page: Page
) -> None:
    directory.put(ann=[])
    await goes_to_the_provider(page, gateway_of_the_directory)
    await types_a_password(page, "ann")
    await expect(page.get_by_text("is in no group that has a role here")).to_be_visible()

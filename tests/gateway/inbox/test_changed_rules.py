"""The band of rules that are not as they were trusted, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.gateway.inbox.visitors import Inbox
from tests.support.trusting import TrustedProject, of_its_own


async def test_changed_rules_are_told_on_every_page_until_they_are_trusted_again(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_its_own(monkeypatch, tmp_path / "config")
    project = TrustedProject(tmp_path / "shop", "claude", {"permissions": {"deny": ["Bash"]}})
    await inbox.session()
    ann = await inbox.visit("ann")
    band = ann.page.locator("#changed-rules")
    await expect(ann.page.locator("#connection")).to_have_text("live")
    await expect(band).to_be_hidden()
    project.write({"permissions": {"allow": ["Bash"]}})
    await ann.go("/sessions")
    await expect(band).to_contain_text(f"Rules changed: {project.rules} is not as it was trusted.")
    await expect(band).to_contain_text(f"permission-ledger config trust {project.file}")
    project.trust()
    await ann.go()
    await expect(ann.page.locator("#connection")).to_have_text("live")
    await expect(band).to_be_hidden()

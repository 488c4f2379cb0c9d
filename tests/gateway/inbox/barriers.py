"""Accessibility violations of a page, as axe finds them."""

from __future__ import annotations

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

SERIOUS = ("serious", "critical")


async def barriers(page: Page) -> list[str]:
    """The serious and critical violations, each with its element and description."""
    results = await Axe().run(page)
    return [
        f"{one['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
        for one in results.response["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]

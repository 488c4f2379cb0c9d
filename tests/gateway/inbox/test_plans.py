"""A plan on its card: drawn as its Markdown reads, with nothing loaded and nothing hidden."""

from __future__ import annotations

from playwright.async_api import expect

from tests.gateway.inbox.visitors import Inbox

PLAN = (
    "# Release 4.2\n\n1. Run **all** tests: `make test`\n2. Push the [tag](https://evil.example/tag)\n\n"
    "![pixel](https://evil.example/pixel.png)\n\n<img src=x onerror=alert(1)>\n\n"
    "```sh\ngit push origin v4.2\n```\n\n> Nothing else is touched."
)


async def test_a_plan_reads_as_markdown_and_shows_every_address_as_text(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("exitplanmode", ["*"], tool_name="ExitPlanMode", tool_input={"plan": PLAN}, request_id="r1")
    ann = await inbox.visit("ann", None)
    fetched: list[str] = []
    ann.page.on("request", lambda request: fetched.append(request.url))
    await ann.go()
    plan = ann.page.locator(".plan")
    await expect(plan.get_by_role("heading", name="Release 4.2")).to_be_visible()
    await expect(plan.get_by_role("listitem").nth(1)).to_have_text("2. Push the tag (https://evil.example/tag)")
    await expect(plan).to_contain_text("!pixel (https://evil.example/pixel.png)")
    await expect(plan).to_contain_text("<img src=x onerror=alert(1)>")
    assert await plan.locator("a, img").count() == 0
    assert [url for url in fetched if "evil" in url] == []
    await ann.page.get_by_text("As it was written").click()
    await expect(ann.page.locator(".prose")).to_have_text(PLAN)
    await ann.press("Release 4.2", "Go ahead")
    await expect(ann.page.get_by_text("Allowed by you (once)").first).to_be_visible()


async def test_a_long_plan_is_read_as_it_was_written_before_it_is_allowed(inbox: Inbox) -> None:
    session = await inbox.session()
    long = "\n\n".join(f"{number}. step **{number}**" for number in range(300))
    await session.submit("exitplanmode", ["*"], tool_name="ExitPlanMode", tool_input={"plan": long}, request_id="r1")
    ann = await inbox.visit("ann")
    await expect(ann.page.get_by_role("button", name="Show the unread part")).to_be_visible()
    await ann.page.get_by_text("Read it as Markdown").click()
    await expect(ann.page.locator(".plan").get_by_role("listitem").first).to_be_visible()

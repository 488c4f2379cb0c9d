"""A file of 500 lines on a card: its parts to jump to, and that a jump reads nothing."""

from __future__ import annotations

from playwright.async_api import expect

from tests.gateway.inbox.visitors import Inbox

FILE = "\n".join(f"def part_{line // 50}(order):" if line % 50 == 0 else f"    step({line})" for line in range(500))


async def test_a_long_file_has_its_functions_to_jump_to_and_stays_unread(inbox: Inbox) -> None:
    session = await inbox.session()
    tool_input = {"file_path": "/srv/shop/app.py", "content": FILE}
    await session.submit("edit", ["app.py"], tool_name="Write", tool_input=tool_input, request_id="r1")
    ann = await inbox.visit("ann")
    card = ann.card("app.py")
    await card.get_by_role("button", name="Show all of it").click()
    await card.get_by_text("Jump to one of 10 parts").click()
    await card.get_by_role("button", name="401 def part_8(order):").click()
    await expect(card.get_by_text("step(401)", exact=True)).to_be_in_viewport()
    await expect(card).to_contain_text("To allow this, scroll through all of it first.")


async def test_a_long_diff_lists_its_changed_parts_by_their_function(inbox: Inbox) -> None:
    session = await inbox.session()
    changed = FILE.replace("step(60)", "stop(60)").replace("step(410)", "stop(410)")
    tool_input = {"file_path": "/srv/shop/app.py", "old_string": FILE, "new_string": changed}
    await session.submit("edit", ["app.py"], tool_name="Edit", tool_input=tool_input, request_id="r1")
    ann = await inbox.visit("ann")
    card = ann.card("app.py")
    await card.get_by_role("button", name="Show all of it").click()
    await card.get_by_text("Jump to one of 2 parts").click()
    await expect(card.locator(".jumps li")).to_have_text(["61 def part_1(order):", "412 def part_8(order):"])

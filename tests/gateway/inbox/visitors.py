"""People with a browser, and the agent whose requests they see."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, Request, StorageState, expect

from ledger import Ledger, Session
from ledger.core.access_events import Role
from ledger.log.archive.archive import all_streams
from workers.projector import CatchingUp

PROOF_ENTRY = "permission-ledger.proof"
"""The name under which `proof.js` keeps a sign-in's second secret in the origin's storage."""

HOLD_ENTRY = "permission-ledger.hold"
"""The name under which `holding.js` keeps for how many seconds an answer can be taken back."""

LABELS = {"once": "Allow once", "session": "Allow in this session", "always": "Always allow in shop"}
"""The buttons of a card in project `shop`, by their reply."""

REMEMBERING = ("Allow in ", "Always allow ")
"""The beginnings of the answers that stand behind *Remember…*."""

PRESSES_MAX = 10
"""Presses of one button until a test gives up: on a busy machine a card may move between the look and the press."""

RULES = [
    {"permission": "bash", "pattern": "ls*", "action": "allow"},
    {"permission": "bash", "pattern": "rm *", "action": "deny"},
]


class Visitor:
    """A signed-in person, with the page they have open."""

    def __init__(self, inbox: Inbox, context: BrowserContext, page: Page) -> None:
        self.inbox = inbox
        self.context = context
        self.page = page
        self.faults: list[str] = []
        self.sent: list[str] = []
        """Addresses of the answers that the page has sent."""
        self.many: list[dict[str, Any]] = []
        """Bodies of the answers to several requests that the page has sent."""
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", lambda request: self.sent.append(request.url) if is_reply(request) else None)
        page.on("request", self._note_many)

    def _note_many(self, request: Request) -> None:
        if is_to_many(request):
            self.many.append(request.post_data_json or {})

    async def go(self, path: str = "/") -> None:
        await self.page.goto(f"{self.inbox.url}{path}")

    def card(self, text: str) -> Locator:
        """Return the card that shows this text."""
        return self.page.locator("article.card", has_text=text)

    def row(self, text: str) -> Locator:
        """Return the row of the list that shows this text."""
        return self.page.locator(".entry", has_text=text)

    async def open(self, text: str) -> None:
        """Open the card of the row that shows this text, unless it is open."""
        await expect(self.row(text).or_(self.card(text)).first).to_be_attached()
        if not await self.card(text).count():
            if not await self.row(text).first.is_visible():
                await self.page.get_by_role("button", name="List").click()
            await self.row(text).first.locator("a").click()
        await expect(self.card(text)).to_be_visible()

    async def more(self, text: str) -> Locator:
        """Open the card that shows this text, and what else is known of its request; return the card."""
        await self.open(text)
        await self.card(text).get_by_role("button", name="More", exact=True).click()
        return self.card(text)

    async def remember(self, text: str) -> Locator:
        """Open the form of what an answer may remember on the card that shows this text; return the card."""
        await self.open(text)
        if not await self.card(text).locator(".granting").count():
            await self.press_on(self.card(text), "Remember…")
        return self.card(text)

    async def press(self, text: str, button: str) -> None:
        """Press a button of the card that shows a text, after the one that leads to it."""
        await (self.remember if button.startswith(REMEMBERING) else self.open)(text)
        await self.press_on(self.card(text), button)

    async def press_on(self, card: Locator, button: str, *, by_key: bool = False) -> None:
        """Press a button of a card; as a person does, again where the press was refused because the list had just changed."""
        for _ in range(PRESSES_MAX):
            element = await card.element_handle()
            await element.evaluate("card => card.classList.remove('moved')")
            # Nothing can be allowed before it was on the screen. The foot stays; its buttons are made anew at times.
            await element.evaluate("card => card.querySelector('.foot').scrollIntoView({ block: 'nearest' })")
            if by_key:
                # A refused key starts the delay anew, so that keys in quick succession are all refused.
                await expect(self.page.locator(".deck[data-quiet]")).to_have_count(1)
            found = card.get_by_role("button", name=button, exact=True)
            await (found.press("Enter") if by_key else found.click())
            if not await element.evaluate("card => card.classList.contains('moved')"):
                return
            announcer = self.page.locator("#announcer")
            await expect(announcer).not_to_be_empty()
            if "has just changed" not in await announcer.inner_text():
                return
        raise AssertionError(f"`{button}` was refused {PRESSES_MAX} times, because the list went on changing")


class Inbox:
    """A gateway, its ledger and its address."""

    def __init__(self, ledger: Ledger, browser: Browser, url: str, stack: AsyncExitStack) -> None:
        self.ledger = ledger
        self.url = url
        self._browser = browser
        self._stack = stack
        self._visitors: list[Visitor] = []

    async def close(self) -> None:
        faults = [fault for one in self._visitors for fault in one.faults]
        for one in self._visitors:
            await one.context.close()
        assert faults == [], f"a script of the page failed: {faults}"

    async def visit(
        self, name: str, path: str | None = "/", *, role: Role = "approver", hold: int = 0, **options: Any
    ) -> Visitor:
        """Open a browser of the person's own, signed in; `path` None opens nothing yet. Answers leave after `hold` s."""
        options = {"viewport": {"width": 1200, "height": 900}, **options}
        token = (await self.ledger.tokens.create(name, role)).text
        visitor = await self.stranger(**options, storage_state=await self._signed_in(token, hold))
        if path is not None:
            await visitor.go(path)
        return visitor

    async def stranger(self, **options: Any) -> Visitor:
        """A browser without a sign-in."""
        context = await self._browser.new_context(**options)
        context.set_default_timeout(30_000)
        visitor = Visitor(self, context, await context.new_page())
        self._visitors.append(visitor)
        return visitor

    async def _signed_in(self, token: str, hold: int) -> StorageState:
        """Return what a browser stores after signing in: the host's cookie, and the proof in the origin's storage."""
        context = await self._browser.new_context()
        try:
            answer = await context.request.post(
                f"{self.url}/v1/sign-in", data={"token": token}, headers={"Origin": self.url}
            )
            proof = (await answer.json())["proof"]
            state = await context.storage_state()
        finally:
            await context.close()
        entries = {PROOF_ENTRY: proof, HOLD_ENTRY: str(hold)}
        kept = [{"name": name, "value": value} for name, value in entries.items()]
        state["origins"] = [{"origin": self.url, "localStorage": kept}]  # type: ignore[typeddict-item]
        return state

    async def session(self, session_id: str = "ses_1", **more: Any) -> Session:
        return await self.ledger.session(session_id, **{"project": "shop", "rules": RULES, "agent": "build", **more})

    async def project(self) -> None:
        """Bring the views up to date, as a projector does."""
        await CatchingUp(self.ledger).catch_up_all([key async for key in all_streams(self.ledger.store)])


def is_reply(request: Request) -> bool:
    return request.method == "POST" and request.url.endswith("/reply")


def is_to_many(request: Request) -> bool:
    return request.method == "POST" and request.url.endswith("/v1/pending/replies")

"""An agent that serves a page on another port of the approver's machine. Browsers send it the inbox's cookie: cookies know
no ports. With that it neither reads nor answers, from its page or from its own process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from playwright.async_api import expect

from ledger.access.state import CreateToken
from ledger.client.tokens import digest_of
from ledger.core.events import Actor
from tests.attacks.preview import Preview, preview
from tests.gateway.inbox.test_answer_page import link_to
from tests.gateway.inbox.visitors import HOLD_ENTRY, Inbox, Visitor
from workers.gateway.authentication import COOKIE, PROOF_HEADER
from workers.gateway.inbox.pages import served_files

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET_WORDS: Final = "git push a-secret-place"

# Every way a page can read; each returns the text it obtained.
READ: Final = """async ([inbox, address]) => {
  const url = inbox + address;
  const loaded = (element) => new Promise((resolve) => {
    element.onload = element.onerror = () => resolve(element);
    document.body.append(element);
  });
  const textOf = async (init) => (await fetch(url, { credentials: "include", ...init })).text();
  const asked = () => new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.withCredentials = true;
    request.open("GET", url);
    request.onload = () => resolve(request.responseText);
    request.onerror = () => reject(new TypeError());
    request.send();
  });
  const streamed = () => new Promise((resolve) => {
    const source = new EventSource(inbox + "/v1/events", { withCredentials: true });
    source.addEventListener("permission.asked", ({ data }) => resolve(data));
    source.onerror = () => { source.close(); resolve(""); };
  });
  const spoken = () => new Promise((resolve) => {
    const socket = new WebSocket(inbox.replace("http", "ws") + "/v1/events");
    socket.onmessage = ({ data }) => resolve(data);
    socket.onerror = () => resolve("");
  });
  const framed = async () => {
    const frame = await loaded(Object.assign(document.createElement("iframe"), { src: url }));
    return frame.contentDocument?.body.textContent ?? "";
  };
  const stored = async () => {
    const frame = await loaded(Object.assign(document.createElement("iframe"), { src: inbox + "/" }));
    return JSON.stringify(frame.contentWindow.localStorage);
  };
  const run = async () => {
    let text = "";
    window.onerror = (message) => { text += message; };
    await loaded(Object.assign(document.createElement("script"), { src: url }));
    return text;
  };
  const workers = async () => {
    const { active } = (await navigator.serviceWorker.register("/worker.js"), await navigator.serviceWorker.ready);
    const channel = new MessageChannel();
    const answer = new Promise((resolve) => { channel.port1.onmessage = ({ data }) => resolve(data); });
    active.postMessage({ url, init: { credentials: "include" } }, [channel.port2]);
    return answer;
  };
  const ways = {
    fetch: () => textOf({}),
    "fetch without CORS": () => textOf({ mode: "no-cors" }),
    "fetch with a header": () => textOf({ headers: { "Permission-Ledger-Proof": "x" } }),
    XMLHttpRequest: asked, EventSource: streamed, WebSocket: spoken, iframe: framed, script: run,
    "storage of a frame": stored, "service worker": workers,
    "own storage": async () => Object.keys(localStorage).join(), "own cookies": async () => document.cookie,
  };
  const got = {};
  for (const [name, way] of Object.entries(ways)) {
    try { got[name] = await way(); } catch (error) { got[name] = error instanceof TypeError || error instanceof DOMException ? "" : String(error); }
  }
  return got;
}"""

# Every way a page can send. The answer is ignored: the log shows whether it counted.
ANSWER: Final = """async ([inbox, address]) => {
  const url = inbox + address;
  const body = JSON.stringify({ reply: "always" });
  const quietly = (promise) => promise.then(() => {}, () => {});
  for (const mode of ["cors", "no-cors"])
    for (const type of ["application/json", "text/plain", "application/x-www-form-urlencoded"])
      await quietly(fetch(url, { method: "POST", mode, credentials: "include", headers: { "Content-Type": type }, body }));
  navigator.sendBeacon(url, body);
  const { active } = (await navigator.serviceWorker.register("/worker.js"), await navigator.serviceWorker.ready);
  const channel = new MessageChannel();
  const answer = new Promise((resolve) => { channel.port1.onmessage = resolve; });
  active.postMessage({ url, init: { method: "POST", mode: "no-cors", credentials: "include", body } }, [channel.port2]);
  await answer;
  const frame = Object.assign(document.createElement("iframe"), { name: "target" });
  const form = Object.assign(document.createElement("form"), { action: url, method: "post", enctype: "text/plain", target: "target" });
  form.append(Object.assign(document.createElement("input"), { name: '{"reply":"always","message":"', value: '"}' }));
  document.body.append(frame, form);
  await new Promise((resolve) => { frame.onload = resolve; form.submit(); });
}"""

SEND_A_FORM: Final = """([inbox, address]) => {
  const form = Object.assign(document.createElement("form"), { action: inbox + address, method: "post" });
  form.append(Object.assign(document.createElement("input"), { name: "reply", value: "always" }));
  document.body.append(form);
  form.submit();
}"""


@pytest.fixture
def agent_page() -> Iterator[Preview]:
    with preview() as one:
        yield one


async def visited(inbox: Inbox, agent_page: Preview) -> tuple[Visitor, Any]:
    """Ann, signed in and with a pending request; and the agent's page, which she has opened in another tab."""
    session = await inbox.session()
    await session.submit("bash", [SECRET_WORDS], request_id="r1")
    ann = await inbox.visit("ann", role="admin")
    await expect(ann.card(SECRET_WORDS)).to_be_visible()
    opened = await ann.context.new_page()
    await opened.goto(agent_page.url)
    assert cookie_at(inbox) in agent_page.cookies, (
        "the browser keeps cookies of ports apart: these tests prove nothing any more"
    )
    return ann, opened


def cookie_at(inbox: Inbox) -> str:
    return f"{COOKIE}_{inbox.url.rpartition(':')[2]}"


async def still_waits(inbox: Inbox, ann: Visitor) -> None:
    """Check that nothing was answered, granted or ended, and that ann can still answer."""
    result = await (await inbox.ledger.attach("ses_1")).result("r1")
    assert result.outcome is None
    assert (await inbox.ledger.grants_anywhere()).rows == []
    await ann.press(SECRET_WORDS, "Allow once")
    await expect(ann.card(SECRET_WORDS)).to_contain_text("Allowed by you (once)")


async def test_reading_the_inbox_from_the_page_of_another_port(inbox: Inbox, agent_page: Preview) -> None:
    ann, opened = await visited(inbox, agent_page)
    for address in ("/v1/pending", "/v1/me", "/v1/sessions/ses_1/log"):
        got = await opened.evaluate(READ, [inbox.url, address])
        assert {name: text for name, text in got.items() if text} == {}
        # Whatever the page does with the window it has opened, the browser shows nothing there.
        shown = await opened.context.new_page()
        answer = await shown.goto(f"{inbox.url}{address}")
        assert answer
        assert (answer.status, (await answer.json())["code"]) == (401, "SIGN_IN_AGAIN")
        await shown.close()
    await still_waits(inbox, ann)


async def test_answering_from_the_page_of_another_port(inbox: Inbox, agent_page: Preview) -> None:
    ann, opened = await visited(inbox, agent_page)
    address = "/v1/sessions/ses_1/asks/r1/reply"
    await opened.evaluate(ANSWER, [inbox.url, address])
    async with opened.expect_navigation():
        await opened.evaluate(SEND_A_FORM, [inbox.url, address])
    await still_waits(inbox, ann)


async def test_answering_with_the_cookie_from_the_agent_s_own_process(inbox: Inbox, agent_page: Preview) -> None:
    ann, _ = await visited(inbox, agent_page)
    held = agent_page.cookies[cookie_at(inbox)]
    replayed = {
        "Cookie": f"{cookie_at(inbox)}={held}",
        "Origin": inbox.url,
        "Sec-Fetch-Site": "same-origin",
    }
    reply = "/v1/sessions/ses_1/asks/r1/reply"
    async with httpx.AsyncClient(base_url=inbox.url, headers=replayed) as http:
        for proof in (None, "", "guessed", held, digest_of(held)):
            headers = {} if proof is None else {PROOF_HEADER: proof}
            for method, path, body in (
                ("GET", "/v1/me", None),
                ("GET", "/v1/pending", None),
                ("GET", "/v1/events", None),
                ("GET", "/permission", None),
                ("POST", reply, {"reply": "always"}),
                ("POST", "/permission/r1/reply", {"reply": "always"}),
                ("POST", "/v1/tokens", {"name": "eve", "role": "admin"}),
                ("POST", "/v1/grants", {"project": "shop", "permission": "*", "pattern": "*"}),
            ):
                refused = await http.request(method, path, json=body, headers=headers)
                assert refused.status_code == 401, (method, path, refused.text)
        # The page is the same for everybody: with the cookie it has no request either.
        page = await http.get("/")
        assert (page.status_code, page.content) == (200, served_files()["inbox.html"].content)
        # Nor is the approver signed out by it.
        assert (await http.post("/v1/sign-out")).status_code == 204
    await still_waits(inbox, ann)


async def test_making_the_approver_answer_as_somebody_else(inbox: Inbox, agent_page: Preview) -> None:
    made = await inbox.ledger.tokens.create("eve", "admin")
    async with httpx.AsyncClient(base_url=inbox.url, headers={"Origin": inbox.url}) as http:
        await http.post("/v1/sign-in", json={"token": made.text})
        agent_page.planted = f"{cookie_at(inbox)}={http.cookies[cookie_at(inbox)]}"
    ann, _ = await visited(inbox, agent_page)
    await ann.page.reload()
    await expect(ann.page.get_by_text("Sign in again: this browser has only the cookie")).to_be_visible()
    assert (await (await inbox.ledger.attach("ses_1")).result("r1")).outcome is None
    # The link of a notification needs no cookie, and a wrong one has no effect on it.
    await ann.page.goto(await link_to(inbox, "r1"))
    await ann.page.get_by_role("button", name="Allow once").click()
    await expect(ann.page.get_by_role("heading", level=1)).to_have_text("Allowed by you (once)")


async def test_a_cookie_from_before_the_second_proof_signs_in_again_and_is_told_why(inbox: Inbox) -> None:
    old = CreateToken(
        actor=Actor("person", "ann", "inbox"),
        token_id="tok_old",
        name="ann",
        role="approver",
        digest=digest_of("secret"),
        use="browser",
    )
    await inbox.ledger.streams.access().submit(old)
    await (await inbox.session()).submit("bash", [SECRET_WORDS], request_id="r1")
    ann = await inbox.stranger()
    await ann.context.add_cookies([{"name": cookie_at(inbox), "value": "plt_tok_old_secret", "url": inbox.url}])
    await ann.go("/sessions/ses_1#1")
    await expect(ann.page.get_by_text("Sign in again: this browser has only the cookie")).to_be_visible()
    token = (await inbox.ledger.tokens.create("ann", "approver")).text
    await ann.page.get_by_label("Your token").fill(token)
    await ann.page.get_by_role("button", name="Sign in").click()
    await expect(ann.page.get_by_role("heading", name="ses_1")).to_be_visible()


async def test_a_second_tab_and_a_reload_are_signed_in_and_signing_out_ends_both(inbox: Inbox) -> None:
    await (await inbox.session()).submit("bash", [SECRET_WORDS], request_id="r1")
    ann = await inbox.visit("ann", role="admin")
    await ann.page.reload()
    await expect(ann.card(SECRET_WORDS)).to_be_visible()
    second = await ann.context.new_page()
    await second.goto(f"{inbox.url}/account")
    await expect(second.get_by_role("heading", level=1)).to_have_text("ann")
    await second.get_by_role("button", name="Sign out").click()
    await expect(second).to_have_url(f"{inbox.url}/")
    await expect(second.get_by_label("Your token")).to_be_visible()
    kept = await second.evaluate("Object.keys(localStorage)")
    assert kept == [HOLD_ENTRY], "a setting of this browser, and no secret"
    await ann.page.reload()
    await expect(ann.page.get_by_label("Your token")).to_be_visible()


async def test_a_browser_that_keeps_no_site_data_is_told_that_signing_in_needs_it(inbox: Inbox) -> None:
    token = (await inbox.ledger.tokens.create("ann", "approver")).text
    ann = await inbox.stranger()
    await ann.page.add_init_script(
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }"
    )
    await ann.go()
    await ann.page.get_by_label("Your token").fill(token)
    await ann.page.get_by_role("button", name="Sign in").click()
    await expect(ann.page.get_by_role("alert")).to_contain_text("This browser keeps no data for this address")
    assert [cookie for cookie in await ann.context.cookies() if cookie.get("name") == cookie_at(inbox)] == []


async def test_running_a_script_by_making_markup_on_the_page(inbox: Inbox) -> None:
    await (await inbox.session()).submit("bash", [SECRET_WORDS], request_id="r1")
    ann = await inbox.visit("ann")
    await expect(ann.card(SECRET_WORDS)).to_be_visible()
    for sink in (
        "document.body.innerHTML = '<b>x</b>'",
        "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
        "document.createElement('script').src = '/inbox/js/main.js'",
        "document.createElement('iframe').srcdoc = '<b>x</b>'",
        "trustedTypes.createPolicy('mine', { createHTML: (text) => text })",
        "new DOMParser().parseFromString('<b>x</b>', 'text/html')",
    ):
        kept_out = f"() => {{ try {{ {sink}; return null; }} catch (error) {{ return error.name; }} }}"
        assert await ann.page.evaluate(kept_out) == "TypeError", sink

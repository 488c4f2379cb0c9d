"""The script that joins the inbox's modules does what the modules would do, in a real browser."""

from __future__ import annotations

from playwright.async_api import Browser

from tests.support.waiting import wait_until_async
from workers.gateway.inbox.pages import bundled


async def test_imports_are_evaluated_once_and_in_order_also_in_a_cycle(browser: Browser) -> None:
    modules = {
        "js/main.js": 'import { one } from "./pages/a.js";\nimport * as b from "./b.js";\n'
        "export function here() { return `main ${b.NAME}`; }\nconsole.log(one());\nconsole.log(new b.Box().text);\n",
        "js/pages/a.js": 'import { here } from "../main.js";\nimport { NAME } from "../b.js";\n'
        'console.log("a");\nexport function one() { return `${NAME}, ${here()}`; }\n',
        "js/b.js": '// Left out.\n/** Left out\n    too. */\nconsole.log("b");\nexport const NAME = "b // kept";\n'
        "export class Box {\n  text = `/* kept */`;\n}\nexport async function unused() {}\n",
    }
    script = bundled(modules, "js/main.js")
    assert "Left out" not in script
    said: list[str] = []
    async with await browser.new_page() as page:
        page.on("console", lambda message: said.append(message.text))
        await page.add_script_tag(content=script, type="module")
        await wait_until_async(lambda: len(said) >= 4, "the script to say its four lines")
    assert said == ["b", "a", "b // kept, main b // kept", "/* kept */"]

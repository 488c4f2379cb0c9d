"""The inbox's modules as one script: what it runs, what it refuses, and how browsers may keep it."""

from __future__ import annotations

import msgspec
import pytest

from tests.gateway.callers import Served
from workers.gateway.inbox import pages
from workers.gateway.inbox.pages import SHELL, WORKER, Joining, bundled, following, served_files, static_files


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('import one from "./b.js";', "an import or export of another form"),
        ('import { one as two } from "./b.js";', "an import or export of another form"),
        ("export default 1;", "an import or export of another form"),
        ("export let one = 1;", "an import or export of another form"),
        ('import { one } from "./none.js";', "has no module `js/none.js`"),
    ],
)
def test_what_it_cannot_join_is_refused(line: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        bundled({"js/main.js": f"{line}\n", "js/b.js": ""}, "js/main.js")


@pytest.mark.parametrize(
    ("imported", "source"),
    [
        ("{ Box }", "export class Box {}\n"),
        ("{ ONE }", "export const ONE = 1;\n"),
        ("{ run, Box }", "export async function run() {}\nexport class Box {}\n"),
        ("* as b", "export function run() {}\n"),
    ],
)
def test_of_a_module_that_arrives_later_only_functions_can_be_imported(imported: str, source: str) -> None:
    modules = {"js/main.js": f'import {imported} from "./b.js";\n', "js/b.js": source}
    with pytest.raises(ValueError, match=r"`js/b\.js` arrives later, so only its functions can be imported"):
        bundled(modules, "js/main.js", Joining(following={"js/b.js"}))


def test_a_module_that_no_script_has_cannot_be_fetched() -> None:
    with pytest.raises(ValueError, match=r"no script has the module `js/b\.js`, which `js/main\.js` fetches"):
        bundled({"js/main.js": 'import("./b.js");\n', "js/b.js": ""}, "js/main.js")


def test_the_script_that_follows_has_its_modules_and_those_that_only_they_import() -> None:
    modules = {
        "js/main.js": 'import { run } from "./b.js";\nimport { one } from "./both.js";\n',
        "js/b.js": 'import { one } from "./both.js";\nimport { two } from "./own.js";\nexport function run() {}\n',
        "js/both.js": "export function one() {}\n",
        "js/own.js": "export function two() {}\n",
    }
    around = Joining(following={"js/b.js"})
    first = bundled(modules, "js/main.js", around)
    rest = following(modules, around, present={"js/main.js", "js/both.js"})
    assert [path for path in modules if f'$modules["{path}"] =' in first] == ["js/main.js", "js/both.js"]
    assert [path for path in modules if f'$modules["{path}"] =' in rest] == ["js/b.js", "js/own.js"]


@pytest.mark.parametrize("text", ["x </script> y", "</STYLE", "<!-- x"])
def test_text_that_would_end_an_element_of_the_page_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    known = static_files()
    changed = msgspec.structs.replace(known[pages.FOLLOWING_SHEET], content=text.encode())
    monkeypatch.setattr(pages, "static_files", lambda: {**known, pages.FOLLOWING_SHEET: changed})
    with pytest.raises(ValueError, match="cannot stand in a script or style within the page"):
        pages.page_parts.__wrapped__()


def test_each_module_of_the_inbox_is_in_one_of_its_scripts() -> None:
    (later,) = [file.content.decode() for path, file in served_files().items() if path.startswith("later.")]
    page = served_files()[SHELL].content.decode()
    modules = {path for path in static_files() if path.endswith(".js")} - {WORKER}
    assert {path: (page + later).count(f'$modules["{path}"] =') for path in modules} == dict.fromkeys(modules, 1)


async def test_a_file_with_its_digest_in_its_name_is_kept_and_the_page_is_asked_for_anew(gateway: Served) -> None:
    stranger = gateway.caller_with(None)
    page = await stranger.get("/")
    (name,) = [path for path in served_files() if path.startswith("later.")]
    assert f'import("/inbox/{name}")' in page.text
    script = await stranger.get(f"/inbox/{name}")
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (page.headers["cache-control"], script.headers["content-encoding"]) == ("no-cache", "gzip")
    assert (await stranger.get("/inbox/later.0000000000000000.js")).status_code == 404

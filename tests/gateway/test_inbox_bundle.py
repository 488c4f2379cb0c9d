"""The inbox's modules as one script: what it runs, what it refuses, and how browsers may keep it."""

from __future__ import annotations

import pytest

from tests.gateway.callers import Served
from workers.gateway.inbox.bundle import bundled
from workers.gateway.inbox.files import WORKER, served_files, static_files


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


def test_all_modules_of_the_inbox_are_in_the_script() -> None:
    (script,) = [file.content.decode() for path, file in served_files().items() if path.startswith("app.")]
    modules = {path for path in static_files() if path.endswith(".js")} - {WORKER}
    assert {path for path in modules if f'$modules["{path}"]' not in script} == set()


async def test_a_file_with_its_digest_in_its_name_is_kept_and_the_page_is_asked_for_anew(gateway: Served) -> None:
    stranger = gateway.caller_with(None)
    page = await stranger.get("/")
    (name,) = [path for path in served_files() if path.startswith("app.")]
    assert f'src="/inbox/{name}"' in page.text
    script = await stranger.get(f"/inbox/{name}")
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (page.headers["cache-control"], script.headers["content-encoding"]) == ("no-cache", "gzip")
    assert (await stranger.get("/inbox/app.0000000000000000.js")).status_code == 404

"""The files of the inbox: served to everybody, with headers that let nothing else run."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from hashlib import sha256

import pytest

from tests.gateway.callers import Caller, Served
from workers.gateway.inbox.pages import served_files, static_files


@pytest.fixture
async def stranger(gateway: Served) -> Caller:
    return await gateway.caller(None)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/sign-in?code=x",
        "/sessions",
        "/sessions/ses%2F1",
        "/requests/r%2F1?session=s",
        "/next",
        "/grants",
        "/account",
        "/notifications",
    ],
)
async def test_every_page_is_the_same_file_and_runs_only_our_own(stranger: Caller, path: str) -> None:
    page = await stranger.get(path)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.content == served_files()["inbox.html"].content
    policy = page.headers["content-security-policy"]
    scripts, styles = hashes(page.text, "script"), hashes(page.text, "style")
    assert policy == (
        f"default-src 'none'; script-src 'self' {' '.join(scripts)}; style-src {' '.join(styles)}; "
        "connect-src 'self'; img-src 'self' data:; "
        "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types service-worker"
    )
    for name, value in (
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-cache"),
    ):
        assert page.headers[name] == value


def hashes(page: str, tag: str) -> list[str]:
    """The hashes of the elements of this tag, as a browser computes them; each of them has its text in the page."""
    texts = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    assert page.count(f"<{tag}") == len(texts) > 1
    return [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts]


async def test_a_browser_that_has_a_file_is_not_sent_it_again(stranger: Caller) -> None:
    first = await stranger.get("/inbox/js/main.js")
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    assert first.headers["content-encoding"] == "gzip"
    again = await stranger.get("/inbox/js/main.js", If_None_Match=first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    plain = await stranger.get("/inbox/js/main.js", Accept_Encoding="identity")
    assert plain.content == first.content == static_files()["js/main.js"].content


@pytest.mark.parametrize("path", ["/inbox/none.js", "/inbox/../app.py", "/inbox/..%2f..%2fapp.py", "/inbox/js"])
async def test_nothing_else_is_served(stranger: Caller, path: str) -> None:
    refused = await stranger.get(path)
    assert (refused.status_code, refused.json()["code"]) == (404, "NOT_FOUND")


def test_every_file_that_a_page_names_is_there_and_none_is_of_another_host() -> None:
    files = static_files()
    texts = {path: file.content.decode() for path, file in files.items() if not path.endswith(".png")}
    named = set(re.findall(r'(?:href|src)="/inbox/([^"]+)"', texts["inbox.html"]))
    imported = {
        "/".join(_resolved(path, name))
        for path, text in texts.items()
        if path.endswith(".js")
        for name in re.findall(r'(?:from "|import\(")(\.[^"]+)"', text)
    }
    drawn = {name for text in texts.values() for name in re.findall(r'"/inbox/([^"]+[.]png)"', text)}
    assert (named | imported | drawn) - set(files) == set()
    assert set(files) - named - imported - drawn == {"inbox.html", "js/worker.js"}
    elsewhere = [path for path, text in texts.items() if re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)]
    assert elsewhere == []


def _resolved(path: str, name: str) -> list[str]:
    parts = path.split("/")[:-1]
    for part in name.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return parts


def test_no_script_makes_markup_of_text() -> None:
    unsafe = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
    scripts = {path: file.content.decode() for path, file in static_files().items() if path.endswith(".js")}
    code = {path: re.sub(r"//.*", "", text) for path, text in scripts.items()}
    assert [path for path, text in code.items() if unsafe.search(text)] == []


async def test_the_service_worker_serves_all_pages_and_calls_this_gateway_alone(stranger: Caller) -> None:
    worker = await stranger.get("/sw.js")
    assert (worker.status_code, worker.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert worker.content == static_files()["js/worker.js"].content
    assert worker.headers["content-security-policy"] == "default-src 'none'; connect-src 'self'; img-src 'self'"
    assert worker.headers["cache-control"] == "no-cache"


async def test_the_page_can_be_installed_with_icons_of_the_sizes_that_it_names(stranger: Caller) -> None:
    manifest = json.loads(static_files()["inbox.webmanifest"].content)
    assert (manifest["display"], manifest["start_url"], manifest["scope"]) == ("standalone", "/", "/")
    pngs = [icon for icon in manifest["icons"] if icon["type"] == "image/png"]
    assert {(icon["sizes"], icon.get("purpose")) for icon in pngs} == {
        ("192x192", None),
        ("512x512", None),
        ("512x512", "maskable"),
    }
    for icon in pngs:
        answer = await stranger.get(icon["src"])
        assert answer.headers["content-type"] == "image/png"
        width, height = struct.unpack("!LL", answer.content[16:24])
        assert f"{width}x{height}" == icon["sizes"]

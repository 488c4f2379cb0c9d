"""The files of the inbox as they are sent: read once, compressed once, with an `etag` of their content.

The page contains the styles and the scripts that draw the list of requests: on a slow connection a second file would
cost another round trip. The scripts of all other pages are one file, which is fetched after the list.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

from workers.gateway.inbox.bundle import Joining, bundled, following, reached

MEDIA_TYPES: Final = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}
"""Servable file types; a file of another type prevents the gateway from starting."""

WORKER: Final = "js/worker.js"
"""The service worker, which browsers load from another address."""

EARLY: Final = "js/early.js"
"""The first script of the page: it asks for the first requests while the rest of the page is on its way."""

ENTRY: Final = "js/main.js"
LATER: Final = "js/later.js"
"""The module that imports the other pages."""

FOLLOWING: Final = frozenset(
    {
        "js/answering.js",
        "js/explaining.js",
        "js/frozen.js",
        "js/holding.js",
        "js/keys.js",
        "js/load.js",
        "js/lock.js",
        "js/presence.js",
        "js/selection-grants.js",
        "js/stream.js",
        "js/unsent.js",
        "js/worker-storage.js",
    }
)
"""Modules of the page that nothing calls before the list is drawn: they stand at its end."""

FOLLOWING_SHEET: Final = "css/pages.css"
DIGEST_CHARS: Final = 16
_SHEET: Final = re.compile(r'<link rel="stylesheet" href="/inbox/([^"]+)">')
_SHEET_LINK: Final = re.compile(r'\s*<link rel="stylesheet" href="/inbox/[^"]+">')
_ENTRY_TAG: Final = f'\n  <script type="module" src="/inbox/{ENTRY}"></script>'
_LAST: Final = '  <div id="whole" hidden></div>\n'
_ENDS: Final = re.compile(r"</(?:script|style)|<!--", re.IGNORECASE)
"""Text that would end an element of the page, or change how it is read."""

SHELL: Final = "inbox.html"
"""The one page; its address selects the part that is shown."""


class StaticFile(msgspec.Struct, frozen=True):
    """A file to serve. `etag` changes with the content, so that a browser can revalidate its copy."""

    media_type: str
    content: bytes
    compressed: bytes
    etag: str
    is_immutable: bool = False
    """The content never changes under this path, which has its digest."""


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files by their path below the folder `static`, for example `js/card.js`."""
    return {path: _read(path, file) for path, file in _below(files(__package__) / "static", "")}


class PageParts(msgspec.Struct, frozen=True):
    """The inbox as it is served: the texts within the page, and the script that is fetched later, with its path."""

    style: str
    early: str
    main: str
    following_style: str
    following: str
    later_path: str
    later: str


@cache
def page_parts() -> PageParts:
    """Return the parts of the page. Raises ValueError for a text that cannot stand within a page."""
    texts = {path: file.content.decode() for path, file in static_files().items() if not path.endswith(".png")}
    scripts = {path: text for path, text in texts.items() if path.endswith(".js")}
    at_first = reached(scripts, EARLY)
    drawing = {*at_first, *reached(scripts, ENTRY, without=FOLLOWING)}
    later = bundled(scripts, LATER, Joining({*at_first, *reached(scripts, ENTRY)}))
    later_path = f"later.{sha256(later.encode()).hexdigest()[:DIGEST_CHARS]}.js"
    around = Joining(at_first, FOLLOWING, {LATER: f"/inbox/{later_path}"})
    sheets = [path for path in _SHEET.findall(texts[SHELL]) if path != FOLLOWING_SHEET]
    return PageParts(
        style=_within("".join(texts[path] for path in sheets)),
        early=_within(bundled(scripts, EARLY)),
        main=_within(bundled(scripts, ENTRY, around)),
        following_style=_within(texts[FOLLOWING_SHEET]),
        following=_within(following(scripts, around, drawing)),
        later_path=later_path,
        later=later,
    )


@cache
def served_files() -> dict[str, StaticFile]:
    """Return the files as they are served: those of the folder, the page with its styles and scripts, and the later script.

    The later script has the digest of its content in its name, so that a browser that has it asks for nothing.
    """
    parts = page_parts()
    page = _SHEET_LINK.sub("", static_files()[SHELL].content.decode()).replace(
        _ENTRY_TAG, f"\n  <script>{parts.early}</script>\n  <style>{parts.style}</style>"
    )
    rest = f"<style>{parts.following_style}</style>\n<script>{parts.following}</script>"
    page = page.replace(_LAST, f"<script>{parts.main}</script>\n{rest}\n{_LAST}")
    later = _file(parts.later_path, parts.later.encode(), is_immutable=True)
    return {**static_files(), SHELL: _file(SHELL, page.encode()), parts.later_path: later}


@cache
def inline_hashes() -> Mapping[str, tuple[str, ...]]:
    """Return the hashes of the texts within the page, for the directives `script-src` and `style-src`."""
    parts = page_parts()
    scripts, styles = (parts.early, parts.main, parts.following), (parts.style, parts.following_style)
    return {"script-src": tuple(map(_hash, scripts)), "style-src": tuple(map(_hash, styles))}


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _within(text: str) -> str:
    """Return a text that can stand within an element of the page. Raises ValueError for one that cannot."""
    found = _ENDS.search(text)
    if found is not None:
        raise ValueError(f"`{found[0]}` cannot stand in a script or style within the page")
    return text


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{prefix}{one.name}"
        found += _below(one, f"{path}/") if one.is_dir() else [(path, one)]
    return found


def _read(path: str, file: Traversable) -> StaticFile:
    return _file(path, file.read_bytes())


def _file(path: str, content: bytes, *, is_immutable: bool = False) -> StaticFile:
    return StaticFile(
        media_type=MEDIA_TYPES[path.rpartition(".")[2]],
        content=content,
        compressed=gzip.compress(content, mtime=0),
        etag=f'"{sha256(content).hexdigest()[:32]}"',
        is_immutable=is_immutable,
    )

"""The files of the inbox as they are sent: read once, compressed once, with an `etag` of their content."""

from __future__ import annotations

import gzip
import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

from workers.gateway.inbox.bundle import bundled

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

ENTRY: Final = "js/main.js"
DIGEST_CHARS: Final = 16
_SHEET: Final = re.compile(r'<link rel="stylesheet" href="/inbox/([^"]+)">')
_SHEET_LINK: Final = re.compile(r'\s*<link rel="stylesheet" href="/inbox/[^"]+">')

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


@cache
def served_files() -> dict[str, StaticFile]:
    """Return the files as they are served: those of the folder, and a page that loads one script and one style sheet.

    These two have the digest of their content in their name, so that a browser that has them asks for nothing.
    """
    found = dict(static_files())
    texts = {path: file.content.decode() for path, file in found.items() if not path.endswith(".png")}
    page = texts[SHELL]
    script = _named("app", "js", bundled({path: text for path, text in texts.items() if path.endswith(".js")}, ENTRY))
    sheets = [path for path in _SHEET.findall(page) if path.endswith(".css")]
    style = _named("style", "css", "".join(texts[path] for path in sheets))
    for path, content in (script, style):
        found[path] = _file(path, content.encode(), is_immutable=True)
    page = _SHEET_LINK.sub("", page).replace(
        f'<script type="module" src="/inbox/{ENTRY}"></script>',
        f'<link rel="stylesheet" href="/inbox/{style[0]}">\n  <script type="module" src="/inbox/{script[0]}"></script>',
    )
    found[SHELL] = _file(SHELL, page.encode())
    return found


def _named(name: str, kind: str, content: str) -> tuple[str, str]:
    return f"{name}.{sha256(content.encode()).hexdigest()[:DIGEST_CHARS]}.{kind}", content


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
